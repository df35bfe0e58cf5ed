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
