//! Adaptive controllers against a simulated dependency with a fixed number of servers and a queue.

use aliquot_client::adaptive::{Adaptive, Aimd, Bounds, Controller, Gradient, Sample, Vegas};
use aliquot_client::{Limit, LimitError, Limiter, ManualClock, Span, Tick};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// A dependency that serves `capacity` calls at once, each in about `service`, and queues the rest. It
/// rejects calls beyond four times its capacity.
struct Dependency {
    capacity: u64,
    service: Span,
    /// Latencies vary by up to this many thousandths.
    noise: u64,
    now: Tick,
    rng: Pcg64,
}

impl Dependency {
    fn of(capacity: u64) -> Self {
        Self {
            capacity,
            service: Span::from_millis(10),
            noise: 0,
            now: Tick::from_nanos(1),
            rng: Pcg64::seed_from_u64(7),
        }
    }

    /// Runs this many calls, with as many in flight as the controller allows. Returns how often its limit
    /// changed in the second half, and its minimum and maximum then.
    fn settle(&mut self, controller: &mut dyn Controller, calls: u64) -> (u64, u64, u64) {
        let (mut changes, mut least, mut most) = (0, u64::MAX, 0);
        for call in 0..calls {
            let in_flight = controller.limit();
            let rounds = (in_flight as f64 / self.capacity as f64).max(1.0);
            let noise = self
                .rng
                .random_range(1_000 - self.noise..=1_000 + self.noise);
            let latency = (self.service.nanos() as f64 * rounds) as u64 * noise / 1_000;
            self.now = self.now.after(Span::from_nanos(latency / in_flight.max(1)));
            controller.sample(Sample {
                now: self.now,
                latency: Span::from_nanos(latency),
                in_flight,
                failed: in_flight > 4 * self.capacity,
            });
            if call > calls / 2 {
                let limit = controller.limit();
                (least, most) = (least.min(limit), most.max(limit));
                changes += u64::from(limit != in_flight);
            }
        }
        (changes, least, most)
    }
}

fn bounds() -> Bounds {
    Bounds::new(1, 1_000).expect("bounds").start(5)
}

/// Expected limits of each controller for a capacity of 100, and for half of that.
type Row = (&'static str, Box<dyn Controller>, [RangeInclusive<u64>; 2]);

fn rows() -> [Row; 3] {
    [
        // AIMD observes only failures, so its limit swings below the point where they begin.
        (
            "aimd",
            Box::new(Aimd::new(bounds())),
            [340..=401, 170..=201],
        ),
        // Three to six calls in the queue, or a fifth fewer while the best latency is measured.
        ("vegas", Box::new(Vegas::new(bounds())), [80..=108, 40..=58]),
        // Up to one and a half times the usual latency, plus a square root.
        (
            "gradient",
            Box::new(Gradient::new(bounds())),
            [100..=401, 50..=201],
        ),
    ]
}

#[test]
fn each_settles_near_what_the_dependency_can_take_and_follows_it() {
    for (name, mut controller, limits) in rows() {
        let mut dependency = Dependency::of(100);
        for (capacity, which) in [(100, 0), (50, 1), (100, 0)] {
            dependency.capacity = capacity;
            let (_, low, high) = dependency.settle(&mut *controller, 200_000);
            let wanted = &limits[which];
            assert!(
                wanted.contains(&low) && wanted.contains(&high),
                "{name}, a capacity of {capacity}: {low} to {high}"
            );
        }
    }
}

#[test]
fn a_little_noise_moves_no_limit() {
    let most = |limit| Bounds::new(1, limit).expect("bounds").start(limit);
    let rows: [(&str, Box<dyn Controller>, u64, u64); 3] = [
        // At its maximum, below the capacity.
        ("aimd", Box::new(Aimd::new(most(100))), 200, 100),
        // With four calls in the queue, give or take one.
        ("vegas", Box::new(Vegas::new(bounds())), 100, 10),
        // At its maximum, where the square root is small.
        ("gradient", Box::new(Gradient::new(most(4_000))), 5_000, 100),
    ];
    for (name, mut controller, capacity, noise) in rows {
        let mut dependency = Dependency::of(capacity);
        dependency.noise = noise;
        // Vegas settles within 6,000 calls, and measures again after 30,000.
        let (changes, low, high) = dependency.settle(&mut *controller, 25_000);
        assert_eq!((changes, low), (0, high), "{name}");
    }
}

#[test]
fn a_lasting_slowdown_is_accepted_as_the_new_latency() {
    let mut dependency = Dependency::of(100);
    let mut vegas = Vegas::new(bounds());
    dependency.settle(&mut vegas, 20_000);
    dependency.service = Span::from_millis(20);
    let (_, low, high) = dependency.settle(&mut vegas, 200_000);
    assert!(low >= 80 && high <= 108, "{low} to {high}");
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
    // A dropped call teaches nothing, but releases its permit.
    for _ in 0..100 {
        drop(adaptive.try_call().expect("no call is in flight"));
    }
    assert_eq!(adaptive.limit(), 5);
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
fn only_local_permits_can_be_adapted() {
    let rate = Limiter::local(Limit::per_sec(5), 9).expect("a rate");
    let led = Adaptive::over(rate.clone(), Aimd::new(bounds()));
    assert_eq!(led.err(), Some(LimitError::NoPermits));
    assert_eq!(rate.peek().burst, 9);
}
