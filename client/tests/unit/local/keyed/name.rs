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
