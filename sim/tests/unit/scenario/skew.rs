use super::*;

fn keys(count: usize, skew: &str) -> ManyKeys {
    let sums = match exponent(skew) {
        Some(exponent) if exponent > 0.0 => sums(count, exponent),
        _ => Vec::new(),
    };
    ManyKeys {
        count,
        skew: skew.to_owned(),
        sums: sums.into(),
    }
}

/// Returns how many of a thousand equally spaced numbers pick each key.
fn picked(keys: &ManyKeys) -> Vec<usize> {
    let mut all = vec![0; keys.count];
    (0..1_000).for_each(|part| all[keys.pick(f64::from(part) / 1e3)] += 1);
    all
}

#[test]
fn uniform_keys_get_the_same_part() {
    assert_eq!(picked(&keys(4, "uniform")), [250; 4]);
    assert_eq!(keys(4, "uniform").pick(1.0), 3);
}

#[test]
fn the_second_key_of_a_zipf_gets_half_of_the_first() {
    let all = picked(&keys(3, "zipf"));
    assert_eq!(all, [546, 273, 181]);
    let all = picked(&keys(3, "zipf(2)"));
    assert_eq!(all, [735, 184, 81]);
}

#[test]
fn a_skew_without_a_known_name_is_none() {
    for wrong in ["", "zipf()", "zipf(0)", "zipf(9)", "pareto", "zipf(1"] {
        assert_eq!(exponent(wrong), None, "{wrong}");
    }
}
