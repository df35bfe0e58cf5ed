//! The proposals of a new cluster's initial contents: its settings and its first budgets.

use super::context::Context;
use super::options::InitialContents;
use aliquot_core::command::Command;
use aliquot_core::state::State;
use aliquot_core::unit::{Incarnation, RequestId, Span, Tick};
use rand::RngExt;

/// Progress of the proposals.
#[derive(Debug, Default)]
pub(super) struct Progress {
    asked: Option<Tick>,
    request: Option<RequestId>,
    done: bool,
}

/// Time after which a proposal that was not applied is repeated.
const AGAIN: Span = Span::from_millis(500);

/// Maximum number of entries in the log of a new cluster.
const YOUNG: u64 = 200;

impl Progress {
    /// Proposes the settings and then the budgets of a new cluster, each until it is applied. Afterwards
    /// only operators change them. The caller leads the cluster. `creator` is the incarnation of this
    /// node, if it has joined: it holds all tokens of the first budgets at once, which wait for it.
    pub(super) fn propose(
        &mut self,
        creator: Option<Incarnation>,
        state: &State,
        context: &mut Context,
    ) {
        let waits = self
            .asked
            .is_some_and(|asked| context.now.since(asked) < AGAIN);
        if self.done || waits {
            return;
        }
        let command = self.next_command(creator, state, context);
        // Budgets that no node could hold would begin empty.
        if let Some(Command::Apply { creator: None, .. }) = command {
            return;
        }
        self.asked = Some(context.now);
        match command {
            Some(command) => context.propose_anywhere(command),
            None => self.done = true,
        }
    }

    fn next_command(
        &mut self,
        creator: Option<Incarnation>,
        state: &State,
        context: &mut Context,
    ) -> Option<Command> {
        let InitialContents {
            drift,
            lease,
            budgets,
        } = &context.options.initial_contents;
        let ruled = state.rules().next().is_some();
        if state.applied() > YOUNG || ruled {
            return None;
        }
        if (state.drift(), state.lease()) != (*drift, *lease) {
            return Some(Command::Configure {
                drift: *drift,
                lease: *lease,
            });
        }
        if budgets.is_empty() {
            return None;
        }
        let rng = &mut context.rng;
        let request = self
            .request
            .get_or_insert_with(|| RequestId::new(rng.random()));
        Some(Command::Apply {
            request: *request,
            deletes: Vec::new(),
            puts: budgets.clone(),
            creator,
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/initial_contents.rs"]
mod tests;
