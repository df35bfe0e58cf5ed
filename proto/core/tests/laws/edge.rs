//! Laws of edges: counters that only grow (invariant 6 of `docs/invariants.md`).
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_core::edge::{Counters, EdgeError, Vector, meets, owed};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{PeriodId, Rate, Tokens};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const KINDS: [Kind; 3] = [Kind::Rate, Kind::Quota, Kind::Concurrency];

/// Small, so that components tie and cross; large, so that sums reach the end.
fn any_component() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..20_u64,
        1 => any::<u64>().prop_map(|any| any >> 1),
        1 => (0..4_u64).prop_map(|less| Vector::EXHAUSTED - less),
        1 => (0..4_u64).prop_map(|less| u64::MAX - less),
    ]
}

fn any_vector() -> impl Strategy<Value = Vector> {
    prop::array::uniform6(any_component()).prop_map(Vector::from_array)
}

fn small_vector() -> impl Strategy<Value = Vector> {
    prop::array::uniform6(0..20_u64).prop_map(Vector::from_array)
}

/// Generates snapshots of one vector as its owner makes them: each covers the last.
fn any_chain() -> impl Strategy<Value = Vec<Vector>> {
    prop::collection::vec(small_vector(), 1..12).prop_map(|steps| {
        let sum = |sum: &mut Vector, step: Vector| {
            *sum = sum.plus(step).unwrap();
            Some(*sum)
        };
        steps.into_iter().scan(Vector::ZERO, sum).collect()
    })
}

fn each(left: Vector, right: Vector, law: impl Fn(u64, u64) -> bool) -> bool {
    let pairs = left.to_array().into_iter().zip(right.to_array());
    pairs.into_iter().all(|(left, right)| law(left, right))
}

/// `plus` is the exact sum or `None`, never a wrap and never a smaller sum.
fn a_sum_is_exact_or_none(left: Vector, right: Vector) -> TestCaseResult {
    let fits = each(left, right, |left, right| {
        u128::from(left) + u128::from(right) <= u128::from(Vector::EXHAUSTED)
    });
    match left.plus(right) {
        Some(sum) => {
            prop_assert!(fits);
            prop_assert_eq!(sum.ahead_of(left), right);
            prop_assert_eq!(sum.ahead_of(right), left);
            prop_assert!(sum.covers(left) && sum.covers(right) && !sum.is_exhausted());
        }
        None => prop_assert!(!fits),
    }
    Ok(())
}

/// The returns that a book accepts never exceed what was given.
fn nothing_returns_that_was_not_given(
    kind: Kind,
    given: Vector,
    returned: Vector,
) -> TestCaseResult {
    let mut counters = Counters::new(PeriodId::new(3));
    counters.given = given;
    let [rate, burst, tokens, spent, floor_rate, floor_burst] = returned.to_array();
    let [g_rate, g_burst, g_tokens, _, g_floor_rate, g_floor_burst] = given.to_array();
    let within = rate <= g_rate
        && burst <= g_burst
        && floor_rate <= g_floor_rate
        && floor_burst <= g_floor_burst
        && (kind != Kind::Quota || u128::from(tokens) + u128::from(spent) <= g_tokens.into());
    let expected = match (returned.is_exhausted(), within) {
        (true, _) => Err(EdgeError::Exhausted),
        (false, true) => Ok(()),
        (false, false) => Err(EdgeError::ReturnedMoreThanGiven),
    };
    prop_assert_eq!(counters.admits(kind, returned), expected);
    Ok(())
}

/// Given and returned in any order of arrival: never is more held than given.
fn holdings_are_what_did_not_come_back(kind: Kind, given: Vector, part: Vector) -> TestCaseResult {
    let mut counters = Counters::new(PeriodId::new(0));
    counters.given = given;
    prop_assert_eq!(counters.holding(kind).rate, given.rate);
    counters.returned = part.meet(given);
    if kind == Kind::Quota {
        counters.returned.spent = Tokens::ZERO;
    }
    let held = counters.holding(kind);
    prop_assert_eq!(
        held.rate.plus(counters.returned.rate),
        Some(counters.given.rate)
    );
    prop_assert_eq!(
        held.burst.plus(counters.returned.burst),
        Some(counters.given.burst)
    );
    let tokens = match kind {
        Kind::Quota => given.tokens.minus_or_zero(counters.returned.tokens),
        Kind::Rate | Kind::Concurrency => Tokens::ZERO,
    };
    prop_assert_eq!(held.tokens, tokens);
    prop_assert_eq!(held.spent, Tokens::ZERO);
    Ok(())
}

proptest! {
    #[test]
    fn merge_is_a_join_with_zero_as_its_identity(
        a in any_vector(), b in any_vector(), c in any_vector(),
    ) {
        prop_assert_eq!(a.merge(b), b.merge(a));
        prop_assert_eq!(a.merge(b).merge(c), a.merge(b.merge(c)));
        prop_assert_eq!(a.merge(a), a);
        prop_assert_eq!(a.merge(Vector::ZERO), a);
    }

    #[test]
    fn merge_is_the_least_that_covers_both(a in any_vector(), b in any_vector()) {
        let both = a.merge(b);
        prop_assert!(both.covers(a) && both.covers(b));
        prop_assert_eq!(a.meet(b).merge(a), a);
        prop_assert_eq!(a.merge(b).meet(a), a);
        prop_assert_eq!(a.covers(b), a.merge(b) == a);
    }

    #[test]
    fn whatever_is_lost_doubled_or_overtaken_the_latest_snapshot_delivered_stands(
        chain in any_chain(), deliveries in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let delivered = deliveries.iter().map(|index| index.index(chain.len()));
        let latest = delivered.clone().max().map_or(Vector::ZERO, |last| chain[last]);
        let end = delivered.fold(Vector::ZERO, |seen, index| seen.merge(chain[index]));
        prop_assert_eq!(end, latest);
    }

    #[test]
    fn counters_near_the_end_of_their_range_refuse_and_never_wrap(a in any_vector(), b in any_vector()) {
        a_sum_is_exact_or_none(a, b)?;
    }

    #[test]
    fn what_is_ahead_brings_the_one_behind_up_to_it(a in small_vector(), b in small_vector()) {
        let both = b.plus(a.ahead_of(b)).unwrap();
        prop_assert_eq!(both, a.merge(b));
        prop_assert_eq!(a.ahead_of(b).is_zero(), b.covers(a));
    }

    #[test]
    fn no_more_is_taken_back_than_was_given(
        kind in prop::sample::select(&KINDS), given in small_vector(), returned in any_vector(),
        close in small_vector(),
    ) {
        nothing_returns_that_was_not_given(kind, given, returned)?;
        nothing_returns_that_was_not_given(kind, given, close)?;
        nothing_returns_that_was_not_given(kind, close, close.meet(given))?;
    }

    #[test]
    fn what_did_not_come_back_is_held(
        kind in prop::sample::select(&KINDS), given in small_vector(), part in small_vector(),
    ) {
        holdings_are_what_did_not_come_back(kind, given, part)?;
    }

    #[test]
    fn a_target_is_met_exactly_when_nothing_of_it_is_owed(
        returned in any_vector(), target in any_vector(), more in small_vector(),
    ) {
        let mut target = target;
        target.spent = Tokens::ZERO;
        let lacking = owed(returned, target);
        prop_assert_eq!(meets(returned, target), lacking.is_zero());
        if let Some(returned) = returned.plus(lacking) {
            prop_assert!(meets(returned, target), "what was owed settles the debt");
            if let Some(returned) = returned.plus(more) {
                prop_assert!(meets(returned, target), "and more keeps it settled");
            }
        }
    }

    #[test]
    fn spent_tokens_of_a_quota_settle_a_target_of_tokens(tokens in 0..100_u64, spent in 0..100_u64, target in 0..200_u64) {
        let returned = Vector {
            tokens: Tokens::from_grains(tokens),
            spent: Tokens::from_grains(spent),
            ..Vector::ZERO
        };
        let target_of = |rate| Vector {
            rate: Rate::from_grains(rate),
            tokens: Tokens::from_grains(target),
            ..Vector::ZERO
        };
        prop_assert_eq!(meets(returned, target_of(0)), tokens + spent >= target);
        prop_assert!(!meets(returned, target_of(1)));
    }
}

#[test]
fn a_share_as_a_vector_is_the_share_again_and_nothing_else() {
    let share = Share {
        rate: Rate::from_grains(1),
        burst: Tokens::from_grains(2),
        tokens: Tokens::from_grains(3),
    };
    assert_eq!(Vector::of(share).to_array(), [1, 2, 3, 0, 0, 0]);
    assert_eq!(Vector::of(share).share(), share);
}

#[test]
fn a_counter_is_exhausted_beyond_its_bound_and_not_at_it() {
    for component in 0..6 {
        let mut counters = [0; 6];
        counters[component] = Vector::EXHAUSTED;
        assert!(!Vector::from_array(counters).is_exhausted());
        counters[component] += 1;
        assert!(Vector::from_array(counters).is_exhausted());
    }
}
