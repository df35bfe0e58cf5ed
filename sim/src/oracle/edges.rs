//! Invariant 6: the counters of an edge only grow.

use super::{Found, tick};
use aliquot_core::check::Monotone;
use aliquot_core::edge::Counters;
use aliquot_core::unit::{BudgetId, Edge, PeriodId};

const NAME: (u8, &str) = (6, "monotone-edges");
const GIVEN: &str = "less in `given` than before";
const RETURNED: &str = "less in `returned` than before";

#[derive(Debug)]
pub(crate) struct Check {
    /// A quota's counters start anew with each period, so the period is part of the key. Periods only
    /// increase.
    counters: Monotone<(Edge, BudgetId, PeriodId), 12>,
    periods: Monotone<(Edge, BudgetId), 1>,
    pub(super) found: Found,
}

impl Check {
    pub(super) fn new() -> Self {
        let mut what = [GIVEN; 12];
        what[6..].fill(RETURNED);
        Self {
            counters: Monotone::new(what),
            periods: Monotone::new(["less in the period id than before"]),
            found: Found::default(),
        }
    }

    /// Checks the counters of an edge, as its child has them.
    pub(crate) fn seen(&mut self, now: u64, edge: Edge, budget: BudgetId, counters: &Counters) {
        let (given, returned) = (counters.given.to_array(), counters.returned.to_array());
        let mut all = [0; 12];
        all[..6].copy_from_slice(&given);
        all[6..].copy_from_slice(&returned);
        let period = counters.period;
        let grew = self
            .counters
            .observe(tick(now), (edge, budget, period), all);
        let followed = self
            .periods
            .observe(tick(now), (edge, budget), [period.get()]);
        if let Err(violation) = grew.and(followed) {
            self.found
                .fail(NAME, now, || format!("{edge} of {budget}: {violation}"));
        }
    }
}
