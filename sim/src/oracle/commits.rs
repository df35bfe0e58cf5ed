//! Invariant 4: no grant is used before it is committed.

use super::Found;
use super::admission::Admission;
use aliquot_core::edge::Vector;
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, Incarnation};

const NAME: (u8, &str) = (4, "commit-before-effect");

#[derive(Debug, Default)]
pub(crate) struct Check {
    pub(super) found: Found,
}

impl Check {
    /// Checks the tokens granted to a node so far. They must be covered by the `committed` ones, as of the
    /// latest applied entry.
    pub(crate) fn given(
        &mut self,
        now: u64,
        incarnation: Incarnation,
        budget: BudgetId,
        given: Vector,
        committed: Vector,
    ) {
        if !committed.covers(given) {
            self.found.fail(NAME, now, || {
                format!(
                    "{incarnation} was given {given} of {budget}, of which {committed} is committed"
                )
            });
        }
    }

    /// Records a breach: replaying the end of the log after a restart changed the state.
    pub(crate) fn replayed(&mut self, now: u64, node: usize, effects: &[Effect]) {
        self.found.fail(NAME, now, || {
            format!(
                "n{} applied an entry a second time with an effect: {effects:?}",
                node + 1
            )
        });
    }

    /// Records a breach: the simulated software failed in a way that it must never fail.
    #[cfg(feature = "network")]
    pub(crate) fn broke(&mut self, now: u64, what: impl FnOnce() -> String) {
        self.found.fail(NAME, now, what);
    }

    /// Records a breach: a request was admitted for a budget that no applied entry created.
    pub(super) fn unknown_budget(&mut self, now: u64, admission: &Admission) {
        let budget = admission.budget;
        self.found.fail(NAME, now, || {
            format!("a request was admitted by {budget}, which no applied entry created")
        });
    }
}
