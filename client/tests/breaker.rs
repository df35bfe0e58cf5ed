//! The circuit breaker against a naive model, and in examples.

use aliquot_client::Reason;
use aliquot_client::breaker::{Attempt, Breaker, Circuit};
use aliquot_client::clock::Tick;
use aliquot_client::observe::Mode;
use proptest::prelude::*;
use std::time::Duration;

const FAILURES: u16 = 3;
const COOL_DOWN: u64 = 100;

fn at(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

fn breaker() -> Breaker {
    Breaker::new(FAILURES, Duration::from_millis(COOL_DOWN))
        .max_cool_down(Duration::from_millis(4 * COOL_DOWN))
}

fn fails(breaker: &Breaker, ms: u64) {
    breaker
        .try_call_at(at(ms))
        .expect("one may try")
        .failure_at(at(ms));
}

#[test]
fn it_opens_after_failures_in_a_row_and_closes_when_one_goes_well() {
    let breaker = breaker();
    fails(&breaker, 0);
    fails(&breaker, 1);
    breaker.try_call_at(at(2)).expect("it is closed").success();
    fails(&breaker, 3);
    fails(&breaker, 4);
    assert_eq!(breaker.circuit_at(at(5)), Circuit::Closed);
    fails(&breaker, 5);
    assert_eq!(
        breaker.circuit_at(at(45)),
        Circuit::Open(Duration::from_millis(60))
    );
    let refused = breaker.try_call_at(at(104)).expect_err("it cools down");
    assert_eq!(refused.reason, Reason::Broken);
    assert_eq!(refused.retry_after, Some(Duration::from_millis(1)));
    let trial = breaker.try_call_at(at(105)).expect("the cool-down is over");
    assert_eq!(breaker.circuit_at(at(105)), Circuit::HalfOpen);
    assert!(breaker.try_call_at(at(106)).is_err(), "one tries, not two");
    trial.success();
    assert_eq!(breaker.circuit_at(at(106)), Circuit::Closed);
}

#[test]
fn the_cool_down_doubles_up_to_the_longest() {
    let breaker = breaker();
    (0..3).for_each(|ms| fails(&breaker, ms));
    let mut now = 2;
    for wait in [100, 200, 400, 400] {
        assert_eq!(
            breaker.circuit_at(at(now)),
            Circuit::Open(Duration::from_millis(wait))
        );
        assert!(breaker.try_call_at(at(now + wait - 1)).is_err());
        now += wait;
        fails(&breaker, now);
    }
    breaker.reset();
    assert_eq!(breaker.circuit_at(at(now)), Circuit::Closed);
}

#[test]
fn a_trial_that_is_given_up_or_lost_is_followed_by_another() {
    let breaker = breaker();
    (0..3).for_each(|ms| fails(&breaker, ms));
    drop(breaker.try_call_at(at(200)).expect("one may try"));
    let lost = breaker.try_call_at(at(200)).expect("the next one at once");
    assert!(breaker.try_call_at(at(299)).is_err());
    let second = breaker
        .try_call_at(at(300))
        .expect("the first is taken for lost");
    // The late outcome of the lost trial has no effect.
    lost.success();
    assert_eq!(breaker.circuit_at(at(300)), Circuit::HalfOpen);
    second.failure_at(at(301));
    assert_eq!(
        breaker.circuit_at(at(301)),
        Circuit::Open(Duration::from_millis(200))
    );
}

#[test]
fn outcomes_of_calls_begun_before_opening_are_ignored() {
    let breaker = breaker();
    let early: Vec<Attempt> = (0..5)
        .map(|_| breaker.try_call_at(at(0)).expect("closed"))
        .collect();
    (0..3).for_each(|ms| fails(&breaker, ms));
    let open = breaker.circuit_at(at(50));
    for (index, early) in early.into_iter().enumerate() {
        match index % 2 {
            0 => early.success(),
            _ => early.failure_at(at(50)),
        }
        assert_eq!(breaker.circuit_at(at(50)), open);
    }
}

#[test]
fn they_are_ignored_after_it_has_closed_again_too() {
    let breaker = breaker();
    let early = |count| (0..count).map(|_| breaker.try_call_at(at(0)).expect("closed"));
    let (fail, succeed): (Vec<_>, Vec<_>) = (early(3).collect(), early(1).collect());
    (0..3).for_each(|ms| fails(&breaker, ms));
    breaker.try_call_at(at(200)).expect("one may try").success();
    fail.into_iter().for_each(|early| early.failure_at(at(201)));
    assert_eq!(breaker.circuit_at(at(201)), Circuit::Closed);
    fails(&breaker, 202);
    fails(&breaker, 203);
    succeed.into_iter().for_each(Attempt::success);
    fails(&breaker, 204);
    assert!(breaker.try_call_at(at(205)).is_err(), "the third in a row");
}

#[test]
fn held_closed_it_lets_all_through_and_goes_on_trying() {
    for mode in [Mode::DryRun, Mode::Bypass] {
        let breaker = breaker();
        (0..3).for_each(|ms| fails(&breaker, ms));
        breaker.set_mode(mode);
        // Calls that are let through while the breaker is open have no effect on it.
        fails(&breaker, 3);
        breaker
            .try_call_at(at(4))
            .expect("it is let through")
            .success();
        let open = Circuit::Open(Duration::from_millis(97));
        assert_eq!((breaker.mode(), breaker.circuit_at(at(5))), (mode, open));
        assert_eq!(breaker.mode_stats().let_through, 2);
        // After the cool-down one call is the trial; others beside it are let through.
        let trial = breaker.try_call_at(at(102)).expect("it is let through");
        breaker
            .try_call_at(at(103))
            .expect("it is let through")
            .success();
        assert_eq!(breaker.circuit_at(at(103)), Circuit::HalfOpen);
        trial.success();
        assert_eq!(breaker.circuit_at(at(104)), Circuit::Closed);
        breaker.set_mode(Mode::Enforce);
        assert!(breaker.try_call_at(at(105)).is_ok());
        assert_eq!(
            (breaker.mode_stats().let_through, breaker.openings()),
            (3, 1)
        );
    }
}

#[test]
fn a_breaker_held_open_admits_no_trial_and_keeps_its_state() {
    let breaker = breaker();
    fails(&breaker, 0);
    fails(&breaker, 1);
    breaker.set_mode(Mode::Freeze);
    let refused = breaker.try_call_at(at(2)).expect_err("it is held open");
    assert_eq!(
        (refused.reason, refused.retry_after),
        (Reason::Frozen, None)
    );
    assert_eq!(breaker.circuit_at(at(2)), Circuit::Closed);
    breaker.set_mode(Mode::Enforce);
    assert_eq!(breaker.mode_stats().frozen, 1);
    fails(&breaker, 3);
    assert!(breaker.try_call_at(at(4)).is_err(), "the third in a row");
}

/// The breaker's state machine, written naively.
#[derive(Clone, Copy, Debug)]
enum Naive {
    Closed(u16),
    Open { openings: u32, until: u64 },
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn one_after_the_other_it_is_the_naive_one(
        calls in prop::collection::vec((0..120_u64, 0..3_u8), 1..120)
    ) {
        let breaker = breaker();
        let (mut naive, mut now) = (Naive::Closed(0), 0);
        for (gap, outcome) in calls {
            now += gap;
            let may = match naive {
                Naive::Closed(_) => true,
                Naive::Open { until, .. } => now >= until,
            };
            let tried = breaker.try_call_at(at(now));
            prop_assert_eq!(tried.is_ok(), may, "{:?} at {}", naive, now);
            let Ok(tried) = tried else { continue };
            let open = |openings: u32| Naive::Open {
                openings,
                until: now + (COOL_DOWN << (openings - 1).min(2)),
            };
            naive = match (naive, outcome) {
                (_, 0) => Naive::Closed(0),
                (Naive::Closed(failures), 1) if failures + 1 == FAILURES => open(1),
                (Naive::Closed(failures), 1) => Naive::Closed(failures + 1),
                (Naive::Open { openings, .. }, 1) => open(openings + 1),
                (Naive::Open { openings, .. }, _) => Naive::Open { openings, until: now },
                (closed, _) => closed,
            };
            match outcome {
                0 => tried.success(),
                1 => tried.failure_at(at(now)),
                _ => drop(tried),
            }
        }
    }
}
