use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(wants: &[u64], rate: u64, expect: (u64, &[u64])) {
    let wants: Vec<u64> = wants.iter().map(|want| want * MICRO).collect();
    let division = divide(&wants, rate, 1);
    assert_eq!((division.interval_s, division.tokens.as_slice()), expect);
}

#[test]
fn a_rate_is_divided_by_demand() {
    check(&[300, 300], 100 * MICRO, (1, &[50, 50]));
    check(&[300, 20], 100 * MICRO, (1, &[80, 20]));
    check(&[300, 0, 20, 60], 100 * MICRO, (1, &[40, 0, 20, 40]));
    check(&[5, 7], 100 * MICRO, (1, &[5, 7]));
    check(&[], 100 * MICRO, (1, &[]));
}

#[test]
fn a_scarce_rate_is_filled_seldom() {
    // One per minute for four.
    check(&[9, 9, 9, 9], MICRO / 60, (1_800, &[7, 7, 7, 8]));
    check(&[9], MICRO / 2, (10, &[5]));
    check(&[9, 9], 0, (86_400, &[0, 0]));
}

#[test]
fn the_interval_stays_while_it_fits() {
    let wants = [9 * MICRO, 9 * MICRO];
    let interval = |rate, in_use| divide(&wants, rate, in_use).interval_s;
    assert_eq!(interval(8 * MICRO, 1), 1);
    assert_eq!(interval(4 * MICRO, 1), 1);
    assert_eq!(interval(3 * MICRO, 1), 5);
    assert_eq!(interval(8 * MICRO, 5), 5);
    assert_eq!(interval(30 * MICRO, 5), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The parts never exceed the rate, no part exceeds what it wants by a whole token, and the division is max-min.
    #[test]
    fn the_parts_are_whole_fair_and_within_the_rate(
        wants in proptest::collection::vec(0..2_000_000_000_u64, 0..40),
        rate in 0..4_000_000_000_u64,
        in_use in proptest::sample::select(INTERVALS.to_vec()),
    ) {
        let Division { interval_s, tokens } = divide(&wants, rate, in_use);
        prop_assert!(INTERVALS.contains(&interval_s));
        let sum: u64 = tokens.iter().sum();
        prop_assert!(sum * MICRO <= rate * interval_s, "{sum} per {interval_s} s of {rate}");
        let wanting = wants.iter().filter(|want| **want > 0).count() as u64;
        let fill = rate * interval_s / MICRO;
        for (want, given) in wants.iter().zip(&tokens) {
            prop_assert!((given.saturating_sub(1)) * MICRO <= want * interval_s);
            prop_assert!(*want == 0 || *given > 0 || fill < wanting);
            // A part that is short has no less than any other, but for one token of rounding per part.
            let whole = (want * interval_s).div_ceil(MICRO);
            if *given < whole {
                let most = tokens.iter().max().copied().unwrap_or(0);
                prop_assert!(given + wanting >= most, "{tokens:?} of {wants:?}");
                prop_assert!(sum == fill, "tokens are left: {tokens:?} of {wants:?}");
            }
        }
    }
}
