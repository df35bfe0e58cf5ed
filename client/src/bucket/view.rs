//! Read-only snapshots of a bucket, for estimates and metrics.

use super::step::{Next, update};
use super::{Bucket, Slot, Word};
use crate::sync::Ordering;
use aliquot_core::unit::{Span, Tick};

/// State of a bucket at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) slot: Slot,
    /// The level, in grains; zero if it is negative.
    pub(crate) level: u64,
    /// Missing to a full bucket, in grains; more than the burst if the level is negative.
    pub(crate) missing: u64,
    pub(crate) scale: u64,
    pub(crate) until: Tick,
    /// Supply and debt in units, for estimates of waits.
    made: u64,
    debt: u64,
}

/// Snapshot of the word and its slot.
pub(super) struct WordView {
    pub(super) word: Word,
    pub(super) slot: Slot,
    /// Supply before the base, in grains.
    pub(super) before: u64,
}

impl Bucket {
    /// Returns the snapshot that belongs to a value of the word.
    pub(super) fn word_view(&self, seen: u64) -> WordView {
        let word = Word::unpack(seen);
        WordView {
            word,
            slot: self.slot(word.epoch),
            before: self.cold.made[usize::from(word.epoch & 1)].load(Ordering::Relaxed),
        }
    }

    /// Returns what `read` makes of the word, its slot, and the rest of its epoch.
    pub(super) fn read<T>(&self, mut read: impl FnMut(&WordView) -> T) -> T {
        update(self, |seen| Next::Keep(read(&self.word_view(seen))))
    }

    /// Returns the tokens that threads admitted from caches and that were not counted before.
    pub(crate) fn take_uncounted(&self) -> u64 {
        self.thread_caches.take_uncounted()
    }

    /// Returns the state at `now`. Consistent: all of it is from one epoch.
    pub(crate) fn view(&self, now: Tick) -> View {
        self.read(|WordView { word, slot, .. }| self.view_of(*word, slot, now))
    }

    /// Returns the state that a word and its slot make at `now`.
    pub(super) fn view_of(&self, word: Word, slot: &Slot, now: Tick) -> View {
        let (made, _) = slot.made(now);
        let missing = word.debt.saturating_sub(made).max(self.floor(slot, 0));
        View {
            level: slot.grains(slot.burst.saturating_sub(missing)),
            missing: slot.grains(missing),
            slot: *slot,
            scale: self.hot.scale.load(Ordering::Relaxed),
            until: self.until(word.epoch),
            made,
            debt: word.debt,
        }
    }
}

impl View {
    /// Converts grains to tokens, rounded down.
    pub(crate) fn tokens(&self, grains: u64) -> u64 {
        grains / self.scale.max(1)
    }

    /// Returns true if all that was taken has been replenished. Capacity in thread caches does not count as
    /// taken.
    pub(crate) const fn is_full(&self) -> bool {
        self.debt <= self.made
    }

    /// Returns the time until `tokens` are replenished on top of the present level; `None` for never.
    pub(crate) fn wait_for(&self, tokens: u64) -> Option<Span> {
        let cost = self.slot.cost(tokens, self.scale)?;
        let due = self.debt.max(self.made).checked_add(cost)?;
        let due = due.saturating_sub(self.slot.burst);
        if due <= self.made {
            return Some(Span::ZERO);
        }
        let whole = self.slot.time_until(due)?;
        let gone = self.slot.time_until(self.made)?;
        Some(whole.minus_or_zero(gone))
    }
}
