//! Joining the cluster: the request for an incarnation.
//!
//! The leader reclaims an incarnation that is silent for too long, counted from the entry that issued it. A
//! node that starts with a long log to apply would learn of its incarnation seconds later, and have little
//! time left for its first report. So it asks only when it has applied what was committed when it first heard
//! from a leader.

use super::context::Context;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::{Incarnation, RequestId, Span, Tick};
use rand::RngExt;
use rand::rngs::StdRng;

/// The request for an incarnation.
#[derive(Debug)]
pub(super) struct Joining {
    request: RequestId,
    wanted: bool,
    /// Index up to which the log must be applied before the request; 0 until a leader was heard.
    after: u64,
    asked: Option<Tick>,
}

impl Joining {
    /// Time after which the request to join is repeated.
    const AGAIN: Span = Span::from_millis(500);

    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self {
            request: RequestId::new(rng.random()),
            wanted: true,
            after: 0,
            asked: None,
        }
    }

    /// Follows an effect of the log. Returns the incarnation of this node, if the effect assigns one.
    ///
    /// If the log says that the request is an old one, the incarnation that it brought is unknown: it was
    /// issued in entries that this node got as a snapshot. Then the node asks for another one, and the
    /// unknown one, which holds nothing, is reclaimed.
    pub(super) fn follow(&mut self, effect: &Effect, rng: &mut StdRng) -> Option<Incarnation> {
        match effect {
            Effect::Joined {
                incarnation,
                request,
                ..
            } if self.is_mine(*request) => {
                self.wanted = false;
                Some(*incarnation)
            }
            Effect::Repeated(request) if self.is_mine(*request) => {
                *self = Self::new(rng);
                None
            }
            _ => None,
        }
    }

    /// Requests an incarnation until this node gets one.
    pub(super) fn keep(&mut self, context: &Context) {
        let Some(raft) = context.raft.as_ref().filter(|_| self.wanted) else {
            return;
        };
        let status = raft.status();
        let (applied, leads) = {
            let status = status.borrow();
            (status.applied, status.leads)
        };
        // A leader judges silences by the entries that it has applied itself.
        let committed = match leads {
            true => applied,
            false => raft.committed_at_leader(),
        };
        if let Some(command) = self.next(applied, committed, context) {
            context.propose_anywhere(command);
        }
    }

    /// Returns the request, if it is due. The log is applied and committed up to these indices, as far as this node was
    /// told; 0 if it was told nothing.
    fn next(&mut self, applied: u64, committed: u64, context: &Context) -> Option<Command> {
        let formed = context.status.formed && context.status.failed.is_none();
        if !self.wanted || !formed {
            return None;
        }
        if self.after == 0 {
            self.after = committed;
        }
        let lags = self.after == 0 || applied < self.after;
        let waits = self
            .asked
            .is_some_and(|asked| context.now.since(asked) < Self::AGAIN);
        if lags || waits {
            return None;
        }
        self.asked = Some(context.now);
        Some(Command::Join {
            node: context.options.node,
            request: self.request,
        })
    }

    fn is_mine(&self, request: RequestId) -> bool {
        self.wanted && request == self.request
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/joining.rs"]
mod tests;
