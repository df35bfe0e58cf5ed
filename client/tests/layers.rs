//! Several limits at once: all or nothing, and refunded tokens count as never taken.

use aliquot_client::clock::Tick;
use aliquot_client::combined::{Combine, Receipt};
use aliquot_client::observe::Switched;
use aliquot_client::shape::{FixedWindow, Meter, SlidingCounter, SlidingLog};
use aliquot_client::{Combined, Limit, Limiter, ManualClock, Reason, Refused};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const START: u64 = 1_000_000_000_000;
const SECOND: Duration = Duration::from_secs(1);

fn at(ms: u64) -> Tick {
    Tick::from_nanos(START + ms * 1_000_000)
}

/// (gap in ms, cost)
fn asks() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![3 => Just(0_u64), 3 => 0..300_u64, 1 => 0..3_000_u64];
    prop::collection::vec((gap, 0..5_u64), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Combined admit all or nothing, and a refusal by one costs the others nothing.
    #[test]
    fn layers_take_all_or_nothing(
        asks in asks(), bursts in [1..6_u64, 1..6_u64, 1..6_u64, 1..6_u64], refunds in any::<u64>(),
    ) {
        let clock = ManualClock::new();
        clock.set(at(0));
        let [mine, twin] = [(); 2].map(|()| Kinds::new(&clock, bursts));
        let layers = Combined::of_any(mine.named());
        let mut now = 0;
        for (step, (gap, n)) in asks.into_iter().enumerate() {
            now += gap;
            let twins = twin.named();
            let fits = twins.iter().all(|(_, twin)| twin.peek_at(n, at(now)).is_ok());
            prop_assert_eq!(layers.peek_at(n, at(now)).is_ok(), fits);
            let answer = layers.try_acquire_at(n, at(now));
            prop_assert_eq!(answer.is_ok(), fits, "{} at {}", n, now);
            match answer {
                Ok(charge) if refunds >> (step % 64) & 1 == 1 => {
                    prop_assert_eq!(charge.settle_at(0, at(now)).restored, n);
                }
                Ok(charge) => {
                    prop_assert_eq!(charge.tokens(), n);
                    for (_, twin) in twins {
                        prop_assert!(twin.take_at(n, at(now)).is_ok());
                    }
                }
                Err(refused) => {
                    // The first of the layers with the longest wait.
                    let waits = twins.map(|(_, twin)| {
                        let refused = twin.peek_at(n, at(now)).err();
                        refused.map_or(Duration::ZERO, |no| no.retry_after.unwrap_or(Duration::MAX))
                    });
                    let longest = waits.into_iter().max().expect("some");
                    let first = waits.into_iter().position(|wait| wait == longest);
                    prop_assert_eq!(refused.refused.retry_after.unwrap_or(Duration::MAX), longest);
                    prop_assert_eq!(Some(refused.index), first);
                    prop_assert_eq!(refused.limit, twins[refused.index].0);
                }
            }
            mine.same(&twin, at(now))?;
        }
    }
}

/// One tier of each kind.
struct Kinds {
    bucket: Limiter,
    log: SlidingLog,
    counter: SlidingCounter,
    fixed: FixedWindow,
    meter: Meter,
    whole: Limiter,
}

impl Kinds {
    const KINDS: usize = 6;

    fn new(clock: &ManualClock, [bucket, window, counter, whole]: [u64; 4]) -> Self {
        let limiter = |burst| {
            let clock = Arc::new(clock.clone());
            Limiter::local_with(Limit::per_sec(2), burst, clock).expect("a limit")
        };
        Self {
            bucket: limiter(bucket),
            log: SlidingLog::new(window, SECOND).expect("a log"),
            counter: SlidingCounter::new(counter, SECOND).expect("a counter"),
            fixed: FixedWindow::new(window, SECOND).expect("a window"),
            meter: Meter::over(limiter(counter)),
            whole: limiter(whole),
        }
    }

    fn named(&self) -> [(&'static str, &dyn Combine); Self::KINDS] {
        [
            ("bucket", &self.bucket),
            ("log", &self.log),
            ("counter", &self.counter),
            ("fixed", &self.fixed),
            ("meter", &self.meter),
            ("whole", &self.whole),
        ]
    }

    /// Checks that both answer the same to any request.
    fn same(&self, other: &Self, now: Tick) -> Result<(), TestCaseError> {
        for ((name, mine), (_, twin)) in self.named().into_iter().zip(other.named()) {
            for n in 0..8 {
                let (mine, twin) = (mine.peek_at(n, now), twin.peek_at(n, now));
                prop_assert_eq!(mine.is_ok(), twin.is_ok(), "{} of {}", n, name);
            }
        }
        for (mine, twin) in [(&self.bucket, &other.bucket), (&self.whole, &other.whole)] {
            prop_assert_eq!(mine.tokens_at(now), twin.tokens_at(now));
        }
        let levels = [self, other].map(|tiers| tiers.meter.level_at(now));
        prop_assert_eq!(levels[0], levels[1]);
        Ok(())
    }
}

/// A layer that refuses seven of eight requests, and admits a limited number in total.
#[derive(Debug)]
struct Whim {
    asked: AtomicU64,
    left: AtomicU64,
}

impl Combine for Whim {
    fn now(&self) -> Tick {
        at(0)
    }

    fn take_at(&self, n: u64, _: Tick) -> Result<Receipt, Refused> {
        let lucky = self.asked.fetch_add(1, Ordering::SeqCst) % 8 == 7;
        let left = |left: u64| left.checked_sub(n).filter(|_| lucky);
        let taken = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        let refused = Refused::from(Reason::Shed);
        taken.map(|_| Receipt::of_window(n, 0)).map_err(|_| refused)
    }

    fn peek_at(&self, _: u64, _: Tick) -> Result<(), Refused> {
        Ok(())
    }

    fn put_back_at(&self, _: &Receipt, _: u64, _: Tick) -> u64 {
        0
    }
}

/// Concurrent threads, most of them refused by the last layer: the others have exactly the admitted tokens
/// taken from them.
#[test]
fn threads_that_are_refused_by_the_last_layer_cost_the_others_nothing() {
    const STAND: u64 = 40;
    for _ in 0..20 {
        let clock = ManualClock::new();
        clock.set(at(0));
        let tiers = Kinds::new(&clock, [50; 4]);
        let whim = Whim {
            asked: AtomicU64::new(0),
            left: AtomicU64::new(STAND),
        };
        let [a, b, c, d, e, f] = tiers.named();
        let layers = Combined::of_any([a, b, c, d, e, f, ("whim", &whim)]);
        let stand = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for step in 0..400 {
                        let Ok(charge) = layers.try_acquire_at(1, at(0)) else {
                            continue;
                        };
                        // Some are refunded after later admissions.
                        match step % 4 {
                            0 => {
                                charge.settle_at(0, at(0));
                            }
                            _ => {
                                stand.fetch_add(charge.tokens(), Ordering::SeqCst);
                            }
                        }
                    }
                });
            }
        });
        let rest = 50 - stand.load(Ordering::SeqCst);
        for (name, tier) in tiers.named() {
            assert!(
                tier.take_at(rest, at(0)).is_ok(),
                "{rest} are left of {name}"
            );
            assert!(tier.take_at(1, at(0)).is_err(), "{rest} are left of {name}");
        }
    }
}

fn limiter(clock: &ManualClock, burst: u64) -> Limiter {
    Limiter::local_with(Limit::per_sec(2), burst, Arc::new(clock.clone())).expect("a limit")
}

#[test]
fn extra_cost_is_owed_by_every_layer_that_can() {
    let clock = ManualClock::new();
    let tiers = [limiter(&clock, 10), limiter(&clock, 20)];
    let layers = Combined::of([("one", &tiers[0]), ("other", &tiers[1])]);
    let settled = layers.try_acquire(4).expect("four").settle(15);
    assert_eq!((settled.restored, settled.taken), (0, 11));
    assert_eq!((tiers[0].tokens(), tiers[1].tokens()), (-5.0, 5.0));
    // Later requests wait for it.
    let refused = layers.try_acquire(1).expect_err("it owes five");
    assert_eq!(refused.refused.retry_after, Some(3 * SECOND));
    clock.advance(3 * SECOND);
    assert!(layers.try_acquire(1).is_ok());
    // The same for a meter and under a switch.
    let meter = Meter::over(limiter(&clock, 5));
    let switched = Switched::new(limiter(&clock, 5));
    let layers = Combined::of_any([("meter", &meter), ("switched", &switched)]);
    assert_eq!(layers.try_acquire(1).expect("one").settle(8).taken, 7);
    assert_eq!((meter.level(), switched.inner().tokens()), (8.0, -3.0));
}

/// Of an excess a window takes what is left of it, and no window owes.
#[test]
fn a_window_takes_of_an_excess_what_is_left_of_it() {
    let clock = ManualClock::new();
    clock.set(at(0));
    let shared = || Arc::new(clock.clone());
    let fixed = FixedWindow::with_clock(5, SECOND, shared()).expect("a window");
    let counter = SlidingCounter::with_clock(5, SECOND, shared()).expect("a counter");
    let log = SlidingLog::with_clock(5, SECOND, shared()).expect("a log");
    let windows: [(&str, &dyn Combine); 3] =
        [("fixed", &fixed), ("counter", &counter), ("log", &log)];
    for (name, window) in windows {
        let bucket = limiter(&clock, 20);
        let layers = Combined::of_any([(name, window), ("bucket", &bucket)]);
        let left = || {
            window
                .info_at(Combine::now(window))
                .expect("it is known")
                .remaining
        };
        assert_eq!(layers.try_acquire(1).expect("one").settle(3).taken, 2);
        assert_eq!((left(), bucket.tokens()), (2, 17.0), "{name}");
        // Two of seven are left; the bucket takes all of them.
        assert_eq!(layers.try_acquire(1).expect("one").settle(8).taken, 1);
        assert_eq!((left(), bucket.tokens()), (0, 9.0), "{name}");
        let refused = layers.try_acquire(1).expect_err("none is left");
        assert_eq!(refused.limit, name);
        // The next window owes nothing, nor the one after it, in which a sliding one is whole again.
        clock.advance(2 * SECOND);
        assert_eq!(left(), 5, "{name}");
    }
}

#[test]
fn refunds_reach_every_layer() {
    let clock = ManualClock::new();
    let tiers = [limiter(&clock, 10), limiter(&clock, 20)];
    let left = || [tiers[0].tokens(), tiers[1].tokens()];
    let layers = Combined::of([("one", &tiers[0]), ("other", &tiers[1])]);
    let charge = layers.try_acquire(7).expect("seven");
    assert_eq!(left(), [3.0, 13.0]);
    charge.refund();
    assert_eq!(left(), [10.0, 20.0]);
    let settled = layers.try_acquire(7).expect("seven").settle(5);
    assert_eq!((settled.restored, settled.taken), (2, 0));
    assert_eq!(left(), [5.0, 15.0]);
    // A dropped charge stays charged.
    drop(layers.try_acquire(1).expect("one"));
    assert_eq!(left(), [4.0, 14.0]);
}

#[test]
fn a_refusal_names_the_layer_that_must_be_waited_for_the_longest() {
    let clock = ManualClock::new();
    let hourly = |burst| {
        let clock = Arc::new(clock.clone());
        let limit = Limit::per(1, Duration::from_secs(3_600));
        Limiter::local_with(limit, burst, clock).expect("a limit")
    };
    let (quick, slow, wide) = (limiter(&clock, 1), hourly(1), limiter(&clock, 100));
    let layers = Combined::of([("quick", &quick), ("slow", &slow), ("wide", &wide)]);
    assert!(layers.try_acquire(1).is_ok());
    let refused = layers.try_acquire(1).expect_err("both are empty");
    assert_eq!((refused.limit, refused.index), ("slow", 1));
    assert_eq!(
        refused.refused.retry_after,
        Some(Duration::from_secs(3_600))
    );
    assert_eq!(
        refused.to_string(),
        "slow: refused: not enough tokens are available yet"
    );
    assert_eq!(layers.peek(1).expect_err("both are empty"), refused);
    // A refusal that no wait helps counts as the longest; of two, the first.
    let refused = layers
        .try_acquire(2)
        .expect_err("more than either can have");
    assert_eq!(
        (refused.limit, refused.refused.retry_after),
        ("quick", None)
    );
    assert_eq!(wide.tokens(), 99.0);
}
