//! Invariant 2: conservation.

use super::limits::{Limit, Limits};
use super::replay::Reference;
use super::verdict::{Doubt, Findings, Invariant, Verdict, Violation, When};
use crate::share::{Kind, Share};
use crate::unit::{Drift, Tick, Tokens};

/// One budget's parts at one instant, added up without overflow.
///
/// A part is anything that may be used now or once a message arrives: a holder's belief, a grant in flight,
/// the part that a lease about to lapse still covers, a floor that outlives it. Of parent and child, only the
/// leaves of the tree count. The part that a parent has not granted is a leaf too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    rate: u128,
    burst: u128,
    tokens: u128,
    /// Tokens above their own part's burst.
    loose: u128,
}

impl Holdings {
    /// Returns the sum of the parts.
    #[must_use]
    pub fn of(parts: impl IntoIterator<Item = Share>) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.add(part));
        all
    }

    /// Adds a part. Exact: 2⁶⁴ parts fit.
    pub fn add(&mut self, part: Share) {
        let add = |sum: &mut u128, grains: u64| *sum = sum.saturating_add(u128::from(grains));
        add(&mut self.rate, part.rate.grains());
        add(&mut self.burst, part.burst.grains());
        add(&mut self.tokens, part.tokens.grains());
        let loose = part.tokens.minus_or_zero(part.burst);
        add(&mut self.loose, loose.grains());
    }

    /// Returns the tokens of all parts.
    #[must_use]
    pub const fn tokens(&self) -> u128 {
        self.tokens
    }

    /// Judges the parts against the greatest limit in force, at the true time `at`. For a quota, `spent` is
    /// the sum of its period's admissions.
    ///
    /// | kind | what must hold |
    /// |---|---|
    /// | rate | `Σ rate ≤ R`, `Σ burst ≤ B`, each level within its own burst |
    /// | quota | `Σ tokens + spent ≤ N`, no rate, no burst |
    /// | concurrency | `Σ burst ≤ N`, no rate, no tokens |
    pub fn judge(&self, kind: Kind, at: Tick, limit: Limit, spent: Tokens) -> Verdict {
        let rate = u128::from(limit.rate.grains());
        let burst = u128::from(limit.burst.grains());
        let used = self.tokens.saturating_add(u128::from(spent.grains()));
        let bounds = match kind {
            Kind::Rate => [
                (self.rate, rate, "grains per second held over the rate"),
                (self.burst, burst, "grains of burst held over the burst"),
                (self.loose, 0, "tokens held without burst to hold them"),
            ],
            Kind::Quota => [
                (self.rate, 0, "grains per second held of a quota"),
                (self.burst, 0, "grains of burst held of a quota"),
                (used, burst, "tokens held or spent over the quota"),
            ],
            Kind::Concurrency => [
                (self.rate, 0, "grains per second held of permits"),
                (self.burst, burst, "permits held over the limit"),
                (self.tokens, 0, "tokens held of permits"),
            ],
        };
        for (held, bound, what) in bounds {
            if held > bound {
                return Verdict::Fail(Violation {
                    invariant: Invariant::Conservation,
                    when: When::At(at),
                    excess: held.saturating_sub(bound),
                    what,
                });
            }
        }
        Verdict::Pass
    }
}

/// Tokens never appear: at every instant the levels of all parts and the tokens in flight add up to no more
/// than the level of one bucket of rate `(1 + ρ) · R` and capacity `B` that paid for every admission.
///
/// The bucket follows the greatest recent limit, see [`Limits`].
#[derive(Clone, Debug)]
pub struct TokenAccount {
    reference: Reference,
    findings: Findings,
    slack: Option<i128>,
}

impl TokenAccount {
    /// Returns an account that is full when its first limit comes into force.
    #[must_use]
    pub fn new(limits: Limits, drift: Drift) -> Self {
        Self {
            reference: Reference::full(limits, drift),
            findings: Findings::NONE,
            slack: None,
        }
    }

    /// Records that `limit` is in force from the true time `at` on.
    pub fn change(&mut self, at: Tick, limit: Limit) {
        self.reference.change(at, limit, &mut self.findings);
    }

    /// Records an admission of `cost`.
    pub fn spend(&mut self, at: Tick, cost: Tokens) {
        let done = self.reference.advance(at, &mut self.findings);
        if done
            .and_then(|()| self.reference.bucket.spend(cost))
            .is_none()
        {
            self.findings.doubt(Doubt::OutOfRange);
        }
    }

    /// Records that an admission of `cost` was cancelled, and its tokens were put back where they came from.
    pub fn refund(&mut self, at: Tick, cost: Tokens) {
        let done = self.reference.advance(at, &mut self.findings);
        if done
            .and_then(|()| self.reference.bucket.refund(cost))
            .is_none()
        {
            self.findings.doubt(Doubt::OutOfRange);
        }
    }

    /// Records the sum of all levels and of all tokens in flight, in grains, each holder's level as of this
    /// instant.
    pub fn observe(&mut self, at: Tick, tokens: u128) {
        if self.reference.advance(at, &mut self.findings).is_none() {
            return;
        }
        let level = self.reference.bucket.level();
        let lead = i128::try_from(tokens)
            .ok()
            .and_then(|tokens| level.checked_sub(tokens));
        let Some(lead) = lead else {
            self.findings.doubt(Doubt::OutOfRange);
            return;
        };
        self.slack = Some(self.slack.map_or(lead, |least| least.min(lead)));
        if lead < 0 {
            self.findings.fail(Violation {
                invariant: Invariant::Conservation,
                when: When::At(at),
                excess: lead.unsigned_abs(),
                what: "tokens more than one bucket would hold",
            });
        }
    }

    /// Returns the least lead of the one bucket at any observation, in grains.
    #[must_use]
    pub const fn slack(&self) -> Option<i128> {
        self.slack
    }

    /// Passes if no token appeared.
    pub fn verdict(&self) -> Verdict {
        self.findings.verdict()
    }
}
