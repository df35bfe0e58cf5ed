//! Invariant 1 for concurrency.

use super::super::limits::{Limit, Limits};
use super::super::verdict::{Doubt, Findings, Invariant, Verdict, Violation, When};
use crate::unit::{Rate, Span, Tick, Tokens};
use alloc::collections::BTreeMap;

/// Permits in flight under live incarnations are at most `N` at every instant.
///
/// Permits have a name chosen by the caller, `K`, so that the end of an incarnation can end them. Events of
/// one instant count in the order of their calls.
///
/// Memory: one entry per permit in flight.
#[derive(Clone, Debug)]
pub struct ConcurrencyCheck<K> {
    limits: Limits,
    at: Tick,
    flying: BTreeMap<K, Tokens>,
    sum: u128,
    peak: u128,
    findings: Findings,
}

impl<K: Ord> ConcurrencyCheck<K> {
    /// Returns a checker of at most `limit` permits since `since`. A lowered limit applies `lag` later: the
    /// time in which permits under the old one run out.
    #[must_use]
    pub fn new(since: Tick, limit: Tokens, lag: Span) -> Self {
        Self {
            limits: Limits::new(since, Limit::new(Rate::ZERO, limit), lag),
            at: since,
            flying: BTreeMap::new(),
            sum: 0,
            peak: 0,
            findings: Findings::NONE,
        }
    }

    /// Records that `limit` is in force from the true time `at` on.
    pub fn change(&mut self, at: Tick, limit: Tokens) {
        if self.advance(at) {
            self.limits.change(at, Limit::new(Rate::ZERO, limit));
        }
    }

    /// Records that `permits` were acquired at the true time `at`, as `name`.
    pub fn acquire(&mut self, at: Tick, name: K, permits: Tokens) {
        if !self.advance(at) {
            return;
        }
        self.sum = self.sum.saturating_add(u128::from(permits.grains()));
        self.peak = self.peak.max(self.sum);
        let held = self.flying.get(&name).copied().unwrap_or_default();
        match held.plus(permits) {
            Some(held) => {
                self.flying.insert(name, held);
            }
            None => self.findings.doubt(Doubt::OutOfRange),
        }
        self.judge(at, self.limits.greatest());
    }

    /// Records that everything acquired as `name` was over at `at`: released, cancelled, or ended with its
    /// incarnation.
    pub fn release(&mut self, at: Tick, name: &K) {
        if !self.advance(at) {
            return;
        }
        match self.flying.remove(name) {
            Some(permits) => self.sum = self.sum.saturating_sub(u128::from(permits.grains())),
            None => self.findings.doubt(Doubt::Unmatched { at }),
        }
    }

    /// Records that every permit whose name satisfies `of`, those of an ended incarnation, was over at `at`.
    pub fn close(&mut self, at: Tick, of: impl Fn(&K) -> bool) {
        if !self.advance(at) {
            return;
        }
        self.flying.retain(|name, _| !of(name));
        self.sum = self
            .flying
            .values()
            .map(|permits| u128::from(permits.grains()))
            .sum();
    }

    /// Advances time to `at`: a limit lowered one lag ago applies from then on. Returns true if `at` was in
    /// order.
    pub fn advance(&mut self, at: Tick) -> bool {
        if !self.findings.in_order(self.at, at) {
            return false;
        }
        self.at = at;
        while let Some((until, limit)) = self.limits.expire(at) {
            self.judge(until, limit);
        }
        true
    }

    /// Returns the number of permits in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u128 {
        self.sum
    }

    /// Returns the maximum number of permits that were ever in flight at once.
    #[must_use]
    pub const fn peak(&self) -> u128 {
        self.peak
    }

    /// Passes if the envelope was kept.
    pub fn verdict(&self) -> Verdict {
        self.findings.verdict()
    }

    fn judge(&mut self, at: Tick, limit: Limit) {
        let excess = self.sum.saturating_sub(u128::from(limit.burst.grains()));
        if excess > 0 {
            self.findings.fail(Violation {
                invariant: Invariant::Envelope,
                when: When::At(at),
                excess,
                what: "permits in flight over the limit",
            });
        }
    }
}
