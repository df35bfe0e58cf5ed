//! This node's own incarnation: its state machine, and the request for the next one.

use super::context::Context;
use super::joining::Joining;
use aliquot_core::message::{Answer, Heard, Verdict};
use aliquot_core::node::Node;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Incarnation, Seq, Span, Tick};
use rand::rngs::StdRng;

/// The node's state machine, once this node has joined.
#[derive(Debug)]
pub(super) struct OwnNode {
    machine: Option<Node>,
    joining: Joining,
}

impl OwnNode {
    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self {
            machine: None,
            joining: Joining::new(rng),
        }
    }

    /// Goes on as an incarnation that was not requested here.
    #[cfg(test)]
    pub(super) fn begin(&mut self, machine: Node) {
        self.machine = Some(machine);
    }

    pub(super) const fn machine(&self) -> Option<&Node> {
        self.machine.as_ref()
    }

    pub(super) const fn machine_mut(&mut self) -> Option<&mut Node> {
        self.machine.as_mut()
    }

    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.machine().map(Node::incarnation)
    }

    /// Requests an incarnation until this node gets one.
    pub(super) fn keep_joining(&mut self, context: &Context) {
        self.joining.keep(context);
    }

    /// Requests another incarnation, because this one has ended.
    pub(super) fn rejoin(&mut self, rng: &mut StdRng) {
        tracing::warn!("this incarnation has ended; joining again");
        self.joining = Joining::new(rng);
    }

    /// Follows an effect of the log. Returns the incarnation as which this node goes on, if it got another
    /// one. That holds nothing yet.
    pub(super) fn follow(
        &mut self,
        effect: &Effect,
        state: &State,
        rng: &mut StdRng,
    ) -> Option<Incarnation> {
        let incarnation = self.joining.follow(effect, rng)?;
        tracing::info!(incarnation = incarnation.get(), "joined");
        let mut machine = Node::new(incarnation, state.drift());
        machine.set_lease(state.lease());
        self.machine = Some(machine);
        Some(incarnation)
    }

    /// Follows the cluster's settings.
    pub(super) fn adopt_settings(&mut self, state: &State) {
        if let Some(node) = &mut self.machine {
            node.set_drift(state.drift());
            node.set_lease(state.lease());
        }
    }

    /// Takes in the leader's answer to this incarnation.
    pub(super) fn hear(&mut self, answer: &Answer, state: &State, now: Tick) {
        if let Some(node) = &mut self.machine {
            node.handle_answer_but(answer, now, |budget| state.has_ended(budget));
        }
    }

    /// Closes the incarnation if the log has ended it. Its reports would be stored by no node, so that no
    /// leader could tell it.
    pub(super) fn close_if_ended(&mut self, state: &State, now: Tick) {
        let Some(node) = &mut self.machine else {
            return;
        };
        let incarnation = node.incarnation();
        if state.member(incarnation).is_none() && state.has_issued(incarnation) {
            let over = Answer {
                edge: node.holder().edge(),
                number: Heard::default(),
                answers: Seq::new(0),
                taken: Seq::new(0),
                lease: Span::ZERO,
                verdict: Verdict::Closed,
                lines: Vec::new(),
            };
            node.handle_answer(&over, now);
        }
    }

    /// Drops everything about a budget that has ended.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        if let Some(node) = &mut self.machine {
            node.forget(budget);
        }
    }

    /// Drops everything about budgets that a restored state no longer contains.
    pub(super) fn sweep(&mut self, state: &State) {
        if let Some(node) = &mut self.machine {
            node.sweep(|budget| state.has_ended(budget));
        }
    }

    /// Begins to hand back all tokens.
    pub(super) fn leave(&mut self, now: Tick) {
        if let Some(node) = &mut self.machine {
            node.leave(now);
        }
    }
}
