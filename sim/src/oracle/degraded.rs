//! Invariant 7: without a lease, a holder follows its budget's policy exactly.
//!
//! Admissions under `deny` and `floor` are booked, so invariants 1 to 3 judge them. Admissions under `keep`
//! and `local` are judged here, each holder against the envelope of its own part. Admissions under `open`
//! have no bound and are only counted.

use super::admission::{Admission, Right};
use super::{Found, tick};
use aliquot_core::check::{Envelope, Limit};
use aliquot_core::unit::{BudgetId, Drift};
use std::collections::BTreeMap;

const NAME: (u8, &str) = (7, "degraded-bound");

#[derive(Debug)]
pub(crate) struct Check {
    drift: Drift,
    holders: BTreeMap<(Option<usize>, BudgetId), (Limit, Envelope)>,
    /// Grains admitted without a lease.
    pub(crate) admitted: u128,
    pub(super) found: Found,
}

impl Check {
    pub(super) const fn new(drift: Drift) -> Self {
        Self {
            drift,
            holders: BTreeMap::new(),
            admitted: 0,
            found: Found {
                breach: None,
                doubt: None,
            },
        }
    }

    /// Judges an admission if it was made without a lease. Returns false if it was booked instead.
    pub(super) fn admitted(&mut self, now: u64, admission: &Admission, grains: u64) -> bool {
        if admission.right == Right::Booked {
            return false;
        }
        self.admitted += u128::from(admission.cost.grains());
        if admission.right == Right::Open {
            return true;
        }
        let limit = Limit::new(admission.share.rate, admission.share.burst);
        let name = (admission.client, admission.budget);
        let drift = self.drift;
        let entry = self.holders.entry(name);
        let (known, envelope) = entry.or_insert_with(|| (limit, Envelope::new(limit, drift)));
        if *known != limit {
            (*known, *envelope) = (limit, Envelope::new(limit, drift));
        }
        envelope.admit(tick(now), admission.cost);
        let verdict = envelope.verdict();
        if let Some(over) = verdict.violation() {
            let over = over.excess as f64 / grains as f64;
            self.found.fail(NAME, now, || {
                format!(
                    "a holder without a lease admitted {over:.6} tokens more than its policy allows"
                )
            });
        }
        true
    }
}
