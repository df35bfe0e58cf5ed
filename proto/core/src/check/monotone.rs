//! Invariant 6: monotone edges.

use super::verdict::{Findings, Invariant, Verdict, Violation, When};
use crate::unit::Tick;
use alloc::collections::BTreeMap;

/// Counters that only grow: given and returned vectors, sequence numbers, incarnations.
///
/// `K` identifies the owner of the counters: an edge, an edge and a budget, a node. Losing state begins another
/// owner, never a smaller number.
///
/// ```
/// use aliquot_core::check::Monotone;
/// use aliquot_core::unit::Tick;
///
/// let mut seen = Monotone::new(["a given rate that went back", "a seq that went back"]);
/// assert!(seen.observe(Tick::from_nanos(1), "edge", [50, 7]).is_ok());
/// let error = seen.observe(Tick::from_nanos(2), "edge", [30, 8]).unwrap_err();
/// assert_eq!(error.excess, 20);
/// ```
#[derive(Clone, Debug)]
pub struct Monotone<K, const N: usize> {
    what: [&'static str; N],
    greatest: BTreeMap<K, [u64; N]>,
    findings: Findings,
}

impl<K: Ord, const N: usize> Monotone<K, N> {
    /// Returns a checker of `N` counters per owner. `what` describes each counter that goes back.
    #[must_use]
    pub const fn new(what: [&'static str; N]) -> Self {
        Self {
            what,
            greatest: BTreeMap::new(),
            findings: Findings::NONE,
        }
    }

    /// Records the counters of `name` as their owner has them at `at`.
    ///
    /// # Errors
    ///
    /// The [`Violation`] of the first counter that is less than it was. Later values are still compared with
    /// the greatest ever seen.
    pub fn observe(&mut self, at: Tick, name: K, values: [u64; N]) -> Result<(), Violation> {
        let greatest = self.greatest.entry(name).or_insert(values);
        let mut found = None;
        for ((known, value), what) in greatest.iter_mut().zip(values).zip(self.what) {
            if value < *known {
                found.get_or_insert(Violation {
                    invariant: Invariant::MonotoneEdges,
                    when: When::At(at),
                    excess: u128::from(known.saturating_sub(value)),
                    what,
                });
            }
            *known = value.max(*known);
        }
        match found {
            Some(violation) => {
                self.findings.fail(violation);
                Err(violation)
            }
            None => Ok(()),
        }
    }

    /// Passes if no counter ever went back.
    pub fn verdict(&self) -> Verdict {
        self.findings.verdict()
    }
}
