//! A call that cost more than its estimate: the excess is owed as far as the limiter can owe it.

use aliquot_client::clock::Tick;
use aliquot_client::combined::Combine;
use aliquot_client::{Keyed, Limit, Limiter, ManualClock};
use std::sync::Arc;
use std::time::Duration;

const START: Tick = Tick::from_nanos(1_000_000_000_000);

fn clock() -> Arc<ManualClock> {
    let clock = ManualClock::new();
    clock.set(START);
    Arc::new(clock)
}

#[test]
fn an_excess_beyond_what_can_be_owed_is_taken_as_far_as_it_can() {
    let day = Limit::per(1_000, Duration::from_secs(86_400));
    let limiter = Limiter::local_with(day, 1_000, clock()).expect("a limit");
    let call = limiter.reserve(1).expect("a full bucket");
    let settled = call.settle(3_000);
    assert!((1_000..=2_999).contains(&settled.taken), "{settled:?}");
    let missing = 1.0 + settled.taken as f64 - 1_000.0;
    assert!(
        (limiter.tokens() + missing).abs() < 0.01,
        "{}",
        limiter.tokens()
    );
    assert!(limiter.try_acquire(1).is_err(), "the bucket owes");
}

#[test]
fn an_excess_that_can_be_owed_is_taken_whole() {
    let limiter = Limiter::local_with(Limit::per_sec(100), 10, clock()).expect("a limit");
    let call = limiter.reserve(1).expect("a full bucket");
    assert_eq!(call.settle(3_000).taken, 2_999);
    assert_eq!(limiter.tokens(), -2_990.0);
}

/// Calls of 5,000 on a key of 100 a minute, each estimated at one.
#[test]
fn calls_that_cost_more_than_a_key_can_owe_do_not_pass_one_after_another() {
    let minute = Limit::per(100, Duration::from_secs(60));
    let store = Keyed::builder(minute, 100, 16)
        .clock(clock())
        .seed(7)
        .build();
    let store = store.expect("a store");
    let tier = store.bucket("user/7");
    let mut passed = 0;
    for _ in 0..50 {
        if let Ok(receipt) = tier.take_at(1, START) {
            passed += 1;
            let taken = tier.owe_at(&receipt, 4_999, START);
            assert!((100..=4_999).contains(&taken), "{taken}");
        }
    }
    assert_eq!(passed, 1);
}

/// Returns how many tokens a limiter owes once it can owe no more, not even one, by costs up to `most` each.
fn owes_at_most(limiter: &Limiter, most: u64, owe: impl Fn(&Limiter, u64) -> bool) -> f64 {
    let mut cost = most;
    while cost > 0 {
        while owe(limiter, cost) {}
        cost /= 2;
    }
    -limiter.tokens()
}

/// Places in line and excesses are debts in the same word, so the bound is the same: neither is a way around the other.
#[test]
fn an_excess_can_owe_as_much_as_places_in_line() {
    let [minute, hour] = [60, 3_600].map(Duration::from_secs);
    for (limit, burst) in [
        (Limit::per_sec(1), 3_000),
        (Limit::per_sec(100), 300_000),
        (Limit::per(100, minute), 4_000),
        (Limit::per(7, hour), 20),
        (Limit::per_sec(1_000_000), 1_000_000_000),
    ] {
        let made = || Limiter::local_with(limit, burst, clock()).expect("a limit");
        let places = owes_at_most(&made(), burst, |limiter, cost| {
            limiter.reserve(cost).is_ok()
        });
        let excess = owes_at_most(&made(), u64::MAX, |limiter, cost| {
            limiter
                .reserve(0)
                .is_ok_and(|call| call.settle(cost).taken > 0)
        });
        assert!(excess > burst as f64, "{limit:?}: {excess}");
        assert!(
            (places - excess).abs() < 1.0,
            "{limit:?}: {places} by places, {excess} by an excess"
        );
    }
}
