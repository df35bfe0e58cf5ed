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
#[path = "../../tests/unit/node/spawn.rs"]
mod tests;
