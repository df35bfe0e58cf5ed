//! Joining the cluster: the request for an incarnation.

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
    asked: Option<Tick>,
}

impl Joining {
    /// Time after which the request to join is repeated.
    const AGAIN: Span = Span::from_millis(500);

    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self {
            request: RequestId::new(rng.random()),
            wanted: true,
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
        let waits = self
            .asked
            .is_some_and(|asked| context.now.since(asked) < Self::AGAIN);
        let formed = context.status.formed && context.status.failed.is_none();
        if !self.wanted || waits || !formed {
            return;
        }
        self.asked = Some(context.now);
        context.propose_anywhere(Command::Join {
            node: context.options.node,
            request: self.request,
        });
    }

    fn is_mine(&self, request: RequestId) -> bool {
        self.wanted && request == self.request
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/joining.rs"]
mod tests;
