use super::*;

use crate::demand::Segment;
use crate::unit::Weight;

/// Weights that fall by half from one to the next and demands that fall by two fifths: each Newton step
/// passes one or two ends.
fn steep() -> Vec<DemandCurve> {
    let fall = |segment: &Segment| Segment {
        demand: segment.demand / 5 * 3,
        weight: segment.weight / 2,
    };
    let first = Segment {
        demand: 1 << 60,
        weight: 1 << 62,
    };
    core::iter::successors(Some(first), |last| Some(fall(last)))
        .take(62)
        .map(|segment| DemandCurve::from_segments([segment].into()).unwrap())
        .collect()
}

fn even() -> Vec<DemandCurve> {
    (1..=64)
        .map(|n| DemandCurve::of(1_000 * n, Weight::ONE))
        .collect()
}

fn claims(curves: &[DemandCurve]) -> Vec<Claim<'_>> {
    let claim = |curve| Claim::new(curve, 5, u64::MAX, 5);
    curves.iter().map(claim).collect()
}

#[test]
fn from_the_level_itself_no_other_is_looked_at() {
    let curves = even();
    let claims = claims(&curves);
    for capacity in [1, 999, 10_000, 1_000_000, 2_000_000] {
        let (level, _) = level_and_steps(capacity, &claims, None);
        assert_eq!(level_and_steps(capacity, &claims, Some(level)), (level, 0));
    }
}

#[test]
fn from_the_level_of_one_percent_more_or_less_two_steps_are_enough() {
    let curves = even();
    let claims = claims(&curves);
    for capacity in [10_000, 100_000, 1_000_000, 1_500_000] {
        let (level, _) = level_and_steps(capacity, &claims, None);
        for per_mille in 990..=1_010 {
            let capacity = capacity / 1_000 * per_mille;
            let (_, steps) = level_and_steps(capacity, &claims, Some(level));
            assert!(
                steps <= 2,
                "{steps} steps for {per_mille}/1000 of {capacity}"
            );
        }
    }
}

#[test]
fn a_search_that_newtons_method_makes_no_way_in_is_halved() {
    let curves = steep();
    let claims = claims(&curves);
    let all: u64 = claims.iter().map(Claim::all).sum();
    let bends = claims.iter().flat_map(Claim::bends).count();
    let most = NEWTON_STEPS + 2 * (1 + bends.ilog2());
    for less in (0..40).map(|power| 1 << power) {
        let (_, steps) = level_and_steps(all - less, &claims, None);
        assert!(
            steps <= most,
            "{steps} steps for all but {less}, not {most}"
        );
    }
}

#[test]
fn the_ends_of_a_bracket_are_outside() {
    let level = |units| Level::new(units, 7);
    let search = Search {
        claims: &[],
        low: level(3),
        high: level(5),
        bends: None,
    };
    let inside = [2, 3, 4, 5, 6].map(|units| search.is_inside(level(units)));
    assert_eq!(inside, [false, false, true, false, false]);
}
