//! The GCRA step of every decision on a token bucket, and the compare-and-swap loop of every decision.
//!
//! # In terms of GCRA
//!
//! A classic GCRA stores the theoretical arrival time (TAT). A bucket here stores the **debt** `D` instead: the
//! units consumed since a base tick, including the capacity that was missing at the base. With `S(t)` the
//! supply, the units replenished between the base and `t`, and `B` the burst:
//!
//! ```text
//! TAT                = least t with S(t) ≥ D
//! emission interval  = time in which one token is replenished
//! level at t         = B − max(D − S(t), 0)
//! admit cost c at t  ⇔ max(D, S(t)) + c − B ≤ S(t)       then D ← max(D, S(t)) + c
//! ```
//!
//! The last line is [`BucketAt::step`]. It is governor's step with time converted to units: `max(D, S)` is
//! `max(TAT, now)`. With a debt in units, the missing part of a bucket carries over to another rate without
//! converting times.
//!
//! # The loop
//!
//! A decision loads the debt, computes the step, and swaps the debt if it is unchanged: [`update`]. Limiters keep
//! the debt in the word of a [`Bucket`](super::Bucket), keyed stores in the line of a key. Windows, permits, pacers
//! and breakers have words of other contents and steps of their own, and the same loop.

use crate::sync::{AtomicU64, Ordering};

/// A bucket at one reading of the clock: all that the step needs besides the debt. In units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketAt {
    /// The burst `B`.
    pub(crate) burst: u64,
    /// Capacity that thread caches hold: the level stays this much below the burst.
    pub(crate) held: u64,
    /// The supply `S`, rounded down.
    pub(crate) made: u64,
    /// The supply, rounded up: a full bucket loses the unit in progress.
    pub(crate) full: u64,
}

/// Result of the step for one cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Debt after the cost.
    pub(crate) debt: u64,
    /// Supply from which on the cost is admitted.
    pub(crate) due: u64,
}

impl BucketAt {
    /// The GCRA step for a cost of at most the burst.
    ///
    /// A bucket with a debt of at most the supply is full: its debt restarts from the supply, as a TAT in the past
    /// restarts from `now`, and what it replenished beyond the burst is lost.
    #[inline(always)]
    pub(crate) const fn step(&self, debt: u64, cost: u64) -> Step {
        let least = self.made.saturating_add(self.held);
        let (counted, start) = match debt <= least {
            true => (least, self.full.saturating_add(self.held)),
            false => (debt, debt),
        };
        Step {
            debt: start.saturating_add(cost),
            due: counted.saturating_add(cost).saturating_sub(self.burst),
        }
    }

    /// Returns true if a step is admitted now.
    #[inline(always)]
    pub(crate) const fn admits(&self, step: Step) -> bool {
        step.due <= self.made
    }
}

/// Outcome of a look at a word.
#[derive(Debug)]
pub(crate) enum Next<T> {
    /// Swap the word that was seen for this one, and return the value.
    Swap(u64, T),
    /// Leave the word, and return the value.
    Keep(T),
    /// Look again.
    Again,
}

impl<T> Next<T> {
    /// Changes the value.
    #[inline(always)]
    pub(crate) fn map<U>(self, to: impl FnOnce(T) -> U) -> Next<U> {
        match self {
            Self::Swap(next, value) => Next::Swap(next, to(value)),
            Self::Keep(value) => Next::Keep(to(value)),
            Self::Again => Next::Again,
        }
    }
}

/// An atomic word that other threads change as well.
pub(crate) trait AtomicWord {
    /// Returns the word (`Acquire`).
    fn see(&self) -> u64;

    /// Swaps `seen` for `next` (`AcqRel`). Returns false if another thread was first, or if the word does not
    /// belong to the same limit any more.
    fn try_swap(&self, seen: u64, next: u64) -> bool;

    /// Returns true if all that was read since `seen` was loaded belongs to it.
    fn is_current(&self, seen: u64) -> bool;
}

/// Looks at a word until what `look` makes of it takes effect: by a swap of the very word that was seen, or
/// without one if what it read belonged together.
#[inline(always)]
pub(crate) fn update<T>(word: &impl AtomicWord, mut look: impl FnMut(u64) -> Next<T>) -> T {
    loop {
        let seen = word.see();
        match look(seen) {
            Next::Swap(next, value) if word.try_swap(seen, next) => return value,
            Next::Keep(value) if word.is_current(seen) => return value,
            Next::Swap(..) | Next::Keep(_) | Next::Again => {}
        }
    }
}

/// A word that is always of the same limit.
impl AtomicWord for AtomicU64 {
    #[inline(always)]
    fn see(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn try_swap(&self, seen: u64, next: u64) -> bool {
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        self.compare_exchange(seen, next, done, found).is_ok()
    }

    fn is_current(&self, _: u64) -> bool {
        true
    }
}
