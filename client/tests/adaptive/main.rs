//! Adaptive controllers of the number of calls in flight.

mod service;
mod settling;

use aliquot_client::adaptive::{Adaptive, Aimd, Bounds, Controller, Gradient, Sample, Vegas};
use aliquot_client::clock::{Span, Tick};
use aliquot_client::{Limit, LimitError, Limiter, ManualClock, Reason};
use futures_util::FutureExt;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

fn bounds() -> Bounds {
    Bounds::new(1, 1_000).expect("bounds").start(5)
}

#[test]
fn none_grows_while_little_is_used() {
    let controllers: [Box<dyn Controller>; 3] = [
        Box::new(Aimd::new(bounds())),
        Box::new(Vegas::new(bounds())),
        Box::new(Gradient::new(bounds())),
    ];
    for mut controller in controllers {
        for call in 0..10_000 {
            controller.sample(Sample {
                now: Tick::from_nanos(call),
                latency: Duration::from_millis(1),
                in_flight: 1,
                failed: false,
            });
        }
        assert_eq!(controller.limit(), 5, "{controller:?}");
    }
}

proptest! {
    #[test]
    fn all_keep_to_their_bounds(
        samples in prop::collection::vec((0..1_u64 << 40, 1..1_u64 << 50, 0..3_000_u64, any::<bool>()), 1..300),
        least in 1..50_u64, more in 0..500_u64,
    ) {
        let bounds = Bounds::new(least, least + more).expect("bounds");
        let controllers: [Box<dyn Controller>; 3] = [
            Box::new(Aimd::new(bounds)), Box::new(Vegas::new(bounds)), Box::new(Gradient::new(bounds)),
        ];
        for mut controller in controllers {
            for &(now, latency, in_flight, failed) in &samples {
                let (now, latency) = (Tick::from_nanos(now), Duration::from_nanos(latency));
                controller.sample(Sample { now, latency, in_flight, failed });
                prop_assert!((least..=least + more).contains(&controller.limit()));
            }
        }
    }
}

#[test]
fn failures_that_were_in_flight_together_count_once() {
    let clock = ManualClock::new();
    let aimd = Aimd::new(bounds().start(10)).keep(0.5);
    let adaptive = Adaptive::with_clock(aimd, Arc::new(clock.clone())).expect("permits");
    let calls: Vec<_> = (0..10).map(|_| adaptive.try_call().expect("ten")).collect();
    assert!(adaptive.try_call().is_err());
    clock.advance(Duration::from_millis(10));
    for call in calls {
        call.failure();
    }
    assert_eq!(adaptive.limit(), 5);
    // A dropped call teaches nothing, but releases its permit.
    for _ in 0..100 {
        drop(adaptive.try_call().expect("no call is in flight"));
    }
    assert_eq!(adaptive.limit(), 5);
}

#[test]
fn a_late_failure_of_the_same_flight_lowers_no_limit_again() {
    let bounds = bounds().start(100);
    let controllers: [Box<dyn Controller>; 3] = [
        Box::new(Aimd::new(bounds)),
        Box::new(Vegas::new(bounds)),
        Box::new(Gradient::new(bounds)),
    ];
    let began = Tick::from_nanos(1_000_000_000);
    for mut controller in controllers {
        let mut fail = |latency| {
            controller.sample(Sample {
                now: began.after(Span::from_millis(latency)),
                latency: Duration::from_millis(latency),
                in_flight: 100,
                failed: true,
            });
            controller.limit()
        };
        // One is rejected at once, and the others of the same time run into their timeouts.
        assert_eq!([fail(2), fail(3), fail(900), fail(1_000)], [90; 4]);
        controller.sample(Sample {
            now: began.after(Span::from_millis(1_001)),
            latency: Duration::from_millis(1),
            in_flight: 90,
            failed: true,
        });
        assert_eq!(controller.limit(), 81, "{controller:?}");
    }
}

#[test]
fn every_handle_of_an_adaptive_limiter_sees_its_limit() {
    let clock = ManualClock::new();
    let limiter = Limiter::local_permits_with(77, Arc::new(clock.clone())).expect("permits");
    let aimd = Aimd::new(bounds().start(4)).keep(0.5);
    let adaptive = Adaptive::over(limiter.clone(), aimd).expect("permits of one's own");
    assert_eq!((limiter.peek().burst, adaptive.limit()), (4, 4));
    let calls: Vec<_> = (0..3).map(|_| adaptive.try_call().expect("four")).collect();
    assert_eq!(limiter.tokens(), 1.0);
    // A permit taken from the limiter directly counts, too.
    let permit = limiter.try_permit().expect("the fourth");
    assert!(adaptive.try_call().is_err());
    clock.advance(Duration::from_millis(10));
    calls.into_iter().for_each(|call| call.failure());
    assert_eq!((limiter.peek().burst, limiter.tokens()), (2, 1.0));
    drop(permit);
    // As many successful calls as the limit, with the limit in use, add one.
    for _ in 0..3 {
        let calls = [(); 2].map(|()| adaptive.try_call().expect("two"));
        clock.advance(Duration::from_millis(10));
        calls.into_iter().for_each(|call| call.success());
    }
    assert!(limiter.peek().burst > 2, "{:?}", limiter.peek());
}

#[test]
fn a_call_that_waits_is_begun_before_a_later_one() {
    let clock = Arc::new(ManualClock::new());
    let permits = Limiter::local_permits_with(1, clock).expect("permits");
    let aimd = Aimd::new(bounds().start(1));
    let adaptive = Adaptive::over(permits.clone(), aimd).expect("permits of one's own");
    let first = adaptive.try_call().expect("one may be in flight");
    let mut waits = Box::pin(adaptive.call());
    assert!(waits.as_mut().now_or_never().is_none());
    first.success();
    // It is free, and the waiting caller has not run yet.
    assert!(permits.peek().level > 0);
    let refused = adaptive.try_call().expect_err("another caller waits");
    assert_eq!(refused.reason, Reason::Permits);
    let second = waits.as_mut().now_or_never().expect("it is free");
    second.expect("a call").success();
    assert!(adaptive.try_call().is_ok(), "no caller waits any more");
}

#[test]
fn only_local_permits_can_be_adapted() {
    let rate = Limiter::local(Limit::per_sec(5), 9).expect("a rate");
    let led = Adaptive::over(rate.clone(), Aimd::new(bounds()));
    assert_eq!(led.err(), Some(LimitError::NoPermits));
    assert_eq!(rate.peek().burst, 9);
}
