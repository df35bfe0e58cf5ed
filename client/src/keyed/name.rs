//! A key as the table compares it.

use foldhash::quality::FixedState;
use std::hash::BuildHasher;

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
    salt: [u64; 8],
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
        let salted = FixedState::with_seed(seed.unwrap_or(long[0].hash_one(0_u64)));
        Self {
            salt: std::array::from_fn(|at| salted.hash_one(at)),
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

    /// Where a key may stand: by all of its words, used or not, so that there is nothing to go by. Pairs of words are
    /// multiplied side by side, so that the whole takes as long as two multiplications.
    #[inline(always)]
    fn place(&self, words: &[u64; Name::WORDS], label: u64) -> u64 {
        let [a, b, c, d, e, f] = *words;
        let [p, q, r, s, t, u, v, w] = self.salt;
        let first = folded(a ^ p, b ^ q);
        let others = folded(c ^ r, d ^ s) ^ folded(e ^ t, f ^ u);
        folded(first ^ label ^ v, others ^ w)
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

/// Both halves of a product, one over the other: what the bits of both factors are spread by.
#[inline(always)]
const fn folded(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::{Maker, Name};

    fn hash_of(maker: &Maker, words: [u64; Name::WORDS]) -> u64 {
        maker.place(&words, 20 << 2)
    }

    /// Each bit of a word changes each bit of the place for about half of all keys.
    #[test]
    fn one_bit_of_a_key_changes_half_of_its_place() {
        const KEYS: u64 = 2_000;
        let maker = Maker::new(Some(7));
        for (word, bit) in (0..Name::WORDS).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
            let mut changed = [0_u64; 64];
            for key in 0..KEYS {
                let words = [key, key << 40, 0, 0, 0, 0];
                let mut other = words;
                other[word] ^= 1 << bit;
                let differ = hash_of(&maker, words) ^ hash_of(&maker, other);
                for (at, changed) in changed.iter_mut().enumerate() {
                    *changed += differ >> at & 1;
                }
            }
            let fair = KEYS * 2 / 5..=KEYS * 3 / 5;
            assert!(
                changed.iter().all(|changed| fair.contains(changed)),
                "word {word}, bit {bit}: {changed:?}"
            );
        }
    }

    /// By the highest bits keys are dealt to groups, and by the lowest told apart there.
    #[test]
    fn keys_that_are_counted_up_spread_as_if_by_chance() {
        const KEYS: usize = 1 << 18;
        const BINS: usize = 1 << 10;
        for length in [13, 20, 30, 40] {
            let maker = Maker::new(Some(11));
            let names = (0..KEYS).map(|which| maker.name(0, &format!("{which:0length$}")).hash);
            let mut hashes: Vec<_> = names.collect();
            for shift in [0, 16, 32, 54] {
                let mut bins = [0_u64; BINS];
                for hash in &hashes {
                    bins[(hash >> shift) as usize % BINS] += 1;
                }
                let fair = (KEYS / BINS) as u64;
                let chi = bins
                    .iter()
                    .map(|&bin| bin.abs_diff(fair).pow(2))
                    .sum::<u64>()
                    / fair;
                // 1,023 degrees of freedom: six standard deviations to either side.
                assert!((752..=1_294).contains(&chi), "{length}, {shift}: {chi}");
            }
            hashes.sort_unstable();
            hashes.dedup();
            assert_eq!(hashes.len(), KEYS, "no two of {length} bytes meet");
        }
    }
}
