//! Keys that are charged later: a decision without a reading of the clock.
//!
//! On some processors a reading of the counter waits for all memory that was asked for before, and all that is asked for after it waits
//! for the reading; on others it is half of a decision on a key that is near. Where there was more than enough at a reading that this thread
//! made before, whenever that was, a few tokens are taken without another: they were there then, and time takes none away. The key's word
//! counts them, above its debt, which they are added to like any other.
//!
//! ```text
//! word   deferred (4 bits) │ debt (60 bits)
//! ```
//!
//! # Why nothing is made
//!
//! As in [`crate::cell::deferred`]: with `S` made by a reading, debt `D` and `d` of it deferred, what is owed at that reading is
//!
//! > `max(D − d, S) + d`
//!
//! as if those were taken at that very reading. It is made after they were, or leaves them deferred, to be charged once more by one to come; so
//! they are charged as late as can be, and a bucket that knew when each was taken owes at most as much. What it costs: where
//! the bucket was full, its level is lower by at most what is deferred, a 64th of the burst, until time has made that again after a reading.
//! Nobody comes by to read a clock for a key that nobody asks for: whoever looks at it or for room charges it first.
//!
//! Only who sees the word before the clock may charge what is deferred, since only then the reading is the later one, to within the few tens
//! of nanoseconds by which a processor may read its counter before it has seen what it was told to see first.

#[cfg(test)]
use super::name::by_words;
#[cfg(test)]
use crate::cell::Slot;
use crate::cell::tariff::{Fare, Tariff};
use crate::sync::{self, Bug};
use aliquot_core::unit::Tick;
use std::cell::Cell;

thread_local! {
    /// What this thread read last of the counter, in nanoseconds: never ahead of it.
    static LATEST: Cell<u64> = const { Cell::new(0) };
}

/// What this thread read last.
#[inline(always)]
pub(super) fn latest() -> Tick {
    Tick::from_nanos(LATEST.get())
}

/// This thread just read so much.
#[inline(always)]
pub(super) fn remember(now: Tick) {
    LATEST.set(now.nanos());
}

/// How much of each key of a class may be deferred, and what a word says of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferral {
    /// So many tokens; with none a word is a debt, and nothing else.
    most: u64,
    /// What one of them costs, in units.
    token: u64,
}

impl Deferral {
    const AT: u32 = 60;
    const DEBT_MAX: u64 = (1 << Self::AT) - 1;
    const MOST: u64 = u64::MAX >> Self::AT;
    /// At most this part of the burst.
    const PART: u64 = if sync::PLAIN { 64 } else { 2 };
    /// The fastest of which a debt lasts for 34 years, in units per second.
    const RATE_MAX: u64 = 1 << 30;
    /// So much is made at most before a debt no longer fits: the rest is for the burst, and for what is owed beyond it.
    pub(super) const MADE_MAX: u64 = Self::DEBT_MAX - (1 << 48);

    /// Of a bucket of `burst` units, `token` of which are a token, that makes `rate` a second.
    pub(super) const fn of(burst: u64, token: u64, rate: u64) -> Self {
        let part = burst / Self::PART / token;
        let most = if part < Self::MOST { part } else { Self::MOST };
        match rate <= Self::RATE_MAX {
            true => Self { most, token },
            false => Self { most: 0, token },
        }
    }

    /// Whether any may be.
    #[inline(always)]
    pub(super) const fn is_any(&self) -> bool {
        self.most > 0
    }

    /// The debt in a word.
    #[inline(always)]
    pub(super) const fn debt(&self, word: u64) -> u64 {
        match self.most {
            0 => word,
            _ => word & Self::DEBT_MAX,
        }
    }

    /// The tokens of it that are deferred.
    #[inline(always)]
    pub(super) const fn deferred(&self, word: u64) -> u64 {
        match self.most {
            0 => 0,
            _ => word >> Self::AT,
        }
    }

    /// What is owed where so much was made by then, rounded up.
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

    /// The debt in a word without what is deferred of it.
    pub(super) const fn not_deferred(&self, word: u64) -> u64 {
        let deferred = self.cost_of_deferred(word);
        self.debt(word).saturating_sub(deferred)
    }

    #[inline(always)]
    const fn cost_of_deferred(&self, word: u64) -> u64 {
        self.deferred(word).saturating_mul(self.token)
    }

    /// The word with another debt, and as much of it deferred; `None` if that is no debt of such a word.
    #[inline(always)]
    pub(super) fn with(&self, word: u64, debt: u64) -> Option<u64> {
        match self.most {
            0 => Some(debt),
            _ if sync::planted(Bug::ChargedEarly) => Some(debt),
            _ => (debt <= Self::DEBT_MAX).then_some(debt | word & !Self::DEBT_MAX),
        }
    }

    /// The word after `n` tokens more are deferred, which were there at a reading that was made at some time before; `None` if they were
    /// not, or are too many.
    #[inline(always)]
    pub(super) fn later(
        &self,
        tariff: &Tariff,
        word: u64,
        (n, fare): (u64, Fare),
        floor: Tick,
    ) -> Option<u64> {
        let deferred = (word >> Self::AT) + n;
        if deferred > self.most {
            return None;
        }
        let debt = tariff.after(word & Self::DEBT_MAX, fare, floor)?;
        Some(debt | deferred << Self::AT)
    }

    /// The debt after that, with all that is deferred charged as of a reading.
    #[inline(always)]
    pub(super) fn now(&self, tariff: &Tariff, word: u64, fare: Fare, now: Tick) -> Option<u64> {
        match self.deferred(word) {
            0 => tariff.after(self.debt(word), fare, now),
            _ => tariff.after(self.owed(word, tariff.full(now)?), fare, now),
        }
    }

    /// The word after that at a reading that may have been made before the word was seen: what was deferred still is.
    #[inline(always)]
    pub(super) fn at(&self, tariff: &Tariff, word: u64, fare: Fare, now: Tick) -> Option<u64> {
        self.with(word, self.now(tariff, word, fare, now)?)
    }
}

#[cfg(test)]
impl super::Keyed {
    /// What most decisions on keys of class 0 do, by a clock that is read if it must be; `None`, and nothing was taken, where the long way
    /// would be gone.
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

    /// The limit of class 0, what a token of it costs, and how many may be charged later.
    pub(crate) fn first_class(&self) -> (Option<Slot>, u64, u64) {
        (
            self.classes[0].slot,
            self.classes[0].grains_per_token,
            self.deferral.most,
        )
    }
}
