//! Joining the cluster: the request for an incarnation, and commands to whichever node leads.

use super::actor::Actor;
use super::leadership::entry;
use aliquot_core::command::Command;
use aliquot_core::unit::{RequestId, Span, Tick};
use rand::RngExt;
use rand::rngs::StdRng;
use std::time::Duration;

/// The request for an incarnation.
#[derive(Debug)]
pub(super) struct Joining {
    request: RequestId,
    wanted: bool,
    asked: Option<Tick>,
}

impl Joining {
    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self {
            request: RequestId::new(rng.random()),
            wanted: true,
            asked: None,
        }
    }

    pub(super) fn is_mine(&self, request: RequestId) -> bool {
        self.wanted && request == self.request
    }

    pub(super) const fn done(&mut self) {
        self.wanted = false;
    }
}

/// Maximum time for which a proposal looks for a leader.
const TRY_FOR: Duration = Duration::from_secs(2);

/// Time after which the request to join is repeated.
const AGAIN: Span = Span::from_millis(500);

impl Actor {
    /// Requests an incarnation until this node gets one.
    pub(super) fn keep_joining(&mut self) {
        let waits = self
            .join
            .asked
            .is_some_and(|asked| self.now.since(asked) < AGAIN);
        let formed = self.status.formed && self.status.failed.is_none();
        if !self.join.wanted || waits || !formed || self.departs {
            return;
        }
        self.join.asked = Some(self.now);
        self.propose_anywhere(Command::Join {
            node: self.options.node,
            request: self.join.request,
        });
    }

    /// Hands a command to the leader, whichever node that is. A caller that needs the command applied
    /// checks the state, and asks again if it was not.
    pub(super) fn propose_anywhere(&self, command: Command) {
        let Some(raft) = self.raft.clone() else {
            return;
        };
        let command = match entry(command) {
            Ok(command) => command,
            Err(error) => {
                tracing::error!(%error, "a command was not proposed: it cannot be decoded");
                return;
            }
        };
        tokio::spawn(async move {
            let proposed = raft.propose_anywhere(command, TRY_FOR).await;
            if let Err(error) = proposed {
                tracing::debug!(%error, "a command was not taken yet");
            }
        });
    }
}
