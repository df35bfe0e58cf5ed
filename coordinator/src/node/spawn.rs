//! Start and end of an actor.

use super::actor::Actor;
use super::handle::NodeHandle;
use super::inbox::{Class, Control, Inbox};
use super::machine::ActorMachine;
use super::options::Options;
use super::peers::Peers;
use crate::raft::{Machine, Raft};
use std::fmt;
use tokio::sync::mpsc;

/// A running actor that has no log yet.
pub struct Spawned {
    /// Handle for all callers of the actor.
    pub handle: NodeHandle,
    /// State machine to which the log is applied.
    pub machine: Box<dyn Machine>,
    /// Connects the actor to its log, and stops it.
    pub control: ActorControl,
}

/// Connects an actor to its log, and stops it.
#[derive(Clone)]
pub struct ActorControl {
    control: mpsc::UnboundedSender<Control>,
}

impl fmt::Debug for ActorControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorControl").finish_non_exhaustive()
    }
}

impl fmt::Debug for Spawned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").finish_non_exhaustive()
    }
}

impl ActorControl {
    /// Gives the actor its log.
    pub fn connect(&self, raft: Raft) {
        // If the actor is gone, it needs no log.
        let _ = self.control.send(Control::Raft(raft));
    }

    /// Stops the actor: it closes all sessions and applies nothing more.
    pub fn stop(&self) {
        let _ = self.control.send(Control::Stop);
    }
}

/// Starts an actor. It stops when the `ActorControl` stops it, or when all handles are gone.
#[must_use]
pub fn spawn(options: Options) -> Spawned {
    let (control, control_in) = mpsc::unbounded_channel();
    let (sessions, sessions_in) = mpsc::channel(1_024);
    let (links, links_in) = mpsc::channel(Peers::QUEUED_MAX);
    let (queries, queries_in) = mpsc::channel(64);
    let (leave, leave_in) = mpsc::channel(1);
    let (writes, writes_in) = mpsc::channel(64);
    let (central, central_in) = mpsc::channel(256);
    let (log, log_in) = mpsc::channel(1);
    let inbox = Inbox {
        log: log_in,
        turn: Class::Peers,
        sessions: sessions_in,
        links: links_in,
        queries: queries_in,
        leave: leave_in,
        writes: writes_in,
        central: central_in,
    };
    let handle = NodeHandle {
        queries,
        sessions,
        links: links.clone(),
        leave,
        writes,
        central,
    };
    let machine = ActorMachine { log };
    let actor = Actor::new(options, control.clone(), links);
    tokio::spawn(actor.run(control_in, inbox));
    Spawned {
        handle,
        machine: Box::new(machine),
        control: ActorControl { control },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::HostClock;
    use crate::session::{Caller, Event, StreamId};
    use aliquot_core::unit::{Edge, Incarnation};
    use std::sync::Arc;

    fn options() -> Options {
        Options {
            clock: Arc::new(HostClock),
            ..super::super::options::tests::options()
        }
    }

    /// Links to other nodes share the actor's thread. A node must hear from its peers even if its
    /// clients never cease to send.
    #[tokio::test]
    async fn other_tasks_of_the_actors_thread_run_while_sessions_send() {
        let spawned = spawn(options());
        let sessions = &spawned.handle.sessions;
        let gone = |stream| Event::Gone {
            caller: Caller {
                edge: Edge {
                    parent: Incarnation::new(1),
                    child: Incarnation::new(2),
                },
                stream: StreamId::new(stream),
            },
        };
        for stream in 0..sessions.max_capacity() {
            sessions.try_send(gone(stream as u64)).unwrap();
        }
        tokio::task::yield_now().await;
        let heard = sessions.capacity();
        assert!(
            heard < sessions.max_capacity(),
            "all {heard} were heard first"
        );
        while sessions.capacity() < sessions.max_capacity() {
            tokio::task::yield_now().await;
        }
    }
}
