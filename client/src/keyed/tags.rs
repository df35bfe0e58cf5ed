//! Sixteen bits of each slot's key, side by side: what a search reads before any slot. Of two thousand searches one reads
//! another key's slot in vain.

mod lanes;

use super::near::fetch;
use crate::sync::{self, AtomicU64, Ordering};

/// The tags of a group's slots, in one line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Tags([AtomicU64; Tags::WORDS]);

const _: () = assert!(!sync::PLAIN || size_of::<Tags>() == 64);

/// The slots of a group that a search looks at: one bit for each that is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates(u64);

impl Tags {
    /// The slots of a group: as many as a line has tags; a model of all interleavings is made of fewer.
    pub(super) const GROUP: usize = if sync::PLAIN { 32 } else { 4 };

    const WORDS: usize = Self::GROUP / lanes::LANES;

    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// A key's; never zero, which is an empty slot's.
    #[inline]
    pub(super) fn tag(hash: u64) -> u64 {
        (hash & lanes::MASK).max(1)
    }

    /// Has them fetched.
    #[inline(always)]
    pub(super) fn fetch(&self) {
        fetch(&self.0[0]);
    }

    /// The slots whose tag is this. All tags are looked at in any case: to go by what was found would
    /// cost more than the rest, where nobody can guess it.
    #[inline(always)]
    pub(super) fn candidates(&self, tag: u64) -> Candidates {
        let words: [u64; Self::WORDS] =
            std::array::from_fn(|at| self.0[at].load(Ordering::Acquire));
        Candidates(lanes::alike(words, tag))
    }

    pub(super) fn set(&self, place: usize, tag: u64) {
        let word = &self.0[place / lanes::LANES];
        let at = place % lanes::LANES * (u64::BITS as usize / lanes::LANES);
        let mut seen = word.load(Ordering::Acquire);
        loop {
            let next = seen & !(lanes::MASK << at) | tag << at;
            match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }
}

impl Candidates {
    /// The next one, or the group's first slot if there is none.
    #[inline(always)]
    pub(super) const fn likely(self) -> usize {
        self.0.trailing_zeros() as usize & (Tags::GROUP - 1)
    }

    /// Those from `first` on, at most `len`, if there are any; else all.
    pub(super) const fn best_of(self, first: usize, len: usize) -> Self {
        match self.0 & (((1 << len) - 1) << first) {
            0 => self,
            found => Self(found),
        }
    }
}

impl Iterator for Candidates {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.likely();
        self.0 &= self.0 - 1;
        Some(place)
    }
}
