//! Invariant 4: nothing is used before it is committed.

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
    /// A node was `given` this; the log, as far as it is applied anywhere, says `committed`.
    pub(crate) fn given(
        &mut self,
        now: u64,
        life: Incarnation,
        budget: BudgetId,
        given: Vector,
        committed: Vector,
    ) {
        if !committed.covers(given) {
            self.found.fail(NAME, now, || {
                format!("{life} was given {given} of {budget}, of which {committed} is committed")
            });
        }
    }

    /// A restart replays the end of the log, and that must change nothing.
    pub(crate) fn replayed(&mut self, now: u64, node: usize, effects: &[Effect]) {
        self.found.fail(NAME, now, || {
            format!(
                "n{} applied again what it had applied: {effects:?}",
                node + 1
            )
        });
    }

    /// The software that is simulated did what it must never do.
    #[cfg(feature = "network")]
    pub(crate) fn broke(&mut self, now: u64, what: impl FnOnce() -> String) {
        self.found.fail(NAME, now, what);
    }

    /// Something was admitted of a budget that no log knows.
    pub(super) fn unknown_budget(&mut self, now: u64, admission: &Admission) {
        let budget = admission.budget;
        self.found.fail(NAME, now, || {
            format!("something was admitted of {budget}, which no applied entry made")
        });
    }
}
