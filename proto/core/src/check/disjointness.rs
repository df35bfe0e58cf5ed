//! Invariant 3: disjointness.

use super::envelope::Envelope;
use super::limits::Limit;
use super::verdict::{Findings, Invariant, Verdict, Violation, When};
use crate::unit::{Drift, Tick, Tokens};
use alloc::collections::BTreeMap;

/// Once the reclaim of a holding is applied, its incarnation admits nothing, except within the floor that the
/// reclaim left booked.
///
/// `K` identifies a holding: an edge, or an edge and a budget. The floor is a small budget of its own:
/// admissions of the incarnation on it keep the floor's own envelope. Events of one instant count in the
/// order of their calls.
///
/// Memory: one entry per holding reclaimed.
#[derive(Clone, Debug)]
pub struct Disjointness<K> {
    drift: Drift,
    at: Tick,
    closed: BTreeMap<K, Option<Envelope>>,
    findings: Findings,
}

impl<K: Ord> Disjointness<K> {
    /// Returns a checker without reclaims, for clocks that run within `drift`.
    #[must_use]
    pub fn new(drift: Drift) -> Self {
        Self {
            drift,
            at: Tick::ZERO,
            closed: BTreeMap::new(),
            findings: Findings::NONE,
        }
    }

    /// Records that a reclaim of `holding` was applied at the true time `at`, and that `floor` stays booked.
    pub fn reclaimed(&mut self, at: Tick, holding: K, floor: Option<Limit>) {
        if self.in_order(at) {
            let floor = floor.map(|limit| Envelope::new(limit, self.drift));
            self.closed.entry(holding).or_insert(floor);
        }
    }

    /// Records that the floor of `holding` ended at the true time `at`: released, or forgotten.
    pub fn released(&mut self, at: Tick, holding: K) {
        if self.in_order(at) {
            self.closed.insert(holding, None);
        }
    }

    /// Records an admission of `cost` under `holding` at the true time `at`.
    pub fn admitted(&mut self, at: Tick, holding: &K, cost: Tokens) {
        if !self.in_order(at) {
            return;
        }
        let (excess, what) = match self.closed.get_mut(holding) {
            None => return,
            Some(None) => (
                u128::from(cost.grains()),
                "grains admitted on a holding that was reclaimed",
            ),
            Some(Some(floor)) => {
                floor.admit(at, cost);
                let over = floor.verdict().violation().map_or(0, |found| found.excess);
                (
                    over,
                    "grains admitted over the floor of a reclaimed holding",
                )
            }
        };
        if excess > 0 {
            self.findings.fail(Violation {
                invariant: Invariant::Disjointness,
                when: When::At(at),
                excess,
                what,
            });
        }
    }

    /// Passes if no reclaimed holding was used any more.
    pub fn verdict(&self) -> Verdict {
        self.findings.verdict()
    }

    fn in_order(&mut self, at: Tick) -> bool {
        let in_order = self.findings.in_order(self.at, at);
        self.at = self.at.max(at);
        in_order
    }
}
