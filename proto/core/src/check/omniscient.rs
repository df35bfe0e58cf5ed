//! Invariant 11: dominance.

use super::limits::{Limit, Limits};
use super::replay::Reference;
use super::verdict::{Doubt, Findings, Invariant, Verdict, Violation, When};
use crate::unit::{Drift, Tick, Tokens};

/// The bucket that sees everything at once: rate `(1 + ρ) · R`, capacity `B`, full when its first limit comes
/// into force, greedy.
///
/// Of all ways to admit requests of one equal cost within the envelope, admitting whatever fits has admitted
/// the most at every prefix: refusing one that fits can gain at most one later admission.
#[derive(Clone, Debug)]
pub struct Omniscient {
    reference: Reference,
    findings: Findings,
}

impl Omniscient {
    /// Returns the bucket of `limits` under clocks that run within `drift`.
    #[must_use]
    pub fn new(limits: Limits, drift: Drift) -> Self {
        Self {
            reference: Reference::full(limits, drift),
            findings: Findings::NONE,
        }
    }

    /// Records that `limit` is in force from the true time `at` on.
    pub fn change(&mut self, at: Tick, limit: Limit) {
        self.reference.change(at, limit, &mut self.findings);
    }

    /// Offers an arrival. Returns true if the bucket admits it, or `None` if it could not be judged.
    pub fn offer(&mut self, at: Tick, cost: Tokens) -> Option<bool> {
        self.reference.advance(at, &mut self.findings)?;
        let covered = self.reference.bucket.covers(cost);
        if covered {
            self.reference.bucket.spend(cost)?;
        }
        Some(covered)
    }

    /// Returns the level in grains, rounded down, at the last event.
    #[must_use]
    pub const fn level(&self) -> i128 {
        self.reference.bucket.level()
    }
}

/// At every prefix of the decisions, the fleet admitted no more than an [`Omniscient`] bucket admits of the
/// same arrivals.
///
/// A request that waited arrives when it is decided, not when it began to wait. Once costs differ, the counts
/// continue as a reference, and the verdict is unknown unless a breach was seen before.
#[derive(Clone, Debug)]
pub struct Dominance {
    omniscient: Omniscient,
    cost: Option<Tokens>,
    fleet: u64,
    reference: u64,
    slack: i128,
}

impl Dominance {
    /// Returns dominance over `limits` under clocks that run within `drift`.
    #[must_use]
    pub fn new(limits: Limits, drift: Drift) -> Self {
        Self {
            omniscient: Omniscient::new(limits, drift),
            cost: None,
            fleet: 0,
            reference: 0,
            slack: i128::MAX,
        }
    }

    /// Records that `limit` is in force from the true time `at` on.
    pub fn change(&mut self, at: Tick, limit: Limit) {
        self.omniscient.change(at, limit);
    }

    /// Records an arrival that the fleet admitted.
    pub fn admitted(&mut self, at: Tick, cost: Tokens) {
        self.arrival(at, cost, 1);
    }

    /// Records an arrival that the fleet refused.
    pub fn refused(&mut self, at: Tick, cost: Tokens) {
        self.arrival(at, cost, 0);
    }

    /// Returns the arrivals admitted so far: by the fleet, and by the omniscient bucket.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.fleet, self.reference)
    }

    /// Returns the least lead of the omniscient bucket at any prefix, in admissions; `None` before the first
    /// arrival.
    #[must_use]
    pub fn slack(&self) -> Option<i128> {
        (self.slack != i128::MAX).then_some(self.slack)
    }

    /// Passes if the fleet was dominated at every prefix. A failure is the first prefix at which it was not.
    pub fn verdict(&self) -> Verdict {
        self.omniscient.findings.verdict()
    }

    fn arrival(&mut self, at: Tick, cost: Tokens, admitted: u64) {
        if *self.cost.get_or_insert(cost) != cost {
            self.omniscient.findings.doubt(Doubt::WeightedCosts);
        }
        let Some(covered) = self.omniscient.offer(at, cost) else {
            return;
        };
        self.fleet = self.fleet.saturating_add(admitted);
        self.reference = self.reference.saturating_add(u64::from(covered));
        let lead = i128::from(self.reference).saturating_sub(i128::from(self.fleet));
        self.slack = self.slack.min(lead);
        if lead < 0 {
            self.omniscient.findings.fail(Violation {
                invariant: Invariant::Dominance,
                when: When::At(at),
                excess: lead.unsigned_abs(),
                what: "admissions more than one omniscient bucket would make",
            });
        }
    }
}
