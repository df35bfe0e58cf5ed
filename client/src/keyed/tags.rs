//! Sixteen bits of each slot's key, side by side: what a search reads before any slot. Of two thousand searches one reads
//! another key's slot in vain.

mod lanes;

use super::near::fetch;
use crate::sync::{self, AtomicU64, Ordering};

/// The tags of a group's slots, in one line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Tags([[AtomicU64; Tags::WORDS]; Tags::GROUP / Tags::PART]);

const _: () = assert!(!sync::PLAIN || size_of::<Tags>() == 64);

/// The slots of a group that a search looks at: one bit for each that is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates(u64);

impl Tags {
    /// The slots of a group: as many as a line has tags; a model of all interleavings is made of fewer.
    pub(super) const GROUP: usize = if sync::PLAIN { 32 } else { 4 };

    /// So many slots side by side are looked at first, where nearly all keys of a group stand that are at home there.
    pub(super) const PART: usize = if sync::PLAIN { 16 } else { 4 };

    /// The words of a part.
    const WORDS: usize = Self::PART / lanes::LANES;

    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| {
            std::array::from_fn(|_| AtomicU64::new(0))
        }))
    }

    /// A key's; never zero, which is an empty slot's.
    #[inline]
    pub(super) fn tag(hash: u64) -> u64 {
        (hash & lanes::MASK).max(1)
    }

    /// Has them fetched.
    #[inline(always)]
    pub(super) fn fetch(&self) {
        fetch(&self.0[0][0]);
    }

    /// The slots whose tag is this.
    #[inline(always)]
    pub(super) fn candidates(&self, tag: u64) -> Candidates {
        let parts = self.0.iter().zip(0..);
        let found = parts.map(|(part, which)| Self::alike(part, tag) << (which * Self::PART));
        Candidates(found.sum())
    }

    /// The slot of the part that `place` is in whose tag is this: the first one, or the part's first slot if there is none. All tags of
    /// the part are looked at in any case: to go by what was found would cost more than the rest, where nobody can guess it.
    #[inline(always)]
    pub(super) fn likely(&self, place: usize, tag: u64) -> usize {
        let part = place / Self::PART;
        let found = Self::alike(&self.0[part], tag);
        part * Self::PART + (found.trailing_zeros() as usize & (Self::PART - 1))
    }

    /// Which slots of a part have this tag.
    #[inline(always)]
    fn alike(part: &[AtomicU64; Self::WORDS], tag: u64) -> u64 {
        let words: [u64; Self::WORDS] = std::array::from_fn(|at| part[at].load(Ordering::Acquire));
        lanes::alike(words, tag)
    }

    pub(super) fn set(&self, place: usize, tag: u64) {
        let word = &self.0[place / Self::PART][place % Self::PART / lanes::LANES];
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
    /// Those of `len` slots from `first` on.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A search that looks at a part first finds what one of all tags finds there, and nothing of the other part.
        #[test]
        fn the_likely_slot_is_the_first_of_its_part(
            all in prop::collection::vec(1..4_u64, Tags::GROUP), place in 0..Tags::GROUP, tag in 1..5_u64,
        ) {
            if !sync::PLAIN {
                // A model's words are none outside of it.
                return Ok(());
            }
            let tags = Tags::new();
            for (at, &one) in all.iter().enumerate() {
                tags.set(at, one);
            }
            let alike: Vec<_> = (0..Tags::GROUP).filter(|&at| all[at] == tag).collect();
            prop_assert_eq!(tags.candidates(tag).collect::<Vec<_>>(), alike.clone());
            let first = place / Tags::PART * Tags::PART;
            let there = |&at: &usize| (first..first + Tags::PART).contains(&at);
            let naive = alike.into_iter().find(there).unwrap_or(first);
            prop_assert_eq!(tags.likely(place, tag), naive);
        }
    }
}
