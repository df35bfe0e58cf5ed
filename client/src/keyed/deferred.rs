//! Deferred charges of keys: decisions that read no clock.
//!
//! On some processors a reading of the counter waits for all memory requests before it, and those after it
//! wait for the reading. On others the reading is half of a decision on a key in the cache. So if a key had
//! more than enough tokens at an earlier reading of this thread, however old, a few tokens are taken without
//! another reading: they were there then, and time takes none away. The key's word counts them above its
//! debt, and they are added to the debt as well.
//!
//! ```text
//! word   deferred (4 bits) │ debt (60 bits)
//! ```
//!
//! # Why no tokens are made
//!
//! As in [`crate::cell::deferred`]: with `S` made by a reading, debt `D` and `d` of it deferred, the debt at
//! that reading is
//!
//! > `max(D − d, S) + d`
//!
//! as if the deferred tokens were taken at that very reading. The reading comes after they were taken, or
//! leaves them deferred for a later one. So they are charged as late as possible, and a bucket that knew when
//! each was taken owes at most as much.
//!
//! The cost: if the bucket was full, its level is lower by at most the deferred tokens, a 64th of the burst,
//! until time has made them after a reading. Nothing reads a clock for a key without requests, so any
//! look at the key, or a search for room, charges it first.
//!
//! Deferred tokens may be charged only if the word is read before the clock, since only then the reading is
//! the later of the two. (A processor may read its counter a few tens of nanoseconds before a load that
//! precedes it.)

#[cfg(test)]
use super::name::by_words;
#[cfg(test)]
use crate::cell::Slot;
use crate::cell::prepared_limit::{Cost, PreparedLimit};
use crate::sync::{self, Bug};
use aliquot_core::unit::Tick;
use std::cell::Cell;

thread_local! {
    /// The last reading of the counter by this thread, in nanoseconds: never ahead of the counter.
    static LATEST: Cell<u64> = const { Cell::new(0) };
}

/// Returns the last reading of this thread.
#[inline(always)]
pub(super) fn latest() -> Tick {
    Tick::from_nanos(LATEST.get())
}

/// Remembers a reading of this thread.
#[inline(always)]
pub(super) fn remember(now: Tick) {
    LATEST.set(now.nanos());
}

/// Number of tokens of each key of a class that may be deferred, and the layout of its word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferral {
    /// Maximum number of deferred tokens. If zero, a word is a debt and nothing else.
    most: u64,
    /// Cost of a token, in units.
    token: u64,
}

impl Deferral {
    const AT: u32 = 60;
    const DEBT_MAX: u64 = (1 << Self::AT) - 1;
    const MOST: u64 = u64::MAX >> Self::AT;
    /// The maximum is at most this part of the burst.
    const PART: u64 = if sync::STD_ATOMICS { 64 } else { 2 };
    /// Highest rate in units per second at which a debt of 60 bits lasts for 34 years.
    const RATE_MAX: u64 = 1 << 30;
    /// Amount made before a debt no longer fits: the rest is for the burst, and for a debt beyond it.
    pub(super) const MADE_MAX: u64 = Self::DEBT_MAX - (1 << 48);

    /// Makes the deferral of a bucket of `burst` units that makes `rate` units a second; a token is `token`
    /// units.
    pub(super) const fn of(burst: u64, token: u64, rate: u64) -> Self {
        let part = burst / Self::PART / token;
        let most = if part < Self::MOST { part } else { Self::MOST };
        match rate <= Self::RATE_MAX {
            true => Self { most, token },
            false => Self { most: 0, token },
        }
    }

    /// Returns true if any token may be deferred.
    #[inline(always)]
    pub(super) const fn is_any(&self) -> bool {
        self.most > 0
    }

    /// Returns the debt in a word.
    #[inline(always)]
    pub(super) const fn debt(&self, word: u64) -> u64 {
        match self.most {
            0 => word,
            _ => word & Self::DEBT_MAX,
        }
    }

    /// Returns the number of deferred tokens in a word.
    #[inline(always)]
    pub(super) const fn deferred(&self, word: u64) -> u64 {
        match self.most {
            0 => 0,
            _ => word >> Self::AT,
        }
    }

    /// Returns the debt at a reading, given `full`: what was made by then, rounded up.
    #[inline(always)]
    pub(super) fn owed(&self, word: u64, full: u64) -> u64 {
        let debt = self.debt(word);
        match self.cost_of_deferred(word) {
            0 => debt,
            _ if sync::planted(Bug::Forgotten) => debt,
            deferred => {
                let before = debt.saturating_sub(deferred).max(full);
                before.saturating_add(deferred)
            }
        }
    }

    /// Returns the debt in a word without its deferred tokens.
    pub(super) const fn not_deferred(&self, word: u64) -> u64 {
        let deferred = self.cost_of_deferred(word);
        self.debt(word).saturating_sub(deferred)
    }

    #[inline(always)]
    const fn cost_of_deferred(&self, word: u64) -> u64 {
        self.deferred(word).saturating_mul(self.token)
    }

    /// Returns the word with another debt and the same deferred tokens; `None` if the debt does not fit.
    #[inline(always)]
    pub(super) fn with(&self, word: u64, debt: u64) -> Option<u64> {
        match self.most {
            0 => Some(debt),
            _ if sync::planted(Bug::ChargedEarly) => Some(debt),
            _ => (debt <= Self::DEBT_MAX).then_some(debt | word & !Self::DEBT_MAX),
        }
    }

    /// Returns the word with `n` more deferred tokens, which must have been there at the earlier reading
    /// `floor`. `None` if they were not, or if too many tokens would be deferred.
    #[inline(always)]
    pub(super) fn later(
        &self,
        prepared: &PreparedLimit,
        word: u64,
        (n, cost): (u64, Cost),
        floor: Tick,
    ) -> Option<u64> {
        let deferred = (word >> Self::AT) + n;
        if deferred > self.most {
            return None;
        }
        let debt = prepared.after(word & Self::DEBT_MAX, cost, floor)?;
        Some(debt | deferred << Self::AT)
    }

    /// Returns the debt after the charge, with all deferred tokens charged as of `now`.
    #[inline(always)]
    pub(super) fn now(
        &self,
        prepared: &PreparedLimit,
        word: u64,
        cost: Cost,
        now: Tick,
    ) -> Option<u64> {
        match self.deferred(word) {
            0 => prepared.after(self.debt(word), cost, now),
            _ => prepared.after(self.owed(word, prepared.full(now)?), cost, now),
        }
    }

    /// Returns the word after the charge at a reading that may precede the look at the word. Deferred tokens
    /// stay deferred.
    #[inline(always)]
    pub(super) fn at(
        &self,
        prepared: &PreparedLimit,
        word: u64,
        cost: Cost,
        now: Tick,
    ) -> Option<u64> {
        self.with(word, self.now(prepared, word, cost, now)?)
    }
}

#[cfg(test)]
impl super::Keyed {
    /// Takes the fast path for keys of class 0, with this clock. `None` if the slow path would be needed;
    /// nothing was taken then.
    pub(crate) fn try_later(
        &self,
        key: &str,
        n: u64,
        floor: Tick,
        clock: impl Fn() -> Tick,
    ) -> Option<()> {
        by_words!(key, W => self.charge_later::<W>(key, n, floor, || Some(clock())))
    }

    pub(crate) const fn clock_is_in_place(&self) -> bool {
        matches!(self.clock, crate::clock::Source::InPlace(_))
    }

    /// Returns the limit of class 0, the cost of a token, and the maximum number of deferred tokens.
    pub(crate) fn first_class(&self) -> (Option<Slot>, u64, u64) {
        (
            self.classes[0].slot,
            self.classes[0].grains_per_token,
            self.deferral.most,
        )
    }
}
