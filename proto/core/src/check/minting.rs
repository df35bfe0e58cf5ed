//! Invariant 12: no minting.

use super::verdict::{Doubt, Findings, Invariant, Verdict, Violation, When};
use crate::unit::{Rate, Tick, Tokens};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// One bucket on one clock, however that clock runs: what left the bucket is at most what it began with, what
/// was moved in, and `rate × elapsed`. Only readings beyond the greatest one so far count as elapsed time.
///
/// So a clock that steps back, jumps to and fro or freezes makes nothing. The bucket's own clock is the
/// reference, not true time, and drift plays no part.
#[derive(Clone, Debug)]
pub struct Minting {
    greatest: Tick,
    rate: Rate,
    /// The amount that may have left, in grains × 10⁻⁹.
    allowed: u128,
    /// The amount that left, in grains.
    made: u128,
    findings: Findings,
}

impl Minting {
    /// Returns a bucket that refills at `rate` and holds at most `held` at the clock reading `now`: its
    /// level, or its burst if it may be full.
    #[must_use]
    pub fn new(now: Tick, rate: Rate, held: Tokens) -> Self {
        Self {
            greatest: now,
            rate,
            allowed: in_nanos(held),
            made: 0,
            findings: Findings::NONE,
        }
    }

    /// Records a clock reading that was passed to an operation.
    pub fn read(&mut self, now: Tick) {
        let elapsed = u128::from(now.since(self.greatest).nanos());
        let made = u128::from(self.rate.grains()).checked_mul(elapsed);
        self.greatest = self.greatest.max(now);
        self.allow(made);
    }

    /// Records that the bucket refills at `rate` from the reading `now` on. Added capacity allows nothing: it
    /// arrives empty.
    pub fn retune(&mut self, now: Tick, rate: Rate) {
        self.read(now);
        self.rate = rate;
    }

    /// Records that `tokens` were moved in.
    pub fn credit(&mut self, now: Tick, tokens: Tokens) {
        self.read(now);
        self.allow(Some(in_nanos(tokens)));
    }

    /// Records that `tokens` left: spent by an admission, or moved to another holder.
    pub fn spend(&mut self, now: Tick, tokens: Tokens) {
        self.read(now);
        self.made = self.made.saturating_add(u128::from(tokens.grains()));
        self.judge(now);
    }

    /// Records that `tokens` that had left came back: a cancelled admission.
    pub fn refund(&mut self, now: Tick, tokens: Tokens) {
        self.read(now);
        match self.made.checked_sub(u128::from(tokens.grains())) {
            Some(made) => self.made = made,
            None => self.findings.doubt(Doubt::Unmatched { at: now }),
        }
    }

    /// Passes if the bucket made no more than time allowed.
    pub fn verdict(&self) -> Verdict {
        self.findings.verdict()
    }

    fn allow(&mut self, more: Option<u128>) {
        match more.and_then(|more| self.allowed.checked_add(more)) {
            Some(allowed) => self.allowed = allowed,
            None => self.findings.doubt(Doubt::OutOfRange),
        }
    }

    fn judge(&mut self, now: Tick) {
        let Some(made) = self.made.checked_mul(NANOS_PER_SEC) else {
            self.findings.doubt(Doubt::OutOfRange);
            return;
        };
        let excess = made.saturating_sub(self.allowed).div_ceil(NANOS_PER_SEC);
        if excess > 0 {
            self.findings.fail(Violation {
                invariant: Invariant::NoMinting,
                when: When::At(now),
                excess,
                what: "grains more than the clock allows",
            });
        }
    }
}

/// Returns tokens in grains × 10⁻⁹. Exact: `2⁶⁴ · 2³⁰ < 2¹²⁸`.
fn in_nanos(tokens: Tokens) -> u128 {
    u128::from(tokens.grains()).saturating_mul(NANOS_PER_SEC)
}
