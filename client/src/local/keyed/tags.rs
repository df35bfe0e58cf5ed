//! Sixteen bits of the hash of each slot's key, side by side: a search reads them before any slot. One search
//! in two thousand reads another key's slot for nothing.

mod lanes;

use crate::bucket::step::{Next, update};
use crate::clock::prefetch::fetch;
use crate::sync::{self, AtomicU64, Ordering};

/// The tags of a group's slots, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Tags([[AtomicU64; Tags::WORDS]; Tags::GROUP / Tags::PART]);

const _: () = assert!(!sync::STD_ATOMICS || size_of::<Tags>() == 64);

/// The slots of a group that may hold a key: one bit for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates(u64);

impl Tags {
    /// Number of slots of a group: as many tags as fit a cache line; fewer in a model of all interleavings.
    pub(super) const GROUP: usize = if sync::STD_ATOMICS { 32 } else { 4 };

    /// Number of adjacent slots that are searched first. They hold nearly all keys whose first group this is.
    pub(super) const PART: usize = if sync::STD_ATOMICS { 16 } else { 4 };

    /// Number of words of a part.
    const WORDS: usize = Self::PART / lanes::LANES;

    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| {
            std::array::from_fn(|_| AtomicU64::new(0))
        }))
    }

    /// Returns the tag of a key; never zero, which marks an empty slot.
    #[inline]
    pub(super) fn tag(hash: u64) -> u64 {
        (hash & lanes::MASK).max(1)
    }

    /// Fetches the tags.
    #[inline(always)]
    pub(super) fn fetch(&self) {
        fetch(&self.0[0][0]);
    }

    /// Returns the slots with this tag.
    #[inline(always)]
    pub(super) fn candidates(&self, tag: u64) -> Candidates {
        let parts = self.0.iter().zip(0..);
        let found = parts.map(|(part, which)| Self::alike(part, tag) << (which * Self::PART));
        Candidates(found.sum())
    }

    /// Returns the first slot with this tag in the part that contains `place`; the part's first slot if there
    /// is none. All tags of the part are compared in any case, because a mispredicted branch would cost more.
    #[inline(always)]
    pub(super) fn likely(&self, place: usize, tag: u64) -> usize {
        let part = place / Self::PART;
        let found = Self::alike(&self.0[part], tag);
        part * Self::PART + (found.trailing_zeros() as usize & (Self::PART - 1))
    }

    /// Returns the slots of a part that have this tag.
    #[inline(always)]
    fn alike(part: &[AtomicU64; Self::WORDS], tag: u64) -> u64 {
        let words: [u64; Self::WORDS] = std::array::from_fn(|at| part[at].load(Ordering::Acquire));
        lanes::alike(words, tag)
    }

    pub(super) fn set(&self, place: usize, tag: u64) {
        let word = &self.0[place / Self::PART][place % Self::PART / lanes::LANES];
        let at = place % lanes::LANES * (u64::BITS as usize / lanes::LANES);
        update(word, |seen| {
            Next::Swap(seen & !(lanes::MASK << at) | tag << at, ())
        });
    }
}

impl Candidates {
    /// Keeps the candidates among `len` slots from `first` on.
    pub(super) const fn of(self, first: usize, len: usize) -> Self {
        Self(self.0 & (((1 << len) - 1) << first))
    }
}

impl Iterator for Candidates {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/local/keyed/tags.rs"]
mod tests;
