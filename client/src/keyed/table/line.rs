//! One key's slot.

use super::super::name::{Name, Spelled, WORDS};
use super::super::near::fetch;
use super::Limits;
use crate::sync::{self, AtomicU64, Bug, Ordering, fence};

pub(super) const READY: u64 = 1;
pub(super) const BUSY: u64 = 2;
const LABEL: u64 = 0xff_ffff & !3;
const VERSION: u64 = 1 << 24;

/// A slot.
#[derive(Debug)]
#[repr(align(64))]
pub(in super::super) struct Line {
    pub(super) debt: AtomicU64,
    pub(super) owner: AtomicU64,
    key: [AtomicU64; WORDS],
}

const _: () = assert!(!sync::PLAIN || size_of::<Line>() == 64);

/// What says of a slot that it is nobody's, after it was this owner's.
pub(super) const fn vacated(owner: u64) -> u64 {
    (owner & !(VERSION - 1)).wrapping_add(VERSION)
}

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

    /// Makes a slot busy that was seen to be an owner's, or free. Whether nobody else changed it first.
    pub(super) fn make_busy(&self, owner: u64) -> bool {
        let busy = (owner & !READY) | BUSY;
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        let made = self.owner.compare_exchange(owner, busy, done, found);
        made.is_ok()
    }

    /// Whose the slot is, once that is decided.
    #[inline]
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
    pub(super) fn found(&self, name: &Spelled<'_>) -> Option<Found<'_>> {
        loop {
            let owner = self.settled();
            if owner & (LABEL | READY) != name.label | READY {
                return None;
            }
            let same = self.says(name.words);
            fence(Ordering::Acquire);
            if self.owner.load(Ordering::Relaxed) == owner {
                return same.then_some(Found { line: self, owner });
            }
        }
    }

    /// The same at the first look: `None`, too, while somebody changes whose it is. That the words are all of one key is seen
    /// by the owner, which whoever charges looks at again.
    #[inline(always)]
    pub(in super::super) fn found_at_once<const W: usize>(
        &self,
        name: &Name<W>,
    ) -> Option<Found<'_>> {
        let owner = self.owner.load(Ordering::Acquire);
        let so = owner & (LABEL | READY | BUSY) == name.label | READY && self.says(&name.words);
        so.then_some(Found { line: self, owner })
    }

    /// Whether these are the key's words. All are looked at: one comparison that is always the same.
    #[inline(always)]
    fn says(&self, words: &[u64]) -> bool {
        let words = self.key.iter().zip(words);
        let differ = words.fold(0, |differ, (mine, word)| {
            differ | mine.load(Ordering::Relaxed) ^ word
        });
        differ == 0
    }

    /// Writes a key down. Whoever made the slot busy.
    pub(super) fn write(&self, name: &Spelled<'_>) {
        // Who reads any of these sees that the slot is busy.
        fence(Ordering::Release);
        for (to, from) in self.key.iter().zip(name.words) {
            to.store(*from, Ordering::Relaxed);
        }
    }
}

impl Found<'_> {
    /// What is owed, and perhaps how much of it is charged later.
    #[inline(always)]
    pub(in super::super) fn word(&self) -> u64 {
        self.line.debt.load(Ordering::Acquire)
    }

    /// Which slot it is, and whose: no other key ever has the same of both, nor this one when it comes again.
    pub(in super::super) fn identity(&self) -> (usize, u64) {
        (std::ptr::from_ref(self.line).addr(), self.owner)
    }

    /// Changes the debt to what `lower` says, from and to what is answered, while nobody can take the slot away: what one key puts back
    /// must never be another's. `None` if somebody else has a hold of the slot, or it is another key's by now.
    pub(super) fn hold(&self, lower: &mut impl FnMut(u64) -> u64) -> Option<(u64, u64)> {
        let (line, owner) = (self.line, self.owner);
        if !line.make_busy(owner) {
            return None;
        }
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        let mut debt = self.word();
        let lowered = loop {
            let next = lower(debt);
            match line.debt.compare_exchange(debt, next, done, found) {
                Ok(_) => break (debt, next),
                Err(seen) => debt = seen,
            }
        };
        line.owner.store(owner, Ordering::Release);
        Some(lowered)
    }

    /// The word after what was deferred of it was charged, if nobody else has a hold of the slot.
    pub(in super::super) fn settled(&self, limits: &impl Limits) -> u64 {
        let (word, class) = (self.word(), class_of(self.owner));
        if limits.charged(class, word).is_none() {
            return word;
        }
        let mut charge = |word| limits.charged(class, word).unwrap_or(word);
        self.hold(&mut charge).map_or(word, |(_, charged)| charged)
    }

    /// Whether the slot is still that key's, and so was whatever was read of it.
    #[inline(always)]
    pub(in super::super) fn is_still(&self) -> bool {
        fence(Ordering::Acquire);
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
        // What was read before the swap is this key's if the slot still is: whoever takes it away swaps the debt as well before
        // another key is written, so that its swap came after this one, and these words after that.
        let same = self.line.owner.load(Ordering::Acquire) == self.owner;
        if same || self.is_still() || sync::planted(Bug::OwnerUnseen) {
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
