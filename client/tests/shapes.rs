//! The shapes against their bounds: each bound holds in every window, is reached where the documentation says
//! so, and the exact shapes equal a naive model.

use aliquot_client::clock::{Span, Tick};
use aliquot_client::combined::{Combine, Receipt};
use aliquot_client::shape::{FixedWindow, Meter, Pacer, ShapeError, SlidingCounter, SlidingLog};
use aliquot_client::{Limit, Limiter, ManualClock, Reason};
use proptest::prelude::*;
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

/// Returns what is admitted of these requests: (ms, cost).
fn admitted(asks: &[(u64, u64)], take: impl Fn(u64, Tick) -> bool) -> Vec<(u64, u64)> {
    let mut now = 0;
    let asks = asks.iter().map(|&(gap, n)| {
        now += gap;
        (now, n)
    });
    asks.filter(|&(ms, n)| take(n, at(ms))).collect()
}

/// Returns the maximum in any window of a second, open at its end.
fn most_in_a_second(admitted: &[(u64, u64)]) -> u64 {
    let from = |first: usize| {
        let end = admitted[first].0 + 1_000;
        let within = admitted[first..].iter().take_while(|(ms, _)| *ms < end);
        within.map(|(_, n)| n).sum()
    };
    (0..admitted.len()).map(from).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_log_is_exact(asks in asks(), limit in 1..8_u64) {
        let log = SlidingLog::new(limit, SECOND).expect("a log");
        let taken = admitted(&asks, |n, now| log.try_acquire_at(n, now).is_ok());
        prop_assert!(most_in_a_second(&taken) <= limit);
        // It refuses nothing that fits.
        let (mut now, mut naive) = (0, Vec::<(u64, u64)>::new());
        for (gap, n) in asks {
            now += gap;
            let recent = naive.iter().filter(|(ms, _)| ms + 1_000 > now);
            if recent.map(|(_, n)| n).sum::<u64>() + n <= limit {
                naive.push((now, n));
            }
        }
        prop_assert_eq!(taken, naive);
    }

    #[test]
    fn a_fixed_window_holds_its_limit_on_the_grid_and_twice_that_off_it(
        asks in asks(), limit in 1..8_u64,
    ) {
        let window = FixedWindow::new(limit, SECOND).expect("a window");
        let taken = admitted(&asks, |n, now| window.try_acquire_at(n, now).is_ok());
        prop_assert!(most_in_a_second(&taken) <= 2 * limit);
        for second in 0..100 {
            let within = taken.iter().filter(|(ms, _)| ms / 1_000 == second);
            prop_assert!(within.map(|(_, n)| n).sum::<u64>() <= limit);
        }
    }

    #[test]
    fn a_counter_keeps_to_its_estimate_and_to_its_bound(asks in asks(), limit in 1..8_u64) {
        let counter = SlidingCounter::new(limit, SECOND).expect("a counter");
        let (mut now, mut taken) = (0, Vec::<(u64, u64)>::new());
        for (gap, n) in asks {
            now += gap;
            let of = |second: u64| -> u64 {
                let within = taken.iter().filter(|(ms, _)| ms / 1_000 + 1 == second + 1);
                within.filter(|(ms, _)| ms / 1_000 == second).map(|(_, n)| n).sum()
            };
            let (second, gone) = (now / 1_000, now % 1_000);
            let previous = second.checked_sub(1).map_or(0, of);
            let estimate = (previous * (1_000 - gone)).div_ceil(1_000) + of(second);
            let fits = estimate + n <= limit;
            let answer = counter.try_acquire_at(n, at(now));
            prop_assert_eq!(answer.is_ok(), fits, "{} at {}", n, now);
            if fits {
                taken.push((now, n));
                let recent = taken.iter().filter(|(ms, _)| ms + 1_000 > now);
                let recent: u64 = recent.map(|(_, n)| n).sum();
                // limit + prev · f
                prop_assert!(recent * 1_000 <= limit * 1_000 + previous * gone);
            } else if let Some(wait) = answer.expect_err("refused").retry_after {
                // Without other requests there is room then, and not a nanosecond before. A later look would
                // begin another window, so each look uses a counter of its own.
                let later = |less| {
                    let same = SlidingCounter::new(limit, SECOND).expect("a counter");
                    let again = |&(ms, n): &(u64, u64)| same.try_acquire_at(n, at(ms)).is_ok();
                    let wait = Span::from_nanos(wait.as_nanos() as u64 - less);
                    taken.iter().all(again) && same.peek_at(n, at(now).after(wait)).is_ok()
                };
                prop_assert!(later(0) && !later(1), "{} at {}: {:?}", n, now, wait);
            }
        }
        prop_assert!(most_in_a_second(&taken) < 2 * limit || limit == 0);
    }

    #[test]
    fn a_meter_is_a_leaky_bucket(asks in asks(), leak in 1..10_u64, capacity in 1..8_u64) {
        let clock = ManualClock::new();
        clock.set(at(0));
        let meter = Meter::with_clock(Limit::per_sec(leak), capacity, Arc::new(clock));
        let meter = meter.expect("a meter");
        // In thousandths, since `leak` of them leak per millisecond.
        let (mut now, mut level) = (0, 0_u64);
        for (gap, n) in asks {
            now += gap;
            level = level.saturating_sub(leak * gap);
            let fits = level + n * 1_000 <= capacity * 1_000;
            prop_assert_eq!(meter.try_pour_at(n, at(now)).is_ok(), fits, "{} at {}", n, now);
            level += if fits { n * 1_000 } else { 0 };
            prop_assert!((meter.level_at(at(now)) - level as f64 / 1e3).abs() < 1e-9);
        }
    }

    #[test]
    fn a_pacer_spaces_strictly_first_come_first_served(
        gaps in prop::collection::vec(0..300_u64, 1..60), queue in 0..5_u64, gives_up in any::<u64>(),
    ) {
        let pacer = Pacer::new(Duration::from_millis(100), queue).expect("a pacer");
        let (mut now, mut turns) = (0, Vec::new());
        for (step, gap) in gaps.into_iter().enumerate() {
            now += gap;
            match pacer.book_at(at(now)) {
                Ok(turn) if gives_up >> (step % 64) & 1 == 1 => prop_assert!(turn.cancel()),
                Ok(turn) => {
                    prop_assert!(turn.delay_at(at(now)) <= Duration::from_millis(100 * queue));
                    turns.push(turn.at());
                }
                Err(refused) => {
                    let wait = refused.retry_after.expect("a wait").as_nanos() as u64;
                    let then = at(now).after(Span::from_nanos(wait));
                    prop_assert!(pacer.book_at(then).is_ok_and(|turn| turn.cancel()));
                }
            }
        }
        for pair in turns.windows(2) {
            prop_assert!(pair[1].since(pair[0]) >= Span::from_millis(100));
        }
    }

    /// Parts that sum up to a limit, dealt again a window after they were taken away, act like one log.
    #[test]
    fn parts_of_a_window_add_up_to_the_whole(
        asks in asks(), places in prop::collection::vec(0..3_usize, 80),
    ) {
        let parts = [2, 3, 1].map(|part| SlidingLog::new(part, SECOND).expect("a log"));
        let place = std::cell::Cell::new(0);
        let taken = admitted(&asks, |n, now| {
            place.set(place.get() + 1);
            parts[places[place.get() - 1]].try_acquire_at(n, now).is_ok()
        });
        prop_assert!(most_in_a_second(&taken) <= 6);
    }

    /// A log with refunds equals one that was never asked for the refunded tokens.
    #[test]
    fn an_entry_put_back_into_a_log_leaves_no_trace(
        asks in asks(), limit in 1..8_u64, back in prop::collection::vec((any::<bool>(), any::<usize>(), 1..4_u64), 80),
    ) {
        let log = SlidingLog::new(limit, SECOND).expect("a log");
        let (mut now, mut naive) = (0, Vec::<(u64, u64, Receipt)>::new());
        for ((gap, n), (puts, which, less)) in asks.into_iter().zip(back) {
            now += gap;
            let recent = |naive: &[(u64, u64, Receipt)]| -> u64 {
                naive.iter().filter(|(ms, _, _)| ms + 1_000 > now).map(|(_, n, _)| n).sum()
            };
            let fits = recent(&naive) + n <= limit;
            let taken = log.take_at(n, at(now));
            prop_assert_eq!(taken.is_ok(), fits, "{} at {}", n, now);
            naive.extend(taken.ok().map(|receipt| (now, n, receipt)));
            if puts && let Some(which) = which.checked_rem(naive.len()) {
                let (ms, left, receipt) = &mut naive[which];
                let rest = less.min(*left);
                let restored = log.put_back_at(receipt, rest, at(now));
                prop_assert_eq!(restored, if *ms + 1_000 > now { rest } else { 0 });
                *left -= restored;
            }
            for n in 0..=limit {
                let fits = recent(&naive) + n <= limit;
                prop_assert_eq!(log.peek_at(n, at(now)).is_ok(), fits, "{} of {} at {}", n, limit, now);
            }
        }
    }
}

/// Threads take and refund while time advances: no window of a log contains more than its limit.
#[test]
fn whatever_threads_put_back_no_window_of_a_log_holds_more_than_the_limit() {
    const LIMIT: u64 = 8;
    let log = SlidingLog::new(LIMIT, Duration::from_micros(20)).expect("a log");
    let now = AtomicU64::new(START);
    let threads = std::thread::scope(|scope| {
        let threads = [1_u64, 2, 3, 4].map(|seed| {
            let (log, now) = (&log, &now);
            scope.spawn(move || {
                let (mut state, mut kept) = (seed, Vec::new());
                for _ in 0..20_000 {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let reading = Tick::from_nanos(now.fetch_add(state >> 54, Ordering::SeqCst));
                    let Ok(receipt) = log.take_at(1 + (state >> 40) % 3, reading) else {
                        continue;
                    };
                    let back = match (state >> 48) % 4 {
                        0 => receipt.tokens(),
                        1 => 1,
                        _ => 0,
                    };
                    let back = log.put_back_at(&receipt, back, reading);
                    kept.push((receipt.window().expect("a time"), receipt.tokens() - back));
                }
                kept
            })
        });
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let mut kept: Vec<_> = threads.into_iter().flatten().collect();
    kept.sort_unstable();
    let mut first = 0;
    let mut within = 0;
    for &(time, n) in &kept {
        within += n;
        while kept[first].0 + 20_000 <= time {
            within -= kept[first].1;
            first += 1;
        }
        assert!(
            within <= LIMIT,
            "{within} in the window that ends at {time}"
        );
    }
    assert!(kept.len() > 1_000, "some stand: {}", kept.len());
}

#[test]
fn the_bounds_are_attained() {
    let window = FixedWindow::new(5, SECOND).expect("a window");
    for ms in [999, 1_000] {
        assert!(window.try_acquire_at(5, at(ms)).is_ok());
    }
    let counter = SlidingCounter::new(1_000, SECOND).expect("a counter");
    assert!(counter.try_acquire_at(1_000, at(999)).is_ok());
    assert!(counter.try_acquire_at(1, at(1_000)).is_err());
    // limit + prev · f, with f = 0.998.
    assert!(counter.try_acquire_at(998, at(1_998)).is_ok());
    assert!(counter.try_acquire_at(1, at(1_998)).is_err());
}

#[test]
fn a_clock_that_steps_back_opens_no_window_again() {
    let window = FixedWindow::new(1, SECOND).expect("a window");
    let counter = SlidingCounter::new(1, SECOND).expect("a counter");
    let log = SlidingLog::new(1, SECOND).expect("a log");
    let tiers: [&dyn Combine; 3] = [&window, &counter, &log];
    for (tier, free) in tiers.into_iter().zip([6_000, 7_000, 6_000].map(at)) {
        assert!(tier.take_at(1, at(5_000)).is_ok());
        for ms in [4_999, 4_000, 0, 5_000, 5_001] {
            let refused = tier.take_at(1, at(ms)).expect_err("it is taken");
            // At a late reading the wait is longer.
            let wait = Duration::from_nanos(free.since(at(ms)).nanos());
            assert_eq!(refused.retry_after, Some(wait), "{tier:?} at {ms}");
        }
        let just_before = Tick::from_nanos(free.nanos() - 1);
        assert!(tier.take_at(1, just_before).is_err());
        assert!(tier.take_at(1, free).is_ok());
    }
}

#[test]
fn values_out_of_range_are_named() {
    let limit = FixedWindow::new(0, SECOND).expect_err("out of range");
    assert_eq!(limit.to_string(), "limit: 0; 1 to 16777215 are allowed");
    let length = SlidingLog::new(1, Duration::ZERO).expect_err("out of range");
    assert_eq!(length.to_string(), "length: 0ns; 1µs to a year are allowed");
    let interval = Pacer::new(400 * 86_400 * SECOND, 1).expect_err("out of range");
    assert!(matches!(
        interval,
        ShapeError::Span {
            what: "interval",
            ..
        }
    ));
    let window = FixedWindow::new(5, SECOND).expect("a window");
    let refused = window.try_acquire(6).expect_err("more than ever");
    assert_eq!(
        (refused.reason, refused.retry_after),
        (Reason::ExceedsBurst, None)
    );
}

#[tokio::test]
async fn a_cancelled_turn_of_a_pacer_goes_to_the_next() {
    let clock = ManualClock::new();
    let pacer = Pacer::with_clock(SECOND, 3, Arc::new(clock.clone())).expect("a pacer");
    pacer.turn().await.expect("the first is due at once");
    let waiting = {
        let pacer = pacer.clone();
        tokio::spawn(async move { pacer.turn().await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    waiting.abort();
    assert!(waiting.await.is_err());
    let next = tokio::spawn(async move { pacer.turn().await });
    tokio::task::yield_now().await;
    clock.advance(SECOND);
    assert_eq!(next.await.expect("no panic"), Ok(()));
}

/// Concurrent threads on one window: exactly the limit is admitted.
#[test]
fn threads_together_get_the_limit_and_no_more() {
    let window = FixedWindow::new(1_000, SECOND).expect("a window");
    let counter = SlidingCounter::new(1_000, SECOND).expect("a counter");
    let log = SlidingLog::new(1_000, SECOND).expect("a log");
    let tiers: [Arc<dyn Combine>; 3] = [Arc::new(window), Arc::new(counter), Arc::new(log)];
    for tier in tiers {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let tier = Arc::clone(&tier);
                std::thread::spawn(move || {
                    let taken = (0..1_000).filter(|step| tier.take_at(1, at(step / 10)).is_ok());
                    taken.count()
                })
            })
            .collect();
        let taken = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        assert_eq!(taken.sum::<usize>(), 1_000, "{tier:?}");
    }
}

#[tokio::test]
async fn permits_are_never_more_in_flight_than_there_are() {
    let limiter = Limiter::local_permits(2).expect("permits");
    let (one, two) = (limiter.try_permit(), limiter.try_permit());
    assert_eq!(
        limiter.try_permit().expect_err("two are out").reason,
        Reason::Permits
    );
    limiter.set_burst(1).expect("fewer");
    drop(one);
    assert!(limiter.try_permit().is_err(), "one is still out");
    let waiting = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.permit().await.is_ok() })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(two);
    assert!(waiting.await.expect("no panic"));
    limiter.set_burst(3).expect("more");
    let taken: Vec<_> = (0..4).map(|_| limiter.try_permit()).collect();
    assert_eq!(taken.iter().filter(|permit| permit.is_ok()).count(), 3);
    assert!(limiter.set_limit(Limit::ZERO).is_err());
    assert_eq!(
        limiter.try_acquire(1).expect_err("permits").reason,
        Reason::WrongKind
    );
}

/// Returns what is left and the milliseconds until nothing is used.
fn describe(limit: &impl Combine, ms: u64) -> (u64, u128) {
    let info = limit.info_at(at(ms)).expect("a limit");
    (info.remaining, info.reset.expect("a time").as_millis())
}

#[test]
fn windows_tell_what_is_left_and_when_they_are_empty() {
    let fixed = FixedWindow::new(10, SECOND).expect("a window");
    assert_eq!(describe(&fixed, 5_000), (10, 0));
    fixed.try_acquire_at(3, at(5_100)).expect("room");
    assert_eq!(describe(&fixed, 5_400), (7, 600));
    assert_eq!(describe(&fixed, 6_000), (10, 0));

    let log = SlidingLog::new(10, SECOND).expect("a log");
    assert_eq!(describe(&log, 5_000), (10, 0));
    log.try_acquire_at(3, at(5_000)).expect("room");
    log.try_acquire_at(5, at(5_500)).expect("room");
    assert_eq!(describe(&log, 5_600), (2, 900));
    assert_eq!(describe(&log, 5_999), (2, 501));
    assert_eq!(describe(&log, 6_000), (5, 500));
    assert_eq!(describe(&log, 6_500), (10, 0));

    let counter = SlidingCounter::new(10, SECOND).expect("a counter");
    assert_eq!(describe(&counter, 5_000), (10, 0));
    counter.try_acquire_at(4, at(5_000)).expect("room");
    assert_eq!(describe(&counter, 5_500), (6, 1_500));
    assert_eq!(describe(&counter, 6_500), (8, 500));
    assert_eq!(describe(&counter, 7_000), (10, 0));
}

/// A pacer among several limits does not wait, and gives the last turns back.
#[test]
fn a_pacer_combines_with_other_limits() {
    let pacer = Pacer::new(Duration::from_millis(100), 9).expect("a pacer");
    let info = pacer.info_at(at(5_000)).expect("a limit");
    assert_eq!((info.limit, info.window, info.remaining), (10, Some(1), 1));
    let taken = pacer.take_at(3, at(5_000)).expect("due now");
    assert_eq!(describe(&pacer, 5_100), (0, 200));
    let refused = pacer.take_at(1, at(5_100)).expect_err("not due");
    assert_eq!(refused.retry_after, Some(Duration::from_millis(200)));
    assert_eq!(pacer.peek_at(1, at(5_100)), Err(refused));
    assert_eq!(pacer.put_back_at(&taken, 2, at(5_100)), 2);
    assert_eq!(describe(&pacer, 5_100), (1, 0));
    assert_eq!(pacer.put_back_at(&taken, 1, at(5_100)), 0, "not the last");
    assert!(pacer.take_at(1, at(5_100)).is_ok());
    // Whole intervals apart, for every caller.
    assert_eq!(pacer.book_at(at(5_100)).expect("a turn").at(), at(5_200));
}

#[test]
fn a_cost_above_a_window_names_both() {
    let fixed = FixedWindow::new(10, SECOND).expect("a window");
    let refused = fixed.try_acquire_at(11, at(0)).expect_err("too much");
    assert!(refused.is_never());
    let text = "refused: more than can be admitted at once: the cost is 11, and the burst 10";
    assert_eq!(refused.to_string(), text);
    let log = SlidingLog::new(10, SECOND).expect("a log");
    assert_eq!(log.try_acquire_at(11, at(0)), Err(refused));
    let counter = SlidingCounter::new(10, SECOND).expect("a counter");
    assert_eq!(counter.try_acquire_at(11, at(0)), Err(refused));
}

/// An admission leaves the window after exactly its length: what is put back then is no longer there to be had.
#[test]
fn an_admission_that_has_left_the_window_is_not_put_back() {
    let second = Duration::from_secs(1);
    for (after, restored) in [(999_999_999, 1), (1_000_000_000, 0)] {
        let log = SlidingLog::new(2, second).expect("a log");
        let at = |nanos: u64| Tick::from_nanos(1_000_000_000_000 + nanos);
        let first = log.take_at(1, at(0)).expect("room");
        log.take_at(1, at(after)).expect("room");
        assert_eq!(log.put_back_at(&first, 1, at(after)), restored, "{after}");
    }
}
