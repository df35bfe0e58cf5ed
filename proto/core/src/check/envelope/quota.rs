//! Invariant 1 for quotas.

use super::super::verdict::{Findings, Invariant, Verdict, Violation, When};
use crate::unit::{PeriodId, Tick, Tokens};
use alloc::collections::BTreeMap;

/// Admissions stamped with one period add up to at most `N`, and none comes after the period's tokens are
/// void.
///
/// Memory: one entry per period.
#[derive(Clone, Debug)]
pub struct QuotaCheck {
    limit: Tokens,
    periods: BTreeMap<PeriodId, Period>,
    findings: Findings,
}

#[derive(Clone, Debug)]
struct Period {
    limit: Tokens,
    admitted: u128,
    dead_since: Option<Tick>,
}

impl QuotaCheck {
    /// Returns a checker of at most `limit` per period.
    #[must_use]
    pub fn new(limit: Tokens) -> Self {
        Self {
            limit,
            periods: BTreeMap::new(),
            findings: Findings::NONE,
        }
    }

    /// Records that `limit` was set while `period` ran. Within a period the greatest limit applies; later
    /// periods start with this one.
    pub fn change(&mut self, period: PeriodId, limit: Tokens) {
        let entry = self.period(period);
        entry.limit = entry.limit.max(limit);
        self.limit = limit;
    }

    /// Records that no holder may still use tokens of `period` after `at`: each has learned of its end, or
    /// has lost its lease.
    pub fn end(&mut self, at: Tick, period: PeriodId) {
        self.period(period).dead_since.get_or_insert(at);
    }

    /// Records an admission of `cost` at the true time `at`, stamped `period`.
    pub fn admit(&mut self, at: Tick, period: PeriodId, cost: Tokens) {
        let entry = self.period(period);
        let cost = u128::from(cost.grains());
        // A sum of 64-bit costs: 2⁶⁴ of them fit 128 bits.
        entry.admitted = entry.admitted.saturating_add(cost);
        let excess = entry
            .admitted
            .saturating_sub(u128::from(entry.limit.grains()));
        let late = entry.dead_since.is_some_and(|end| at > end) && cost > 0;
        if excess > 0 {
            self.fail(at, excess, "tokens over the period's quota");
        }
        if late {
            self.fail(at, cost, "tokens admitted after their period's end");
        }
    }

    /// Returns the sum that was admitted under the stamp of `period`.
    #[must_use]
    pub fn admitted(&self, period: PeriodId) -> u128 {
        self.periods.get(&period).map_or(0, |entry| entry.admitted)
    }

    /// Passes if the quota was kept.
    pub fn verdict(&self) -> Verdict {
        self.findings.verdict()
    }

    fn period(&mut self, period: PeriodId) -> &mut Period {
        self.periods.entry(period).or_insert(Period {
            limit: self.limit,
            admitted: 0,
            dead_since: None,
        })
    }

    fn fail(&mut self, at: Tick, excess: u128, what: &'static str) {
        self.findings.fail(Violation {
            invariant: Invariant::Envelope,
            when: When::At(at),
            excess,
            what,
        });
    }
}
