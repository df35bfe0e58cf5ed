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
mod tests {
    use super::Maker;

    /// Each bit of each word of a key changes each bit of the hash for about half of all keys.
    #[test]
    fn one_bit_of_a_key_changes_half_of_its_place() {
        fn each_bit<const W: usize>() {
            const KEYS: u64 = 2_000;
            let maker = Maker::new(Some(7));
            let place = |words: &[u64; W]| maker.place(words, 20 << 2);
            for (word, bit) in (0..W).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
                let mut changed = [0_u64; 64];
                for key in 0..KEYS {
                    let words = std::array::from_fn(|at| match at {
                        0 => key,
                        1 => key << 40,
                        _ => 0,
                    });
                    let mut other = words;
                    other[word] ^= 1 << bit;
                    let differ = place(&words) ^ place(&other);
                    for (at, changed) in changed.iter_mut().enumerate() {
                        *changed += differ >> at & 1;
                    }
                }
                let fair = KEYS * 2 / 5..=KEYS * 3 / 5;
                assert!(
                    changed.iter().all(|changed| fair.contains(changed)),
                    "{W} words, word {word}, bit {bit}: {changed:?}"
                );
            }
        }
        each_bit::<1>();
        each_bit::<2>();
        each_bit::<3>();
        each_bit::<4>();
        each_bit::<5>();
        each_bit::<6>();
    }

    /// The highest bits choose a key's group, and the lowest bits tell keys apart there.
    #[test]
    fn keys_that_are_counted_up_spread_as_if_by_chance() {
        const KEYS: usize = 1 << 18;
        const BINS: usize = 1 << 10;
        for length in [7, 8, 13, 16, 20, 24, 30, 40, 48, 60] {
            let maker = Maker::new(Some(11));
            let place = |key: String| by_words!(key, W => maker.name::<W>(0, &key).hash);
            let names = (0..KEYS).map(|which| place(format!("{which:0length$}")));
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

    /// Keys with other bytes, another length or another class have other words or another label.
    #[test]
    fn keys_are_told_apart_by_words_and_label() {
        let maker = Maker::new(Some(3));
        let hash = |class: u16, key: &str| {
            by_words!(key, W => {
                let name = maker.name::<W>(class, key);
                (name.words.to_vec(), name.label)
            })
        };
        let keys: Vec<String> = (0..=64)
            .flat_map(|length| ["a", "b"].map(|with| with.repeat(length)))
            .chain((0..64).map(|at| format!("{}b{}", "a".repeat(at), "a".repeat(63 - at))))
            .collect();
        let mut all: Vec<_> = keys.iter().map(|key| (hash(0, key), key)).collect();
        all.extend(keys.iter().map(|key| (hash(1, key), key)));
        all.sort_unstable();
        // The empty key is there twice.
        all.dedup_by(|one, other| one.0 == other.0 && one.1.is_empty());
        let before = all.len();
        all.dedup_by(|one, other| one.0 == other.0);
        assert_eq!(all.len(), before);
        assert_eq!(hash(0, &"a".repeat(20)), hash(0, &"a".repeat(20)));
    }
}
