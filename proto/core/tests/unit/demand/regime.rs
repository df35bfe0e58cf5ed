use super::*;
use alloc::format;
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;

/// Ticks of sparse and dense streams, with silence between them.
fn ticks(unit: u64) -> impl Strategy<Value = Vec<u64>> {
    let tick = prop_oneof![8 => Just(0), 4 => 0..4_u64, 1 => 0..40_u64];
    let counts = vec(tick, 1..120);
    counts.prop_map(move |counts| counts.into_iter().map(|count| count * unit).collect())
}

proptest! {
    /// The shortcut takes no stream for unchanged of which a window shows a change.
    #[test]
    fn no_window_of_a_sparse_stream_shows_a_change(
        (unit, ticks) in (1..2_000_u64).prop_flat_map(|unit| (Just(unit), ticks(unit))),
    ) {
        let mut regime = Regime::default();
        let mut sparse = 0;
        for tick in ticks {
            regime.fold(tick, unit);
            if !regime.is_sparse(unit) {
                continue;
            }
            sparse += 1;
            for length in [1, 2, 4, 8, 16] {
                let seen = regime.recent.iter().take(length).sum();
                let length = u32::try_from(length).unwrap();
                if length > regime.age {
                    break;
                }
                prop_assert!(regime.is_chance(regime.expected(length), seen, length, unit));
            }
        }
        prop_assume!(sparse > 0);
    }

    /// A client need not look whether an estimate rose while nothing came.
    #[test]
    fn a_silent_tick_never_raises_the_mean(
        (unit, ticks) in (1..2_000_u64).prop_flat_map(|unit| (Just(unit), ticks(unit))),
    ) {
        let mut regime = Regime::default();
        for tick in ticks {
            let before = regime.mean;
            regime.fold(tick, unit);
            prop_assert!(tick > 0 || regime.mean <= before);
        }
    }

    /// Silent ticks that are added together are as many that are added one by one.
    #[test]
    fn silent_ticks_can_be_added_together(
        (unit, ticks) in (1..2_000_u64).prop_flat_map(|unit| (Just(unit), ticks(unit))),
        silence in 0..250_u64,
    ) {
        let mut together = Regime::default();
        let mut one_by_one = Regime::default();
        for tick in ticks {
            together.fold(tick, unit);
            one_by_one.fold(tick, unit);
        }
        together.fold_silent(silence, unit);
        (0..silence).for_each(|_| one_by_one.fold(0, unit));
        prop_assert_eq!(format!("{together:?}"), format!("{one_by_one:?}"));
    }
}

#[test]
fn a_stream_is_sparse_up_to_nine_requests_in_the_longest_window() {
    let after = |requests: u64| {
        let mut regime = Regime::default();
        (0..requests).for_each(|_| regime.fold(5, 5));
        regime.is_sparse(5)
    };
    assert_eq!([after(1), after(9), after(10)], [true, true, false]);
}

#[test]
fn what_is_expected_counts_as_well_as_what_was_seen() {
    let mut regime = Regime::default();
    (0..40).for_each(|_| regime.fold(10, 10));
    (0..16).for_each(|_| regime.fold(0, 10));
    assert!(regime.recent.iter().all(|tick| *tick == 0));
    regime.mean = 6 << Regime::FRACTION;
    regime.age = 16;
    assert!(!regime.is_sparse(10), "96 are expected");
    assert!(regime.is_sparse(11));
}

#[test]
fn a_burst_before_the_mean_began_does_not_raise_it_later() {
    let rises = || {
        let mut regime = Regime::default();
        [28, 0, 5].into_iter().for_each(|tick| regime.fold(tick, 1));
        (0..20).any(|_| {
            let before = regime.mean;
            regime.fold(0, 1);
            regime.mean > before
        })
    };
    assert!(!rises());
    assert!(planted::with(Some(Bug::SilenceRaises), rises));
}
