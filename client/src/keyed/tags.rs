//! Sixteen bits of each slot's key, side by side: what a search reads before any slot. Of two thousand searches one reads
//! another key's slot in vain.

mod lanes;

use super::near::fetch;
use crate::sync::{self, AtomicU64, Ordering};

/// The tags of all slots, a group's in one line.
#[derive(Debug)]
pub(super) struct Tags {
    groups: Box<[Group]>,
}

#[derive(Debug)]
#[repr(align(64))]
struct Group([AtomicU64; Tags::WORDS]);

const _: () = assert!(!sync::PLAIN || size_of::<Group>() == 64);

/// The slots of a group that a search looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates {
    first: usize,
    /// One bit for each slot that is one.
    found: u64,
}

impl Tags {
    /// The slots of a group: as many as a line has tags; a model of all interleavings is made of fewer.
    pub(super) const GROUP: usize = if sync::PLAIN { 32 } else { 4 };

    const WORDS: usize = Self::GROUP / lanes::LANES;

    pub(super) fn new(groups: usize) -> Self {
        let group = |_| Group(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            groups: (0..groups).map(group).collect(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.groups)
    }

    /// A key's; never zero, which is an empty slot's.
    #[inline]
    pub(super) fn tag(hash: u64) -> u64 {
        (hash & lanes::MASK).max(1)
    }

    /// Has a group's fetched.
    #[inline]
    pub(super) fn fetch(&self, group: usize) {
        fetch(&self.groups[group].0[0]);
    }

    /// The slots of a group whose tag is this. All tags are looked at in any case: to go by what was found would
    /// cost more than the rest, where nobody can guess it.
    #[inline(always)]
    pub(super) fn candidates(&self, group: usize, tag: u64) -> Candidates {
        let words = &self.groups[group].0;
        let words: [u64; Self::WORDS] = std::array::from_fn(|at| words[at].load(Ordering::Acquire));
        Candidates {
            first: group * Self::GROUP,
            found: lanes::alike(words, tag),
        }
    }

    pub(super) fn set(&self, index: usize, tag: u64) {
        let (group, place) = (index / Self::GROUP, index % Self::GROUP);
        let word = &self.groups[group].0[place / lanes::LANES];
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
    /// The next one's slot, or that of the group's first if there is none.
    #[inline]
    pub(super) const fn likely(self) -> usize {
        self.first + (self.found.trailing_zeros() as usize & (Tags::GROUP - 1))
    }
}

impl Iterator for Candidates {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.found == 0 {
            return None;
        }
        let index = self.likely();
        self.found &= self.found - 1;
        Some(index)
    }
}
