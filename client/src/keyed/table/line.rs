//! One key's slot.

use super::super::name::Name;
use super::super::near::fetch;
use crate::sync::{self, AtomicU64, Bug, Ordering, fence};

pub(super) const READY: u64 = 1;
pub(super) const BUSY: u64 = 2;
const LABEL: u64 = 0xff_ffff & !3;
pub(super) const VERSION: u64 = 1 << 24;

/// A slot.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Line {
    pub(super) debt: AtomicU64,
    pub(super) owner: AtomicU64,
    key: [AtomicU64; Name::WORDS],
}

const _: () = assert!(!sync::PLAIN || size_of::<Line>() == 64);

/// A slot, and whose it was when it was found.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Found<'a> {
    pub(super) line: &'a Line,
    pub(super) owner: u64,
}

/// Why a charge was not made.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum No {
    /// Somebody else charged the key: it now owes this.
    Changed(u64),
    /// The slot is another key's by now.
    Lost,
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

    /// Whose the slot is, once that is decided.
    #[inline(always)]
    fn settled(&self) -> u64 {
        loop {
            let owner = self.owner.load(Ordering::Acquire);
            if owner & BUSY == 0 {
                return owner;
            }
            // Two or three stores, or the decision to leave it alone.
            sync::spin();
        }
    }

    /// The slot, if it is this key's.
    #[inline(always)]
    pub(super) fn found(&self, name: &Name) -> Option<Found<'_>> {
        loop {
            let owner = self.settled();
            if owner & (LABEL | READY) != name.label() | READY {
                return None;
            }
            // All words, since those that a key does not use are zero: one comparison that is always the same. A model
            // of all interleavings has fewer if it reads no more than it must.
            let used = if sync::PLAIN {
                Name::WORDS
            } else {
                name.used()
            };
            let words = self.key.iter().zip(&name.words).take(used);
            let differ = words.fold(0, |differ, (mine, word)| {
                differ | mine.load(Ordering::Relaxed) ^ word
            });
            fence(Ordering::Acquire);
            if self.owner.load(Ordering::Relaxed) == owner {
                return (differ == 0).then_some(Found { line: self, owner });
            }
        }
    }

    /// Writes a key down. Whoever made the slot busy.
    pub(super) fn write(&self, name: &Name) {
        for (to, from) in self.key.iter().zip(&name.words) {
            to.store(*from, Ordering::Relaxed);
        }
    }
}

impl Found<'_> {
    /// What is owed.
    #[inline(always)]
    pub(in super::super) fn debt(&self) -> u64 {
        self.line.debt.load(Ordering::Acquire)
    }

    /// Whether the slot is still that key's.
    #[inline(always)]
    pub(in super::super) fn is_still(&self) -> bool {
        self.line.settled() == self.owner
    }

    /// Changes the debt from `debt` to `next`, if it and the key are still the same.
    #[inline(always)]
    pub(in super::super) fn charge(&self, debt: u64, next: u64) -> Result<(), No> {
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        let swapped = self.line.debt.compare_exchange(debt, next, done, found);
        if let Err(seen) = swapped {
            return match self.is_still() {
                true => Err(No::Changed(seen)),
                false => Err(No::Lost),
            };
        }
        if self.is_still() || sync::planted(Bug::OwnerUnseen) {
            return Ok(());
        }
        // Another key's now. It keeps the charge: whether the word still is what was
        // written here, nobody knows; it may be the very charge of the other key.
        Err(No::Lost)
    }
}

/// The class that an owner is of.
pub(super) const fn class_of(owner: u64) -> u16 {
    (owner >> 8) as u16
}
