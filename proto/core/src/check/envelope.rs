//! Invariant 1: the envelope.
//!
//! For every closed window of true time, `Σ cost ≤ (1 + ρ) · R · Δt + B`. Comparing every pair of events is
//! quadratic. A bucket of rate `(1 + ρ)R` and capacity `B` that starts full, refills, and pays every cost
//! finds the same in one pass, because its level after the event `j` is exactly
//!
//! `levelⱼ = min over i ≤ j of B + (1 + ρ)·R·(tⱼ − tᵢ) − Σ cost(i..=j)`:
//!
//! the least slack of all windows that end with `j`.

mod concurrency;
mod lagged;
mod quota;

pub use concurrency::ConcurrencyCheck;
pub use lagged::LaggedEnvelope;
pub use quota::QuotaCheck;

use super::limits::Limit;
use super::replay::Replay;
use super::verdict::{Doubt, Findings, Invariant, Verdict, Violation, When};
use crate::unit::{Drift, Tick, Tokens};

/// The exact envelope of one unchanging limit, in constant time and memory per event.
///
/// ```
/// use aliquot_core::check::{Envelope, Limit};
/// use aliquot_core::unit::{Drift, Rate, Tick, Tokens};
///
/// let limit = Limit::new(Rate::from_grains(10), Tokens::from_grains(5));
/// let mut envelope = Envelope::new(limit, Drift::default());
/// envelope.admit(Tick::ZERO, Tokens::from_grains(5));
/// envelope.admit(Tick::from_nanos(100_000_000), Tokens::from_grains(1));
/// assert!(envelope.verdict().is_pass());
/// assert_eq!(envelope.report().slack, 0);
/// envelope.admit(Tick::from_nanos(100_000_000), Tokens::from_grains(1));
/// assert_eq!(envelope.report().slack, -1);
/// ```
#[derive(Clone, Debug)]
pub struct Envelope {
    bucket: Replay,
    tally: Tally,
}

impl Envelope {
    /// Returns the envelope of `limit` under clocks that run within `drift`.
    #[must_use]
    pub fn new(limit: Limit, drift: Drift) -> Self {
        Self {
            bucket: Replay::full(Tick::ZERO, limit, drift),
            tally: Tally::new(limit.burst),
        }
    }

    /// Records an admission of `cost` at the true time `at`.
    ///
    /// Events come in order of time; those of one instant in any order.
    #[inline]
    pub fn admit(&mut self, at: Tick, cost: Tokens) {
        if !self.tally.findings.in_order(self.bucket.at(), at) {
            return;
        }
        let done = self
            .bucket
            .advance(at)
            .and_then(|()| self.bucket.spend(cost));
        self.tally.count(&self.bucket, done);
    }

    /// Returns the worst window so far.
    #[must_use]
    pub const fn report(&self) -> EnvelopeReport {
        self.tally.report
    }

    /// Passes if the envelope was kept.
    pub fn verdict(&self) -> Verdict {
        self.tally.verdict()
    }
}

/// Distance of the recorded admissions from the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeReport {
    /// Grains by which the worst window stays under its bound, rounded down; negative if it does not. The
    /// burst, if nothing was recorded.
    pub slack: i128,
    /// The worst window, closed at both ends: the first of equals.
    pub window: Option<(Tick, Tick)>,
    /// Number of events judged.
    pub events: u64,
    /// Number of events that ended some window over its bound.
    pub violations: u64,
}

/// The worst level of a bucket, event by event.
#[derive(Clone, Debug)]
struct Tally {
    report: EnvelopeReport,
    /// The worst level, in parts of a grain.
    worst: i128,
    findings: Findings,
}

impl Tally {
    fn new(burst: Tokens) -> Self {
        Self {
            report: EnvelopeReport {
                slack: i128::from(burst.grains()),
                window: None,
                events: 0,
                violations: 0,
            },
            worst: i128::MAX,
            findings: Findings::NONE,
        }
    }

    /// Counts the event that `bucket` just paid for. If it could not (`None`), its debt is out of range, and
    /// it was over its bound before.
    #[inline]
    fn count(&mut self, bucket: &Replay, paid: Option<()>) {
        if paid.is_none() {
            self.findings.doubt(Doubt::OutOfRange);
        }
        if self.findings.is_doubtful() {
            return;
        }
        let report = &mut self.report;
        report.events = report.events.saturating_add(1);
        let level = bucket.level_in_parts();
        if level < 0 {
            report.violations = report.violations.saturating_add(1);
        }
        if level < self.worst {
            self.worst = level;
            report.slack = bucket.level();
            report.window = Some((bucket.full_at(), bucket.at()));
        }
    }

    fn verdict(&self) -> Verdict {
        match self.report.window {
            Some((from, to)) if self.report.slack < 0 => Verdict::Fail(Violation {
                invariant: Invariant::Envelope,
                when: When::Within { from, to },
                excess: self.report.slack.unsigned_abs(),
                what: "grains admitted over the envelope",
            }),
            _ => self.findings.verdict(),
        }
    }
}
