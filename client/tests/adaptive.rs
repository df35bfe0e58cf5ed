//! Controllers against a dependency that serves so many at once, and queues the rest.

use aliquot_client::adaptive::{Adaptive, Aimd, Bounds, Controller, Gradient, Sample, Vegas};
use aliquot_client::{ManualClock, Span, Tick};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// Calls of a dependency that serves `capacity` at once in 10 ms each, always as many in flight as
/// the controller allows; beyond four times its capacity it fails. The limits of the last half.
fn settle(controller: &mut dyn Controller, capacity: u64, calls: u64) -> (u64, u64) {
    let (mut now, mut limits) = (Tick::from_nanos(1), (u64::MAX, 0));
    for call in 0..calls {
        let in_flight = controller.limit();
        let rounds = in_flight as f64 / capacity as f64;
        let latency = (10e6 * rounds.max(1.0)) as u64;
        now = now.after(Span::from_nanos(latency / in_flight.max(1)));
        controller.sample(Sample {
            now,
            latency: Span::from_nanos(latency),
            in_flight,
            failed: in_flight > 4 * capacity,
        });
        if call > calls / 2 {
            limits = (
                limits.0.min(controller.limit()),
                limits.1.max(controller.limit()),
            );
        }
    }
    limits
}

fn bounds() -> Bounds {
    Bounds::new(1, 1_000).expect("bounds").start(5)
}

#[test]
fn each_settles_near_what_the_dependency_can_take() {
    let rows: [(&str, Box<dyn Controller>, u64, u64); 3] = [
        // It knows nothing but failures, so it swings below the point where they begin.
        ("aimd", Box::new(Aimd::new(bounds())), 340, 401),
        // Three to six in the queue, or a fifth fewer while it measures.
        ("vegas", Box::new(Vegas::new(bounds())), 80, 108),
        // Up to half as long again as usual, and a root of it.
        ("gradient", Box::new(Gradient::new(bounds())), 100, 401),
    ];
    for (name, mut controller, least, most) in rows {
        let (low, high) = settle(&mut *controller, 100, 400_000);
        assert!(low >= least && high <= most, "{name}: {low} to {high}");
    }
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
                latency: Span::from_millis(1),
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
                let (now, latency) = (Tick::from_nanos(now), Span::from_nanos(latency));
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
    // Who says nothing teaches nothing, and releases its permit all the same.
    for _ in 0..100 {
        drop(adaptive.try_call().expect("nobody is in flight"));
    }
    assert_eq!(adaptive.limit(), 5);
}
