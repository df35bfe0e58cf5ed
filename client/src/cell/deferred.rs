//! Admissions that are charged later: one reading of the clock for a few of them.
//!
//! To read the clock is most of what a decision costs. Where there was more than enough at a reading, the thread that made it may take
//! [`Word::DEFERRED_MAX`] tokens more without another, as long as nobody else has touched the word: they were there. The word counts
//! them, beside its debt, which they are added to like any other.
//!
//! # Why nothing is made
//!
//! As long as a bucket is not full, its debt says nothing of when it was made. A full bucket forgets what time makes on top, and must
//! not forget what was taken meanwhile. So with `S` made by a reading, debt `D` and `d` of it deferred, what is owed at that reading is
//!
//! > `max(D − d, S) + d`
//!
//! as if the deferred ones were taken at that very reading. It is made after they were, so that they are charged as late as can be:
//! up to then they were there, by the reading before, and after it they are missing. No window sees more than one bucket gives. The
//! level is at most `d` too low for it, where the bucket was full, and then only until time has made them again.
//!
//! Only who saw the word before the clock knows that the reading is the later one, to within the few tens of nanoseconds by which a processor may
//! read its counter before it has seen what it was told to see first. All others leave `d` as it is, to be charged once more by one to
//! come: what is charged as of two readings is charged as of the later. Before a limit becomes another, `d` is charged while nobody is
//! admitted: what is missing of one capacity is not what is missing of another.
//!
//! What is not seen: a thread that read the clock and gets no turn until what others put back and took has made the very word again, to the
//! grain and with as many deferred, charges those as of its reading.

use super::plain::Plain;
use super::{Cell, Slot, Word};
use crate::sync::{self, Bug, Ordering};
use aliquot_core::unit::Tick;
use std::sync::atomic::AtomicU64;

/// What a thread knows of a word that it left behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) word: u64,
    /// The name of its epoch: words of one come again in another.
    pub(crate) name: u64,
    pub(crate) token: u64,
    pub(crate) at: Tick,
}

impl Known {
    /// What is known after a decision that left `word`, at a reading of the clock at which so much was `owed` before it.
    #[inline(always)]
    pub(super) const fn of(word: u64, name: u64, plain: Plain, owed: u64, at: Tick) -> Self {
        // What is added to the debt stays within its bits.
        let enough = plain.leaves_enough(owed) && word & Word::DEBT_MAX <= Word::DEBT_MAX / 2;
        Self {
            word: if enough { word } else { u64::MAX },
            name,
            token: plain.token(),
            at,
        }
    }
}

/// A name that no epoch has; never zero.
pub(super) fn next_name() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Word {
    /// So many tokens are deferred at most, and of the burst at most this part.
    pub(crate) const DEFERRED_MAX: u64 = (1 << (u64::BITS - Self::DEFERRED_AT)) - 1;
    pub(super) const PART: u64 = if sync::PLAIN { 64 } else { 2 };
    const ONE_DEFERRED: u64 = 1 << Self::DEFERRED_AT;
}

impl Cell {
    /// Takes `n` tokens that are known to be there, to be charged as of a reading to come. The word after that; `None`, and nothing was
    /// taken, if they are too many, or it is another word, or of an epoch of another name than [`Cell::name`] said just before.
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

    /// What the epoch that was begun last, or is about to be, is called.
    #[inline(always)]
    pub(crate) fn name(&self) -> u64 {
        self.name.load(Ordering::Acquire)
    }

    /// Another epoch is about to begin.
    pub(super) fn rename(&self) {
        self.name.store(next_name(), Ordering::Release);
    }

    /// Charges what is deferred as of a reading that is made after that was seen. Whether anything was.
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

    /// What is owed at a reading of the clock, and what is deferred as if it were taken then. The level stays `floor` units below the
    /// capacity.
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

    /// What is deferred, in units.
    #[inline]
    pub(super) fn deferred_of(&self, slot: &Slot, word: Word) -> u64 {
        match word.deferred {
            0 => 0,
            deferred => deferred.saturating_mul(self.unit_cost(slot)),
        }
    }
}
