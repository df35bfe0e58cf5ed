//! The limit in force, and the greatest recent one.

use crate::unit::{Rate, Span, Tick, Tokens};
use alloc::collections::VecDeque;

/// A limit as the checkers see it: a whole of rate `R` and capacity `B`.
///
/// For a quota or for concurrency, the rate is 0 and the burst is `N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// `R`, in grains per second.
    pub rate: Rate,
    /// `B`, in grains.
    pub burst: Tokens,
}

impl Limit {
    /// Returns a limit of `rate` and `burst`.
    #[must_use]
    pub const fn new(rate: Rate, burst: Tokens) -> Self {
        Self { rate, burst }
    }

    /// Returns the greater of both in each component.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            rate: self.rate.max(other.rate),
            burst: self.burst.max(other.burst),
        }
    }
}

/// The greatest limit in force during the last `lag`, as limits change.
///
/// A lowered limit reaches the last holder only after a lag. So the limit that applies at the instant `t` is,
/// per component, the greatest limit whose closed time in force `[set, replaced]` meets `[t − lag, t]`. A
/// raise applies at once.
///
/// Memory: one entry per change of the last `lag`.
#[derive(Clone, Debug)]
pub struct Limits {
    lag: Span,
    since: Tick,
    current: Limit,
    /// Replaced limits, each with the last instant at which it still counts.
    fading: VecDeque<(Tick, Limit)>,
    greatest: Limit,
}

impl Limits {
    /// Returns the limits with `limit` in force since the instant `since`.
    #[must_use]
    pub const fn new(since: Tick, limit: Limit, lag: Span) -> Self {
        Self {
            lag,
            since,
            current: limit,
            fading: VecDeque::new(),
            greatest: limit,
        }
    }

    /// Returns a limit that was always in force.
    #[must_use]
    pub const fn constant(limit: Limit) -> Self {
        Self::new(Tick::ZERO, limit, Span::ZERO)
    }

    /// Returns the instant of the last change.
    #[must_use]
    pub const fn since(&self) -> Tick {
        self.since
    }

    /// Returns the limit that applies, as of the last [`Limits::expire`] or [`Limits::change`].
    #[must_use]
    pub const fn greatest(&self) -> Limit {
        self.greatest
    }

    /// Replaces the limit in force from the instant `at` on.
    ///
    /// The caller first expires everything before `at`.
    pub fn change(&mut self, at: Tick, limit: Limit) {
        let until = at.after(self.lag);
        self.fading.push_back((until, self.current));
        self.current = limit;
        self.since = at;
        self.greatest = self.greatest.join(limit);
    }

    /// Drops the oldest limit that no longer counts at `now`. Returns the last instant at which it did, and
    /// the limit that applies just after it.
    ///
    /// Call until it returns `None`.
    pub fn expire(&mut self, now: Tick) -> Option<(Tick, Limit)> {
        let &(until, _) = self.fading.front().filter(|(until, _)| *until < now)?;
        self.fading.pop_front();
        self.greatest = self
            .fading
            .iter()
            .fold(self.current, |all, (_, limit)| all.join(*limit));
        Some((until, self.greatest))
    }

    /// Returns the limit that applies at `now`.
    pub fn greatest_at(&mut self, now: Tick) -> Limit {
        while self.expire(now).is_some() {}
        self.greatest
    }
}

#[cfg(test)]
#[path = "../../tests/unit/check/limits.rs"]
mod tests;
