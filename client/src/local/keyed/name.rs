//! Keys in the form in which the table compares them.

use foldhash::quality::FixedState;
use std::hash::BuildHasher;

/// A key of `W` words. The number of words is chosen once per decision, so the compiled code works only on
/// words that the key has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<const W: usize> {
    pub(super) words: [u64; W],
    /// Class and length, in the layout of a slot's owner word.
    pub(super) label: u64,
    /// Determines the slots that the key may have.
    pub(super) hash: u64,
}

/// A name with any number of words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelled<'a> {
    pub(super) words: &'a [u64],
    pub(super) label: u64,
    pub(super) hash: u64,
}

/// Maximum number of words of a key that is stored in full.
pub(super) const WORDS: usize = 6;
const BYTES: usize = WORDS * 8;

/// Length code of longer keys, of which 128 keyed bits are stored; below, their number of words.
const LONG: u8 = 63;
pub(super) const LONG_WORDS: usize = 3;

const _: () = assert!(BYTES < LONG as usize);

/// Runs the code that is compiled for the key's number of words.
macro_rules! by_words {
    ($key:expr, $words:ident => $done:expr) => {
        match $key.len() {
            0..=8 => by_words!(1, $words, $done),
            9..=16 => by_words!(2, $words, $done),
            17..=24 => by_words!(3, $words, $done),
            25..=32 => by_words!(4, $words, $done),
            33..=40 => by_words!(5, $words, $done),
            41..=48 => by_words!(6, $words, $done),
            _ => by_words!($crate::local::keyed::name::LONG_WORDS, $words, $done),
        }
    };
    ($count:expr, $words:ident, $done:expr) => {{
        const $words: usize = $count;
        $done
    }};
}
pub(super) use by_words;

/// Makes names.
#[derive(Debug)]
pub(super) struct Maker {
    /// Salt for places: random, so that an attacker cannot choose keys that collide.
    salt: [u64; 8],
    long: [std::hash::RandomState; 2],
    seed: Option<u64>,
}

impl Spelled<'_> {
    pub(super) const fn class(&self) -> u16 {
        (self.label >> 8) as u16
    }
}

impl<const W: usize> Name<W> {
    #[inline(always)]
    pub(super) const fn spelled(&self) -> Spelled<'_> {
        Spelled {
            words: &self.words,
            label: self.label,
            hash: self.hash,
        }
    }
}

impl Maker {
    pub(super) fn new(seed: Option<u64>) -> Self {
        let long = [std::hash::RandomState::new(), std::hash::RandomState::new()];
        let salted = FixedState::with_seed(seed.unwrap_or(long[0].hash_one(0_u64)));
        Self {
            salt: std::array::from_fn(|at| salted.hash_one(at)),
            long,
            seed,
        }
    }

    /// Makes the name of a key that has `W` words.
    #[inline(always)]
    pub(super) fn name<const W: usize>(&self, class: u16, key: &str) -> Name<W> {
        let name = self.name_at(0, class, key);
        Name {
            hash: self.place(&name.words, name.label),
            ..name
        }
    }

    /// Makes the name for a caller that knows the hash, or does not need it.
    #[inline(always)]
    pub(super) fn name_at<const W: usize>(&self, hash: u64, class: u16, key: &str) -> Name<W> {
        let bytes = key.as_bytes();
        let (words, length) = match bytes.len() <= BYTES {
            true => (words_of(bytes), bytes.len() as u8),
            false => (self.long(bytes), LONG),
        };
        Name {
            words,
            label: u64::from(class) << 8 | u64::from(length) << 2,
            hash,
        }
    }

    /// Returns the hash of a key. Pairs of words are multiplied in parallel, so it takes as long as two
    /// multiplications.
    #[inline(always)]
    fn place<const W: usize>(&self, words: &[u64; W], label: u64) -> u64 {
        let word = |at: usize| self.salt[at] ^ words.get(at).copied().unwrap_or(0);
        let first = folded(word(0), word(1));
        let others = match W {
            0..=2 => 0,
            3 | 4 => folded(word(2), word(3)),
            _ => folded(word(2), word(3)) ^ folded(word(4), word(5)),
        };
        folded(first ^ label ^ self.salt[6], others ^ self.salt[7])
    }

    /// Returns the words that replace a key which is too long to be stored.
    #[cold]
    #[inline(never)]
    fn long<const W: usize>(&self, bytes: &[u8]) -> [u64; W] {
        let hashes = match self.seed {
            None => [0, 1].map(|which: usize| self.long[which].hash_one(bytes)),
            // A reproducible run must not use random bits. It is not exposed to chosen keys.
            Some(seed) => [seed, !seed].map(|seed| FixedState::with_seed(seed).hash_one(bytes)),
        };
        let all = [hashes[0], hashes[1], bytes.len() as u64];
        std::array::from_fn(|at| all.get(at).copied().unwrap_or(0))
    }
}

/// Returns the bytes, eight to a word. The last word holds the last eight bytes, so some bytes may be in two
/// words. With the length, no two keys have the same words.
///
/// Each word is read on its own and stays in a register. A value that is written in parts and read as a whole
/// would wait for all earlier memory requests, including the slots of other keys.
#[inline(always)]
fn words_of<const W: usize>(bytes: &[u8]) -> [u64; W] {
    let word = |chunk: Option<&[u8; 8]>| chunk.map(|chunk| u64::from_le_bytes(*chunk));
    // Check the length once: the whole words before the last one.
    let before = bytes.get(..(W - 1) * 8).unwrap_or_default();
    std::array::from_fn(|at| match at + 1 == W {
        true => word(bytes.last_chunk()).unwrap_or_else(|| short(bytes)),
        false => word(before.get(at * 8..).and_then(<[u8]>::first_chunk)).unwrap_or(0),
    })
}

/// Packs fewer than eight bytes into one word.
#[inline(never)]
fn short(bytes: &[u8]) -> u64 {
    let later = |word, &byte: &u8| word << 8 | u64::from(byte);
    bytes.iter().rev().fold(0, later)
}

/// Multiplies two words and combines both halves of the product, which spreads the bits of both factors.
#[inline(always)]
const fn folded(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
#[path = "../../../tests/unit/local/keyed/name.rs"]
mod tests;
