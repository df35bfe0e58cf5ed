//! Deferred charging: several admissions for one reading of the clock.
//!
//! Reading the clock is most of the cost of a decision. If a reading left more than enough tokens, the same
//! thread may take up to [`Word::DEFERRED_MAX`] further tokens without a reading: those tokens were available
//! then. That holds as long as no other thread changes the word in between. They are added to the debt like
//! any other, and the word counts them in its top four bits.
//!
//! # Why no tokens are created
//!
//! While a bucket is not full, its debt does not depend on when it was charged. A full bucket, however,
//! discards the supply that overflows, and must not discard the tokens that were taken meanwhile. So with the
//! supply `S` at a reading, a debt `D` and `d` of it deferred, the debt at that reading is
//!
//! > `max(D − d, S) + d`
//!
//! as if the deferred tokens were taken at that very reading. The reading is made after they were taken, so
//! they are charged as late as possible: until then they were available, by the reading before, and from then
//! on they are missing. So no window admits more than one bucket allows. If the bucket was full, the level is
//! at most `d` too low, and only until the next `d` units are replenished.
//!
//! The reading must be later than the deferred admissions. Only a thread that loaded the word before it read
//! the clock knows that, up to the few tens of nanoseconds by which a processor may read its counter early.
//! Other threads leave `d` as it is, to be charged again at a later reading; tokens charged at two readings
//! count as taken at the later one. Before a limit changes, `d` is charged while nothing is admitted, because
//! what is missing of one capacity is not what is missing of another.
//!
//! One case is not detected. A thread reads the clock and is suspended. Meanwhile refunds and admissions of
//! others produce the very same word again, with the same debt and the same number of deferred tokens. The
//! thread then charges those as of its old reading.
//!
//! Atomics: the word by compare-and-swap (`AcqRel`), and the name of the epoch (`Acquire`/`Release`). The
//! name is changed before the epoch begins, so a thread that still finds the old name cannot match a word of
//! the new epoch.

use super::fast_path::FastPath;
use super::{Cell, Slot, Word};
use crate::sync::{self, Bug, Ordering};
use aliquot_core::unit::Tick;
use std::sync::atomic::AtomicU64;

/// State of a word that a thread left behind, from which it may take further tokens without reading the
/// clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) word: u64,
    /// Name of the word's epoch. The same word can recur in another epoch; a name cannot.
    pub(crate) name: u64,
    pub(crate) token: u64,
    pub(crate) at: Tick,
}

impl Known {
    /// Returns what is known after a decision that left `word`, at the reading `at`, at which `owed` units
    /// were owed before it.
    #[inline(always)]
    pub(super) const fn of(word: u64, name: u64, fast: FastPath, owed: u64, at: Tick) -> Self {
        // Adding to the debt must stay within its bits.
        let enough = fast.leaves_enough(owed) && word & Word::DEBT_MAX <= Word::DEBT_MAX / 2;
        Self {
            word: if enough { word } else { u64::MAX },
            name,
            token: fast.token(),
            at,
        }
    }
}

/// Returns a name that no epoch has had; never zero.
pub(super) fn next_name() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Word {
    /// Maximum number of deferred tokens. The second constant limits them to this part of the burst.
    pub(crate) const DEFERRED_MAX: u64 = (1 << (u64::BITS - Self::DEFERRED_AT)) - 1;
    pub(super) const PART: u64 = if sync::STD_ATOMICS { 64 } else { 2 };
    const ONE_DEFERRED: u64 = 1 << Self::DEFERRED_AT;
}

impl Cell {
    /// Takes `n` tokens that are known to be available, to be charged at a later reading of the clock.
    /// Returns the word after that. Returns `None`, and takes nothing, if they are too many, if the word has
    /// changed, or if its epoch is over. `name` is what the caller just read from [`Cell::name`].
    #[inline(always)]
    pub(crate) fn take_known(&self, known: Known, n: u64, name: u64) -> Option<u64> {
        let word = known.word;
        let many = n > Word::DEFERRED_MAX - (word >> Word::DEFERRED_AT);
        if many || known.name != name {
            return None;
        }
        let next = word + n * (Word::ONE_DEFERRED + known.token);
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let swapped = self.hot.word.compare_exchange(word, next, done, found);
        swapped.is_ok().then_some(next)
    }

    /// Returns the name of the newest epoch, or of the one that is about to begin.
    #[inline(always)]
    pub(crate) fn name(&self) -> u64 {
        self.name.load(Ordering::Acquire)
    }

    /// Renames the cell, because another epoch is about to begin.
    pub(super) fn rename(&self) {
        self.name.store(next_name(), Ordering::Release);
    }

    /// Charges the deferred tokens at a reading that is made after they were seen. Returns true if there were
    /// any.
    pub(crate) fn charge_deferred(&self, clock: impl Fn() -> Tick) -> bool {
        let early = sync::planted(Bug::ReadBefore).then(&clock);
        let mut seen = self.hot.word.load(Ordering::Acquire);
        while seen >> Word::DEFERRED_AT > 0 {
            let now = early.unwrap_or_else(&clock);
            let word = Word::unpack(seen);
            let slot = self.slot(word.epoch);
            let debt = self.owed(&slot, word, self.floor(&slot, 0), now);
            if debt > Word::DEBT_MAX {
                return false;
            }
            let (deferred, epoch) = (0, word.epoch);
            let charged = Word {
                deferred,
                epoch,
                debt,
            };
            match self.swap(seen, charged) {
                Ok(()) => return true,
                Err(found) => seen = found,
            }
        }
        false
    }

    /// Returns the debt at `now`, with deferred tokens charged as if they were taken then. The level stays
    /// `floor` units below the capacity.
    #[inline(always)]
    pub(super) fn owed(&self, slot: &Slot, word: Word, floor: u64, now: Tick) -> u64 {
        match word.deferred {
            0 => word.debt,
            _ => self.owed_late(slot, word, floor, now),
        }
    }

    #[cold]
    fn owed_late(&self, slot: &Slot, word: Word, floor: u64, now: Tick) -> u64 {
        let deferred = self.deferred_of(slot, word);
        let (made, more) = slot.made(now);
        let full = made.saturating_add(floor);
        if word.debt.saturating_sub(deferred) > full || sync::planted(Bug::Forgotten) {
            return word.debt;
        }
        full.saturating_add(u64::from(more))
            .saturating_add(deferred)
    }

    /// Returns the deferred tokens in units.
    #[inline]
    pub(super) fn deferred_of(&self, slot: &Slot, word: Word) -> u64 {
        match word.deferred {
            0 => 0,
            deferred => deferred.saturating_mul(self.unit_cost(slot)),
        }
    }
}
