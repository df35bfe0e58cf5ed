//! A few bits of each slot's key, side by side: what a search reads before any slot.

use crate::sync::{self, AtomicU64, Ordering};

/// The tags of all slots, several to a word.
#[derive(Debug)]
pub(super) struct Tags {
    words: Box<[AtomicU64]>,
}

/// The slots of a group that a search looks at.
pub(super) struct Candidates {
    first: usize,
    /// The highest bit of each lane that is one.
    found: [u64; Tags::WORDS],
}

impl Tags {
    /// The slots of a group: sixteen; a model of all interleavings is made of fewer.
    pub(super) const GROUP: usize = if sync::PLAIN { 16 } else { 4 };

    /// The bits of a tag: of one in 255 keys that are not the one looked for the slot is read in
    /// vain, and all tags of a million keys are in a processor's own cache.
    const TAG: u32 = if sync::PLAIN { 8 } else { 16 };

    const LANES: usize = (u64::BITS / Self::TAG) as usize;
    const WORDS: usize = Self::GROUP / Self::LANES;
    /// A one in each lane.
    const ONES: u64 = u64::MAX / Self::MASK;
    const MASK: u64 = (1 << Self::TAG) - 1;

    pub(super) fn new(groups: usize) -> Self {
        let words = 0..groups * Self::WORDS;
        Self {
            words: words.map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// A key's; never zero, which is an empty slot's.
    #[inline]
    pub(super) fn tag(hash: u64) -> u64 {
        (hash & Self::MASK).max(1)
    }

    /// Brings a group's near.
    #[inline]
    pub(super) fn touch(&self, group: usize) -> u64 {
        self.words[group * Self::WORDS].load(Ordering::Relaxed)
    }

    /// The slots of a group whose tag is this, and now and then one more.
    #[inline]
    pub(super) fn candidates(&self, group: usize, tag: u64) -> Candidates {
        let splat = tag * Self::ONES;
        let words = &self.words[group * Self::WORDS..][..Self::WORDS];
        Candidates {
            first: group * Self::GROUP,
            found: std::array::from_fn(|word| {
                let same = words[word].load(Ordering::Acquire) ^ splat;
                // A lane of zeros has its highest bit set here, and maybe one above it.
                same.wrapping_sub(Self::ONES) & !same & (Self::ONES << (Self::TAG - 1))
            }),
        }
    }

    pub(super) fn set(&self, index: usize, tag: u64) {
        let word = &self.words[index / Self::LANES];
        let at = (index % Self::LANES) as u32 * Self::TAG;
        let mut seen = word.load(Ordering::Acquire);
        loop {
            let next = seen & !(Self::MASK << at) | tag << at;
            match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }
}

impl Iterator for Candidates {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        for (word, found) in self.found.iter_mut().enumerate() {
            if *found != 0 {
                let lane = (found.trailing_zeros() / Tags::TAG) as usize;
                *found &= *found - 1;
                return Some(self.first + word * Tags::LANES + lane);
            }
        }
        None
    }
}
