//! What a new cluster begins with: its settings, and its first budgets.

use super::actor::Actor;
use aliquot_core::budget::Budget;
use aliquot_core::command::Command;
use aliquot_core::unit::{Drift, RequestId, Span, Tick};
use rand::RngExt;

/// What the first leader of a new cluster begins with.
#[derive(Clone, Debug, Default)]
pub struct Founding {
    /// How far any clock may drift.
    pub drift: Drift,
    /// The nodes' lease.
    pub lease: Span,
    /// The first budgets.
    pub budgets: Vec<Budget>,
}

/// How far that has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    asked: Option<Tick>,
    request: Option<RequestId>,
    done: bool,
}

/// What did not come is asked for again.
const AGAIN: Span = Span::from_millis(500);

/// A log of more entries than this is no new cluster's.
const YOUNG: u64 = 200;

impl Actor {
    /// While this node leads a new cluster: its settings, then its budgets,
    /// each until it is applied. Afterwards they are operators' to change.
    pub(super) fn keep_founding(&mut self) {
        let office = self.office.machine().in_office();
        let waits = self
            .founding
            .asked
            .is_some_and(|asked| self.now.since(asked) < AGAIN);
        if self.founding.done || !office || waits {
            return;
        }
        self.founding.asked = Some(self.now);
        match self.next_of_founding() {
            Some(command) => self.propose_anywhere(command),
            None => self.founding.done = true,
        }
    }

    fn next_of_founding(&mut self) -> Option<Command> {
        let Founding {
            drift,
            lease,
            budgets,
        } = &self.options.founding;
        let ruled = self.state.rules().next().is_some();
        if self.state.applied() > YOUNG || ruled {
            return None;
        }
        if (self.state.drift(), self.state.lease()) != (*drift, *lease) {
            return Some(Command::Configure {
                drift: *drift,
                lease: *lease,
            });
        }
        if budgets.is_empty() {
            return None;
        }
        let rng = &mut self.rng;
        let request = self.founding.request;
        let request = *self
            .founding
            .request
            .insert(request.unwrap_or_else(|| RequestId::new(rng.random())));
        Some(Command::Apply {
            request,
            deletes: Vec::new(),
            puts: budgets.clone(),
            // Whoever has a life already may hold their first tokens.
            creator: self.node.as_ref().map(aliquot_core::node::Node::life),
        })
    }
}
