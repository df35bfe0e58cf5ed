//! The slot of one key.

use super::super::name::{Name, Spelled, WORDS};
use crate::bucket::step::{AtomicWord, Next, update};
use crate::clock::prefetch::fetch;
use crate::sync::{self, AtomicU64, Bug, Ordering, fence};

pub(super) const READY: u64 = 1;
pub(super) const BUSY: u64 = 2;
const LABEL: u64 = 0xff_ffff & !3;
const VERSION: u64 = 1 << 24;

/// A slot: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(in super::super) struct Line {
    pub(super) debt: AtomicU64,
    pub(super) owner: AtomicU64,
    key: [AtomicU64; WORDS],
}

const _: () = assert!(!sync::STD_ATOMICS || size_of::<Line>() == 64);

/// Returns the owner word of a slot without an owner, after this owner.
pub(super) const fn vacated(owner: u64) -> u64 {
    (owner & !(VERSION - 1)).wrapping_add(VERSION)
}

/// A slot, and its owner when it was found.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Found<'a> {
    pub(super) line: &'a Line,
    pub(super) owner: u64,
}

impl Line {
    pub(super) fn new() -> Self {
        Self {
            debt: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            key: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline(always)]
    pub(super) fn fetch(&self) {
        fetch(&self.debt);
    }

    /// Makes a slot busy that was seen with this owner, or free. Returns false if another thread changed the
    /// owner first.
    pub(super) fn make_busy(&self, owner: u64) -> bool {
        let busy = (owner & !READY) | BUSY;
        self.owner.try_swap(owner, busy)
    }

    /// Returns the owner of the slot, after any change in progress.
    #[inline]
    fn settled(&self) -> u64 {
        loop {
            let owner = self.owner.load(Ordering::Acquire);
            if owner & BUSY == 0 {
                return owner;
            }
            // A change takes two or three stores.
            sync::spin();
        }
    }

    /// Returns the slot if it belongs to this key.
    pub(super) fn found(&self, name: &Spelled<'_>) -> Option<Found<'_>> {
        loop {
            let owner = self.settled();
            if owner & (LABEL | READY) != name.label | READY {
                return None;
            }
            let same = self.has_words(name.words);
            fence(Ordering::Acquire);
            if self.owner.load(Ordering::Relaxed) == owner {
                return same.then_some(Found { line: self, owner });
            }
        }
    }

    /// Returns the slot if it belongs to this key, at first sight: `None` also while another thread changes
    /// the owner. The words may be torn; the charge reads the owner again, and sees it.
    #[inline(always)]
    pub(in super::super) fn found_at_once<const W: usize>(
        &self,
        name: &Name<W>,
    ) -> Option<Found<'_>> {
        let owner = self.owner.load(Ordering::Acquire);
        let so =
            owner & (LABEL | READY | BUSY) == name.label | READY && self.has_words(&name.words);
        so.then_some(Found { line: self, owner })
    }

    /// Returns true if the slot holds these words. Compares all of them, so that the branch is predictable.
    #[inline(always)]
    fn has_words(&self, words: &[u64]) -> bool {
        let words = self.key.iter().zip(words);
        let differ = words.fold(0, |differ, (mine, word)| {
            differ | mine.load(Ordering::Relaxed) ^ word
        });
        differ == 0
    }

    /// Writes a key. Only for the thread that made the slot busy.
    pub(super) fn write(&self, name: &Spelled<'_>) {
        // A thread that reads any of these stores then sees that the slot is busy.
        fence(Ordering::Release);
        for (to, from) in self.key.iter().zip(name.words) {
            to.store(*from, Ordering::Relaxed);
        }
    }
}

impl Found<'_> {
    /// Returns the debt.
    #[inline(always)]
    pub(in super::super) fn debt(&self) -> u64 {
        self.line.debt.load(Ordering::Acquire)
    }

    /// Returns the address of the slot and its owner word. No other key ever has the same pair, nor has this
    /// key after it was forgotten.
    pub(in super::super) fn identity(&self) -> (usize, u64) {
        (std::ptr::from_ref(self.line).addr(), self.owner)
    }

    /// Changes the debt to what `lower` returns, while no thread can take the slot away, and returns the debt
    /// before and after. A refund of one key must never go to another. `None` if another thread holds the
    /// slot, or if it belongs to another key by now.
    pub(super) fn hold(&self, lower: &mut impl FnMut(u64) -> u64) -> Option<(u64, u64)> {
        let (line, owner) = (self.line, self.owner);
        if !line.make_busy(owner) {
            return None;
        }
        let lowered = update(&line.debt, |debt| {
            let next = lower(debt);
            Next::Swap(next, (debt, next))
        });
        line.owner.store(owner, Ordering::Release);
        Some(lowered)
    }

    /// Returns true if the slot still belongs to the key. What was read from it before is then the key's.
    #[inline(always)]
    pub(in super::super) fn is_still(&self) -> bool {
        fence(Ordering::Acquire);
        self.line.settled() == self.owner
    }

    /// Changes the debt as `look` says, and returns its value; `None` if the slot belongs to another key by now.
    /// `look` sees only debts of the key.
    #[inline(always)]
    pub(in super::super) fn update<T>(&self, mut look: impl FnMut(u64) -> Next<T>) -> Option<T> {
        update(self, |debt| {
            match self.is_still() || sync::planted(Bug::OwnerUnseen) {
                true => look(debt).map(Some),
                false => Next::Keep(None),
            }
        })
    }
}

impl AtomicWord for Found<'_> {
    #[inline(always)]
    fn see(&self) -> u64 {
        self.debt()
    }

    /// Also returns false if another key has the slot now. That key keeps the charge, which cannot be undone: the
    /// debt may be as it was written here, or be the same by a charge of the other key.
    #[inline(always)]
    fn try_swap(&self, seen: u64, next: u64) -> bool {
        // If the owner is unchanged, what was read before the swap was this key's: a thread that takes the
        // slot away swaps the debt before it writes another key, so its swap came after this one, and the
        // other key's words after that.
        self.line.debt.try_swap(seen, next)
            && (self.line.owner.load(Ordering::Acquire) == self.owner
                || self.is_still()
                || sync::planted(Bug::OwnerUnseen))
    }

    /// The owner was read after the debt.
    #[inline(always)]
    fn is_current(&self, _: u64) -> bool {
        true
    }
}

/// Returns the class in an owner word.
pub(super) const fn class_of(owner: u64) -> u16 {
    (owner >> 8) as u16
}
