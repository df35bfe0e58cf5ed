//! Joining the cluster: the request for an incarnation.
//!
//! ```text
//!  CatchUp ──the fence is applied here──► Join ──effect `Joined`──► Joined
//!                                          ▲  │ effect `Repeated`
//!                                          └──┘ with another request
//! ```
//!
//! The leader reclaims an incarnation that is silent for too long, counted from the entry that issued it. A
//! node that starts with a long log to apply would learn of its incarnation seconds later, and have little
//! time left for its first report. So it asks only when it has caught up: when it has applied an empty entry
//! that it proposed after its start.

use super::context::Context;
use aliquot_core::command::Command;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{Incarnation, RequestId, Span, Tick};
use rand::RngExt;
use rand::rngs::StdRng;

/// The request for an incarnation.
#[derive(Debug)]
pub(super) struct Joining {
    step: Step,
    /// Id of the empty entry in `CatchUp`, and of the request in `Join`.
    request: RequestId,
    proposed: Option<Tick>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    CatchUp,
    Join,
    Joined,
}

impl Joining {
    /// Time after which a proposal that is not applied here is repeated.
    const AGAIN: Span = Span::from_millis(500);

    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self::at(Step::CatchUp, rng)
    }

    fn at(step: Step, rng: &mut StdRng) -> Self {
        Self {
            step,
            request: RequestId::new(rng.random()),
            proposed: None,
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
                self.step = Step::Joined;
                Some(*incarnation)
            }
            Effect::Repeated(request) if self.is_mine(*request) => {
                *self = Self::at(Step::Join, rng);
                None
            }
            _ => None,
        }
    }

    /// Proposes the next command until it is applied here.
    pub(super) fn keep(&mut self, state: &State, context: &mut Context) {
        if let Some(command) = self.next(state, context) {
            context.propose_anywhere(command);
        }
    }

    /// Returns the command to propose now, if any.
    fn next(&mut self, state: &State, context: &mut Context) -> Option<Command> {
        if self.step == Step::CatchUp && state.has_carried_out(self.request) {
            tracing::debug!("the log is applied up to an entry of after the start");
            *self = Self::at(Step::Join, &mut context.rng);
        }
        let waits = self
            .proposed
            .is_some_and(|then| context.now.since(then) < Self::AGAIN);
        let formed = context.status.formed && context.status.failed.is_none();
        if waits || !formed {
            return None;
        }
        let request = self.request;
        let command = match self.step {
            Step::CatchUp => Command::nothing(request),
            Step::Join => Command::Join {
                node: context.options.node,
                request,
            },
            Step::Joined => return None,
        };
        self.proposed = Some(context.now);
        Some(command)
    }

    fn is_mine(&self, request: RequestId) -> bool {
        self.step == Step::Join && request == self.request
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/joining.rs"]
mod tests;
