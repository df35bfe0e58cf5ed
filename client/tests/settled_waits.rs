//! Waits that are settled afterwards, on a local limit.

use aliquot_client::limiter::Settled;
use aliquot_client::observe::Mode;
use aliquot_client::{Limit, Limiter, ManualClock, Reservation};
use futures_util::FutureExt;
use proptest::prelude::*;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

const TENTH: Duration = Duration::from_millis(100);

/// Ten a second, and a burst of five.
fn ten() -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with(Limit::per_sec(10), 5, Arc::new(clock.clone()));
    (limiter.expect("a limit"), clock)
}

fn at_once(limiter: &Limiter, n: u64) -> Reservation {
    let taken = limiter.acquire_to_settle(n).now_or_never();
    taken.expect("at once").expect("they are there")
}

#[test]
fn tokens_waited_for_return_what_was_not_used() {
    let (limiter, clock) = ten();
    limiter.try_acquire(5).expect("the burst");
    let mut waits = pin!(limiter.acquire_to_settle(4));
    assert!(waits.as_mut().now_or_never().is_none());
    clock.advance(4 * TENTH);
    let call = waits.now_or_never().expect("it is due").expect("served");
    assert_eq!((call.tokens(), call.delay()), (4, Duration::ZERO));
    assert!(!call.is_from_home());
    let admission = call.admission();
    let waited = admission.decided_at.since(admission.asked_at);
    assert_eq!(
        (admission.tokens, waited.nanos()),
        (4, 4 * TENTH.as_nanos() as u64)
    );
    // It is served: giving it up after that refunds nothing, but settling it does.
    let settled = Settled {
        restored: 3,
        taken: 0,
    };
    assert_eq!(call.settle(1), settled);
    assert!(limiter.try_acquire(3).is_ok() && limiter.try_acquire(1).is_err());
}

#[test]
fn cost_beyond_the_estimate_is_owed() {
    let (limiter, clock) = ten();
    assert_eq!(at_once(&limiter, 1).settle(8).taken, 7);
    assert_eq!(limiter.tokens(), -3.0);
    let mut next = pin!(limiter.acquire_to_settle(1));
    assert!(next.as_mut().now_or_never().is_none());
    clock.advance(4 * TENTH);
    assert!(next.now_or_never().is_some());
}

#[test]
fn a_wait_that_cannot_be_or_is_called_off_takes_nothing() {
    let (limiter, _) = ten();
    at_once(&limiter, 5).settle(5);
    let late = limiter
        .acquire_to_settle_within(2, TENTH)
        .now_or_never()
        .expect("at once");
    let refused = late.expect_err("two tenths");
    assert_eq!(refused.retry_after, Some(2 * TENTH));
    {
        let mut waits = pin!(limiter.acquire_to_settle(2));
        assert!(waits.as_mut().now_or_never().is_none());
        assert_eq!(limiter.tokens(), -2.0);
    }
    assert_eq!(limiter.tokens(), 0.0);
}

#[test]
fn requests_that_a_mode_let_through_settle_nothing() {
    let (limiter, _) = ten();
    at_once(&limiter, 5).settle(5);
    let mut waits = pin!(limiter.acquire_to_settle(5));
    assert!(waits.as_mut().now_or_never().is_none());
    limiter.set_mode(Mode::DryRun);
    let call = waits
        .now_or_never()
        .expect("let through")
        .expect("let through");
    let nothing = Settled {
        restored: 0,
        taken: 0,
    };
    assert_eq!((call.settle(0), limiter.tokens()), (nothing, 0.0));
    let call = at_once(&limiter, 5);
    assert_eq!((call.settle(9), limiter.tokens()), (nothing, 0.0));
}

/// One call: the time since the one before, its estimate, its cost, and the time until the cost is known.
type Call = (u64, u64, u64, u64);

proptest! {
    /// A wait that is settled equals a reservation whose caller waits by itself and settles.
    #[test]
    fn a_wait_that_is_settled_is_a_reservation_that_is(
        calls in prop::collection::vec((0..800_u64, 0..6_u64, 0..9_u64, 0..800_u64), 1..40),
    ) {
        let ((waits, one), (reserves, other)) = (ten(), ten());
        for (gap, estimate, cost, takes) in calls as Vec<Call> {
            let both = |millis| {
                for clock in [&one, &other] {
                    clock.advance(Duration::from_millis(millis));
                }
            };
            both(gap);
            let theirs = reserves.reserve(estimate);
            let mut mine = pin!(waits.acquire_to_settle(estimate));
            let refused = match theirs {
                Err(refused) => Some(refused),
                Ok(theirs) => {
                    // To the nanosecond.
                    let delay = theirs.delay();
                    let due = mine.as_mut().now_or_never();
                    prop_assert_eq!(due.is_some(), delay.is_zero());
                    for clock in [&one, &other] {
                        clock.advance(delay);
                    }
                    let due = due.or_else(|| mine.as_mut().now_or_never());
                    let mine = due.expect("it is due").expect("as the other");
                    prop_assert_eq!((mine.admission(), mine.act_at()), (theirs.admission(), theirs.act_at()));
                    both(takes);
                    prop_assert_eq!(mine.settle(cost), theirs.settle(cost));
                    None
                }
            };
            if let Some(refused) = refused {
                let mine = mine.now_or_never().expect("at once");
                prop_assert_eq!(mine.expect_err("refused as well"), refused);
            }
            prop_assert_eq!(waits.tokens(), reserves.tokens());
        }
    }
}
