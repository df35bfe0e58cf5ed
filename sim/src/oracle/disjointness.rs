//! Invariant 3: a reclaimed incarnation admits nothing more, except from its booked floor.

use super::admission::Admission;
use super::{Found, tick};
use aliquot_core::check::{Disjointness, Limit};
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{Drift, Incarnation};

const NAME: (u8, &str) = (3, "disjointness");

#[derive(Debug)]
pub(crate) struct Check {
    incarnations: Disjointness<Incarnation>,
    pub(super) found: Found,
}

impl Check {
    pub(super) fn new(drift: Drift) -> Self {
        Self {
            incarnations: Disjointness::new(drift),
            found: Found::default(),
        }
    }

    pub(super) fn applied(&mut self, now: u64, state: &State, effects: &[Effect]) {
        for effect in effects {
            let Effect::Reclaimed(incarnation) = effect else {
                continue;
            };
            let kept = state.budgets().find_map(|(_, generation)| {
                let mut kept = generation.account.kept();
                kept.find(|(of, _)| of == incarnation)
                    .map(|(_, kept)| kept.holding)
            });
            let floor = kept.map(|kept| Limit::new(kept.floor_rate, kept.floor_burst));
            self.incarnations.reclaimed(tick(now), *incarnation, floor);
        }
    }

    pub(super) fn admitted(&mut self, now: u64, admission: &Admission, grains: u64) {
        let Some(edge) = admission.edge else { return };
        self.incarnations
            .admitted(tick(now), &edge.parent, admission.cost);
        let verdict = self.incarnations.verdict();
        if !verdict.is_pass() {
            self.found.record(NAME, verdict, grains);
        }
    }

    /// Records a breach: a client admitted on an edge for which its node has nothing booked.
    pub(crate) fn unbooked(&mut self, now: u64, what: impl FnOnce() -> String) {
        self.found.fail(NAME, now, what);
    }
}
