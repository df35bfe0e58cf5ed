//! A key as the table compares it.

use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hasher};

/// A key's bytes, its class, and where it may stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) words: [u64; Name::WORDS],
    class: u16,
    /// The key's length, or [`Name::LONG`].
    length: u8,
    pub(super) hash: u64,
}

/// What names are made with.
#[derive(Debug)]
pub(super) struct Maker {
    /// What places are drawn by: seeded by chance, so that nobody can choose keys that meet.
    fast: FixedState,
    long: [std::hash::RandomState; 2],
    seed: Option<u64>,
}

impl Name {
    pub(super) const WORDS: usize = 6;
    const BYTES: usize = Self::WORDS * 8;

    /// The length of a key that is not kept, but 128 keyed bits of it.
    const LONG: u8 = 63;

    pub(super) const NONE: Self = Self {
        words: [0; Self::WORDS],
        class: 0,
        length: 0,
        hash: 0,
    };

    pub(super) const fn class(&self) -> u16 {
        self.class
    }

    /// Class and length, as a slot says them.
    #[inline]
    pub(super) const fn label(&self) -> u64 {
        (self.class as u64) << 8 | (self.length as u64) << 2
    }

    /// How many of the words say anything.
    pub(super) const fn used(&self) -> usize {
        match self.length {
            Self::LONG => 3,
            length => (length as usize).div_ceil(8),
        }
    }
}

impl Maker {
    pub(super) fn new(seed: Option<u64>) -> Self {
        let long = [std::hash::RandomState::new(), std::hash::RandomState::new()];
        let random = long[0].hash_one(0_u64);
        Self {
            fast: FixedState::with_seed(seed.unwrap_or(random)),
            long,
            seed,
        }
    }

    #[inline(always)]
    pub(super) fn name(&self, class: u16, key: &str) -> Name {
        let bytes = key.as_bytes();
        let (words, length) = match bytes.len() <= Name::BYTES {
            true => (words_of(bytes), bytes.len() as u8),
            false => (self.long(bytes), Name::LONG),
        };
        let name = Name {
            words,
            class,
            length,
            hash: 0,
        };
        Name {
            hash: self.place(&words, name.label()),
            ..name
        }
    }

    /// Where a key may stand: by all of its words, used or not, so that there is nothing to go by.
    #[inline]
    fn place(&self, words: &[u64; Name::WORDS], label: u64) -> u64 {
        let mut hasher = self.fast.build_hasher();
        for word in words {
            hasher.write_u64(*word);
        }
        hasher.write_u64(label);
        hasher.finish()
    }

    /// What stands for a key that is too long to be kept.
    #[cold]
    fn long(&self, bytes: &[u8]) -> [u64; Name::WORDS] {
        let hashes = match self.seed {
            None => [0, 1].map(|which: usize| self.long[which].hash_one(bytes)),
            // Of a run that is to be repeated the bits must not be random; nobody attacks it.
            Some(seed) => [seed, !seed].map(|seed| FixedState::with_seed(seed).hash_one(bytes)),
        };
        let mut words = [0; Name::WORDS];
        [words[0], words[1]] = hashes;
        words[2] = bytes.len() as u64;
        words
    }
}

/// The bytes, eight to a word; the last word of eight or more holds the last eight, so that
/// bytes may be in two words. With the length, no two keys have the same words.
///
/// Each word is read on its own and none is indexed by what is known late, so that all stay in registers: what is
/// written in parts and read as a whole waits for all that was asked before, the slots of other keys included.
#[inline(always)]
fn words_of(bytes: &[u8]) -> [u64; Name::WORDS] {
    let word = |at: usize| match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => 0,
    };
    let last = || word(bytes.len().saturating_sub(8));
    match bytes.len().div_ceil(8) {
        0 | 1 if bytes.len() < 8 => [short(bytes), 0, 0, 0, 0, 0],
        0 | 1 => [last(), 0, 0, 0, 0, 0],
        2 => [word(0), last(), 0, 0, 0, 0],
        3 => [word(0), word(8), last(), 0, 0, 0],
        4 => [word(0), word(8), word(16), last(), 0, 0],
        5 => [word(0), word(8), word(16), word(24), last(), 0],
        _ => [word(0), word(8), word(16), word(24), word(32), last()],
    }
}

/// Fewer than eight bytes in one word.
#[inline(never)]
fn short(bytes: &[u8]) -> u64 {
    let later = |word, &byte: &u8| word << 8 | u64::from(byte);
    bytes.iter().rev().fold(0, later)
}
