//! The virtual bucket that recorded events are replayed against.

use super::limits::{Limit, Limits};
use super::verdict::{Doubt, Findings};
use crate::unit::{Drift, Tick, Tokens};

/// Parts of a grain in which levels are counted: 10⁹ nanoseconds × 10⁶ parts per million, so that `(1 + ρ) ·
/// R · Δt` is exact for any integers.
const PARTS_PER_GRAIN: i128 = 1_000_000_000_000_000;

const PPM: u32 = 1_000_000;

/// An exact bucket of rate `(1 + ρ) · R` and capacity `B` whose level may go below zero, by the excess.
///
/// Ranges, in parts of a grain: capacity and one cost `< 2⁶⁴ · 10¹⁵ < 2¹¹⁴`, the amount made in a nanosecond
/// `< 2⁶⁴ · 2²¹`. The level is at most the capacity and leaves 128 bits only from below, long after it was
/// first negative.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    at: Tick,
    level: i128,
    capacity: i128,
    per_nano: i128,
    drift: Drift,
    full_at: Tick,
}

impl Replay {
    /// Returns a bucket that is full at `since`.
    pub(super) fn full(since: Tick, limit: Limit, drift: Drift) -> Self {
        let capacity = in_parts(limit.burst);
        Self {
            at: since,
            level: capacity,
            capacity,
            per_nano: per_nano(limit, drift),
            drift,
            full_at: since,
        }
    }

    /// Returns the instant up to which the bucket is refilled.
    pub(super) const fn at(&self) -> Tick {
        self.at
    }

    /// Returns the level in grains, rounded down.
    pub(super) const fn level(&self) -> i128 {
        self.level.div_euclid(PARTS_PER_GRAIN)
    }

    /// Returns the level in parts of a grain.
    pub(super) const fn level_in_parts(&self) -> i128 {
        self.level
    }

    /// Returns the last instant at which the bucket was at its capacity.
    pub(super) const fn full_at(&self) -> Tick {
        self.full_at
    }

    /// Refills up to the instant `to`, which is not before the last one.
    ///
    /// Returns `None`, and changes nothing, if the debt has left 128 bits.
    #[inline]
    pub(super) fn advance(&mut self, to: Tick) -> Option<()> {
        let room = self.capacity.checked_sub(self.level)?;
        let elapsed = i128::from(to.since(self.at).nanos());
        match self.per_nano.checked_mul(elapsed) {
            Some(made) if made < room => self.level = self.level.checked_add(made)?,
            // An amount that does not fit 128 bits is more than any room that does.
            _ => {
                self.level = self.capacity;
                self.full_at = to;
            }
        }
        self.at = to;
        Some(())
    }

    /// Takes `cost`, even if it is not there. Returns `None`, and changes nothing, if the debt would leave
    /// 128 bits.
    #[inline]
    pub(super) fn spend(&mut self, cost: Tokens) -> Option<()> {
        self.level = self.level.checked_sub(in_parts(cost))?;
        Some(())
    }

    /// Returns true if `cost` is there.
    pub(super) fn covers(&self, cost: Tokens) -> bool {
        self.level >= in_parts(cost)
    }

    /// Puts `cost` back, at most up to the capacity.
    pub(super) fn refund(&mut self, cost: Tokens) -> Option<()> {
        let level = self.level.checked_add(in_parts(cost))?;
        self.level = level.min(self.capacity);
        Some(())
    }

    /// Changes the limit from the instant `at` on: raised capacity arrives empty, a level above a lowered one
    /// is cut.
    pub(super) fn relimit(&mut self, at: Tick, limit: Limit) -> Option<()> {
        self.advance(at)?;
        self.capacity = in_parts(limit.burst);
        self.per_nano = per_nano(limit, self.drift);
        self.level = self.level.min(self.capacity);
        Some(())
    }
}

/// Returns tokens in parts of a grain. Exact: `2⁶⁴ · 10¹⁵ < 2¹²⁷`.
fn in_parts(tokens: Tokens) -> i128 {
    i128::from(tokens.grains()).saturating_mul(PARTS_PER_GRAIN)
}

/// Returns parts of a grain per nanosecond. Exact: `2⁶⁴ · 2²¹ < 2¹²⁷`.
fn per_nano(limit: Limit, drift: Drift) -> i128 {
    let factor = i128::from(drift.ppm()).saturating_add(i128::from(PPM));
    i128::from(limit.rate.grains()).saturating_mul(factor)
}

/// A [`Replay`] whose limit is the greatest recent one.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    limits: Limits,
    pub(super) bucket: Replay,
}

impl Reference {
    /// Returns a bucket that is full when its first limit comes into force.
    pub(super) fn full(limits: Limits, drift: Drift) -> Self {
        let bucket = Replay::full(limits.since(), limits.greatest(), drift);
        Self { limits, bucket }
    }

    /// Refills up to `to`, and changes limits on the way. Notes a doubt in `findings` if that is not
    /// possible.
    #[inline]
    pub(super) fn advance(&mut self, to: Tick, findings: &mut Findings) -> Option<()> {
        if !findings.in_order(self.bucket.at(), to) {
            return None;
        }
        let done = self.advance_in_order(to);
        if done.is_none() {
            findings.doubt(Doubt::OutOfRange);
        }
        done
    }

    fn advance_in_order(&mut self, to: Tick) -> Option<()> {
        while let Some((until, limit)) = self.limits.expire(to) {
            self.bucket.relimit(until, limit)?;
        }
        self.bucket.advance(to)
    }

    /// Changes the limit in force from the instant `at` on.
    pub(super) fn change(&mut self, at: Tick, limit: Limit, findings: &mut Findings) {
        if self.advance(at, findings).is_none() {
            return;
        }
        self.limits.change(at, limit);
        if self.bucket.relimit(at, self.limits.greatest()).is_none() {
            findings.doubt(Doubt::OutOfRange);
        }
    }
}
