//! The laws of demand curves.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use aliquot_core::demand::{
    BREAKPOINTS_MIN, CurveError, DemandCurve, Level, SEGMENTS_MAX, Segment, level_among, solve,
};
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::Weight;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

type Law = Result<(), TestCaseError>;

/// Generates demand and weight of one claimant: zero, small, large and extreme.
fn claimant() -> impl Strategy<Value = (u64, u32)> {
    let demand = prop_oneof![Just(0), 1..100_u64, 1..1_u64 << 40, 1..1_u64 << 56];
    (demand, prop_oneof![1..4_u32, 1..=Weight::MAX])
}

fn claimants(most: usize) -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec(claimant(), 0..most)
}

fn of(&(demand, weight): &(u64, u32)) -> DemandCurve {
    DemandCurve::of(demand, Weight::new(weight).unwrap())
}

fn union(claimants: &[(u64, u32)]) -> DemandCurve {
    let curves = claimants.iter().map(of);
    curves.fold(DemandCurve::EMPTY, |sum, curve| sum.plus(&curve).unwrap())
}

/// Returns `D(λ)` by its definition, rounded down.
fn by_definition(claimants: &[(u64, u32)], level: Level) -> u64 {
    let (mut met, mut open) = (0, 0);
    for curve in claimants.iter().map(of) {
        if level.meets(curve.total(), curve.weight()) {
            met += curve.total();
        } else {
            open += curve.weight();
        }
    }
    if open == 0 {
        met
    } else {
        met + level.part(open).unwrap().0
    }
}

/// Returns levels at which errors are likely: each breakpoint, and either side of it.
fn levels(curve: &DemandCurve) -> Vec<Level> {
    let around = |segment: &Segment| {
        let Segment { demand, weight } = *segment;
        [
            demand.saturating_sub(1),
            demand,
            demand + 1,
            demand / 2,
            demand + demand / 3,
        ]
        .map(|units| Level::new(units, weight))
    };
    let mut levels: Vec<Level> = curve.segments().iter().flat_map(around).collect();
    levels.extend([Level::ZERO, Level::FULL]);
    levels
}

/// Returns the ratio of the breakpoints that a level lies between, and the upper one.
fn spread(curve: &DemandCurve, level: Level) -> Option<(f64, f64)> {
    let value = |level: Level| level.units() as f64 / level.weight() as f64;
    let ends: Vec<Level> = curve.segments().iter().map(Segment::breakpoint).collect();
    let pair = ends
        .windows(2)
        .find(|pair| pair[0] <= level && level <= pair[1])?;
    Some((value(pair[1]) / value(pair[0]), value(pair[1])))
}

fn compression_keeps_its_bound(claimants: &[(u64, u32)], most: usize, near: Option<Level>) -> Law {
    let curve = union(claimants);
    let short = curve.compress(most, near);
    prop_assert_eq!(
        (short.total(), short.weight()),
        (curve.total(), curve.weight())
    );
    prop_assert!(short.segments().len() <= most.max(BREAKPOINTS_MIN));
    for level in levels(&curve).into_iter().chain(levels(&short)) {
        let (truth, chord) = (curve.at(level), short.at(level));
        prop_assert!(chord <= truth, "{chord} > {truth} at {level:?}");
        let lost = (truth - chord) as f64;
        let allowed = match spread(&short, level) {
            None => 0.0,
            Some((ratio, upper)) if ratio.is_infinite() => 2.0 + 2.0 * upper,
            Some((ratio, upper)) => {
                let root = ratio.sqrt();
                (root - 1.0) / (root + 1.0) * truth as f64 * (1.0 + 1e-9) + 2.0 + 2.0 * upper
            }
        };
        prop_assert!(
            lost <= allowed,
            "{lost} > {allowed} of {truth} at {level:?}"
        );
    }
    Ok(())
}

fn the_level_is_the_greatest(claimants: &[(u64, u32)], capacity: u64, from: Level) -> Law {
    let curve = union(claimants);
    let level = curve.level_for(capacity, Some(from));
    prop_assert_eq!(level, curve.level_for(capacity, None), "the start decides");
    if curve.total() <= capacity {
        prop_assert!(level.is_full());
    } else {
        // Exactly used up: open claimants take the rest to the last fraction.
        prop_assert_eq!(curve.at(level), capacity);
        let apart: Vec<DemandCurve> = claimants.iter().map(of).collect();
        prop_assert_eq!(solve(capacity, &apart, Some(from)), Some(level));
    }
    Ok(())
}

fn level() -> impl Strategy<Value = Level> {
    (any::<u64>(), prop_oneof![0..9_u64, any::<u64>()])
        .prop_map(|(units, weight)| Level::new(units, weight))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Invariant 10: fairness is computed from the fleet's whole demand.
    #[test]
    fn the_sum_of_two_curves_is_the_curve_of_the_union(
        one in claimants(20), two in claimants(20), level in level(),
    ) {
        let both: Vec<_> = one.iter().chain(&two).copied().collect();
        let sum = union(&one).plus(&union(&two)).unwrap();
        prop_assert_eq!(&sum, &union(&both));
        prop_assert_eq!(&sum, &union(&two).plus(&union(&one)).unwrap());
        for level in levels(&sum).into_iter().chain([level]) {
            prop_assert_eq!(sum.at(level), by_definition(&both, level));
        }
    }

    /// Invariant 10: up to the level at which a curve is cut, it stays as it was.
    #[test]
    fn a_curve_with_another_total_is_cut_or_grows_at_its_end(
        claimants in claimants(20), total in prop_oneof![0..1_000_u64, 0..1_u64 << 61],
    ) {
        let curve = union(&claimants);
        let other = curve.with_total(total);
        prop_assert_eq!(other.weight(), curve.weight());
        prop_assert_eq!(DemandCurve::from_segments(other.segments().to_vec()), Ok(other.clone()));
        if curve.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(other.total(), total);
        for level in levels(&curve).into_iter().chain(levels(&other)) {
            let (was, is) = (curve.at(level), other.at(level));
            match total <= curve.total() {
                true => prop_assert_eq!(is, was.min(total)),
                false => prop_assert!(is >= was, "{} after {}", is, was),
            }
        }
    }

    /// Invariants 9 and 10: the ε of both is what compression may lose.
    #[test]
    fn compression_is_never_above_the_curve_and_loses_no_more_than_stated(
        claimants in claimants(60), most in 0..24_usize, near in prop::option::of(level()),
    ) {
        compression_keeps_its_bound(&claimants, most, near)?;
    }

    /// Invariants 9 and 10: the level uses up the capacity and is found from any start.
    #[test]
    fn the_level_uses_up_the_capacity_and_does_not_depend_on_where_the_search_starts(
        claimants in claimants(40), capacity in prop_oneof![0..1_000_u64, any::<u64>()], from in level(),
    ) {
        the_level_is_the_greatest(&claimants, capacity, from)?;
    }

    /// Invariant 13: any segments give a curve or a precise error.
    #[test]
    fn segments_from_outside_give_a_curve_or_an_error(
        mut segments in prop::collection::vec((any::<u64>(), any::<u64>()), 0..8)
            .prop_map(|all| all.into_iter().map(|(demand, weight)| Segment { demand, weight }).collect::<Vec<_>>()),
        sort in any::<bool>(), level in level(),
    ) {
        if sort {
            segments.sort_by_key(Segment::breakpoint);
        }
        if let Ok(curve) = DemandCurve::from_segments(segments.clone()) {
            prop_assert_eq!(curve.segments(), segments);
            prop_assert!(curve.at(level) <= curve.total());
            prop_assert!(curve.compress(3, Some(level)).at(level) <= curve.at(level));
        }
    }
}

#[test]
fn many_alike_and_far_apart_are_compressed_within_the_bound() {
    let geometric: Vec<(u64, u32)> = (0..56).map(|power| (1 << power, 1)).collect();
    let dense: Vec<(u64, u32)> = (1..3_000).map(|n| (1_000_000 + 997 * n, 1)).collect();
    for claimants in [geometric, dense] {
        for most in [3, 8, 32] {
            let near = union(&claimants).segments()[claimants.len() / 2].breakpoint();
            compression_keeps_its_bound(&claimants, most, Some(near)).unwrap();
        }
    }
}

#[test]
fn breakpoints_are_kept_near_the_last_level() {
    let claimants: Vec<(u64, u32)> = (1..1_000).map(|n| (n * 1_000_000, 1)).collect();
    let curve = union(&claimants);
    let near = curve.segments()[500].breakpoint();
    let loss = |short: DemandCurve| curve.at(near) - short.at(near);
    let (blind, aimed) = (
        loss(curve.compress(32, None)),
        loss(curve.compress(32, Some(near))),
    );
    assert!(aimed * 10 < blind, "{aimed} beside {blind}");
}

#[test]
fn a_decoder_is_told_what_is_wrong() {
    #[track_caller]
    fn check(segments: &[(u64, u64)], error: CurveError) {
        let segments = segments
            .iter()
            .map(|&(demand, weight)| Segment { demand, weight });
        assert_eq!(DemandCurve::from_segments(segments.collect()), Err(error));
    }
    check(&[(1, 1), (5, 0)], CurveError::Weightless { index: 1 });
    check(&[(1, 1), (2, 1), (4, 2)], CurveError::Order { index: 1 });
    check(&[(2, 1), (1, 1)], CurveError::Order { index: 0 });
    check(&[(u64::MAX - 1, 2), (u64::MAX, 1)], CurveError::OutOfRange);
    let segments = SEGMENTS_MAX + 1;
    check(&vec![(1, 1); segments], CurveError::TooLong { segments });
    let longest = (1..=SEGMENTS_MAX as u64).map(|demand| Segment { demand, weight: 1 });
    assert!(DemandCurve::from_segments(longest.collect()).is_ok());
    let json = serde_json::to_string(&union(&[(3, 1), (9, 2)])).unwrap();
    assert_eq!(
        serde_json::from_str::<DemandCurve>(&json).unwrap(),
        union(&[(9, 2), (3, 1)])
    );
    assert!(serde_json::from_str::<DemandCurve>(r#"[{"demand":1,"weight":0}]"#).is_err());
}

#[test]
fn a_pair_of_breakpoints_is_kept_as_it_is() {
    let claimants = [(100, 1), (101, 1), (100_000, 1), (101_000, 1), (102_010, 1)];
    let curve = union(&claimants);
    let short = curve.compress(4, None);
    assert_eq!(short.segments().len(), 4);
    assert_eq!(short.segments()[..2], curve.segments()[..2]);
}

#[test]
fn a_curve_without_claimants_is_empty() {
    assert!(DemandCurve::EMPTY.is_empty());
    assert!(!union(&[(0, 1)]).is_empty());
    assert!(!union(&[(7, 1)]).is_empty());
}

#[test]
fn who_has_no_weight_takes_nothing_from_the_level() {
    let level = |capacity| level_among(capacity, &[5, 10], &[0, 1], None);
    assert_eq!(level(8), Some(Level::new(8, 1)));
    assert_eq!(level(10), Some(Level::FULL));
    assert_eq!(level(12), Some(Level::FULL));
    assert_eq!(level_among(3, &[5], &[0], None), Some(Level::FULL));
}

/// Returns true if the law fails for some case of a fixed sequence while the bug is on.
fn catches<S: Strategy>(bug: Bug, cases: &S, law: impl Fn(S::Value) -> Law) -> bool {
    planted::with(Some(bug), || {
        TestRunner::deterministic().run(cases, law).is_err()
    })
}

#[test]
fn the_law_of_compression_catches_a_chord_above_the_curve() {
    let cases = (claimants(40), 3..12_usize);
    assert!(catches(Bug::ChordAbove, &cases, |(claimants, most)| {
        compression_keeps_its_bound(&claimants, most, None)
    }));
}

#[test]
fn the_law_of_the_level_catches_an_old_level_kept_too_long() {
    let cases = (claimants(40), 0..1_u64 << 50, level());
    assert!(catches(
        Bug::OldLevelTrusted,
        &cases,
        |(claimants, capacity, from)| { the_level_is_the_greatest(&claimants, capacity, from) }
    ));
}
