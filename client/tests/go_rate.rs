//! The contract of `golang.org/x/time/rate`, as that package's own tests state it,
//! held against [`Limiter`]: rows of data, in tenths of a second and whole tokens.
//!
//! The two agree but for one thing: there, a clock that steps back takes the limiter's
//! last instant back with it, and the same tenth is paid out again. Here it is not; a row
//! where the answers differ for that reason names theirs.

use aliquot_client::{Clock, Limit, Limiter, ManualClock, Reason, Reservation, Span, Tick};
use std::sync::Arc;
use std::time::Duration;

const TENTH: Duration = Duration::from_millis(100);

fn tick(tenths: u64) -> Tick {
    // Not at the clock's zero, so that nothing rests on that.
    Tick::from_nanos(7_000_000_007 + tenths * 100_000_000)
}

/// A limiter that is full at `start`, and its clock.
fn full(limit: Limit, burst: u64, start: u64) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    clock.set(tick(start));
    let limiter = Limiter::local_with(limit, burst, Arc::new(clock.clone()));
    (limiter.expect("a limit"), clock)
}

/// What is done at a tenth of a second, and what comes of it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// (cost, admitted)
    Allow(u64, bool),
    /// (cost, tenth to act at)
    Reserve(u64, Option<u64>),
    /// (cost, longest wait in tenths, tenth to act at)
    ReserveWithin(u64, u64, Option<u64>),
    /// (which of the reservations that were granted, tokens restored)
    Cancel(usize, u64),
    SetLimit(u64),
    SetBurst(u64),
    Unlimit,
    Tokens(f64),
}
use Step::{Allow, Cancel, Reserve, ReserveWithin, SetBurst, SetLimit, Tokens, Unlimit};

/// A limiter of `per_sec` and `burst`, full at tenth `start`, and rows of (tenth, step).
#[track_caller]
fn check(name: &str, per_sec: u64, burst: u64, start: u64, rows: &[(u64, Step)]) {
    let (limiter, _) = full(Limit::per_sec(per_sec), burst, start);
    let mut granted: Vec<Option<Reservation>> = Vec::new();
    for (row, &(at, step)) in rows.iter().enumerate() {
        let (now, at_row) = (tick(at), format!("{name}, row {row}: {step:?} at {at}"));
        let within = |n, most: Span| limiter.reserve_within_at(n, most, now).ok();
        let (reserved, expected) = match step {
            Allow(n, admitted) => {
                assert_eq!(limiter.try_acquire_at(n, now).is_ok(), admitted, "{at_row}");
                continue;
            }
            Cancel(which, restored) => {
                let reservation = granted[which].take().expect("not cancelled yet");
                assert_eq!(reservation.cancel_at(now), restored, "{at_row}");
                continue;
            }
            SetLimit(n) => {
                limiter
                    .set_limit_at(Limit::per_sec(n), now)
                    .expect("a limit");
                continue;
            }
            SetBurst(n) => {
                limiter.set_burst_at(n, now).expect("a burst");
                continue;
            }
            Unlimit => {
                limiter
                    .set_limit_at(Limit::UNLIMITED, now)
                    .expect("a limit");
                continue;
            }
            Tokens(expected) => {
                let tokens = limiter.tokens_at(now);
                assert!((tokens - expected).abs() < 1e-6, "{at_row}: {tokens}");
                continue;
            }
            Reserve(n, act) => (within(n, Span::MAX), act),
            ReserveWithin(n, most, act) => (within(n, Span::from_millis(100 * most)), act),
        };
        let act_at = reserved.as_ref().map(Reservation::act_at);
        assert_eq!(act_at, expected.map(tick), "{at_row}");
        if let Some(reservation) = reserved {
            let wait = expected.map_or(0, |act| act.saturating_sub(at));
            assert_eq!(reservation.delay_at(now), TENTH * wait as u32, "{at_row}");
            granted.push(Some(reservation));
        }
    }
}

#[test]
fn allow() {
    let one = [
        (0, true),
        (0, false),
        (0, false),
        (1, true),
        (1, false),
        (1, false),
    ];
    let mut rows: Vec<_> = one.map(|(at, ok)| (at, Allow(1, ok))).into();
    rows.extend([
        (2, Allow(2, false)),
        (2, Allow(1, true)),
        (2, Allow(1, false)),
    ]);
    check("a burst of one", 10, 1, 0, &rows);
    let rows = [
        (0, Allow(2, true)),
        (0, Allow(2, false)),
        (0, Allow(1, true)),
        (0, Allow(1, false)),
        (1, Allow(4, false)),
        (2, Allow(1, true)),
        (3, Allow(1, true)),
        (4, Allow(1, true)),
        (4, Allow(1, true)),
        (4, Allow(1, false)),
        (4, Allow(1, false)),
        (9, Allow(3, true)),
        (9, Allow(0, true)),
    ];
    check("a burst of three", 10, 3, 0, &rows);
    let rows = [
        (1, Allow(1, true)),
        (0, Allow(1, true)),
        (0, Allow(1, true)),
        (0, Allow(1, false)),
        (0, Allow(1, false)),
        (1, Allow(1, false)), // Theirs: true, the first tenth counted again.
        (1, Allow(1, false)),
        (1, Allow(1, false)),
        (2, Allow(1, true)),
        (2, Allow(1, false)),
        (2, Allow(1, false)),
    ];
    check("a clock that jumps back", 10, 3, 1, &rows);
}

#[test]
fn limits_at_the_edge() {
    let rows = [
        (0, Allow(1, true)),
        (0, Allow(1, false)),
        (999, Allow(1, false)),
        (999, Allow(0, true)),
    ];
    check("no rate", 0, 1, 0, &rows);
    check(
        "no rate, set later",
        0,
        1,
        0,
        &[
            (0, Allow(1, true)),
            (5, Allow(1, false)),
            (5, SetLimit(10)),
            (5, Allow(1, false)),
            (6, Allow(1, true)),
        ],
    );
    check(
        "no burst",
        10,
        0,
        0,
        &[
            (0, Allow(1, false)),
            (9, Allow(1, false)),
            (9, Allow(0, true)),
        ],
    );
    check(
        "no limit",
        10,
        0,
        0,
        &[
            (0, Unlimit),
            (0, Allow(u64::MAX, true)),
            (3, ReserveWithin(3, 0, Some(3))),
            (3, Cancel(0, 0)),
        ],
    );
    check(
        "a limit again",
        10,
        2,
        0,
        &[
            (0, Allow(2, true)),
            (0, Unlimit),
            (1, Allow(100, true)),
            (1, SetLimit(10)),
            (1, Allow(2, true)),
            (1, Allow(1, false)),
        ],
    );
}

#[test]
fn reserve() {
    check(
        "what is missing is waited for",
        10,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(2, Some(2))),
            (3, Reserve(2, Some(4))),
        ],
    );
    check(
        "one level",
        10,
        2,
        0,
        &[
            (0, Reserve(3, None)),
            (0, Reserve(2, Some(0))),
            (1, Allow(2, false)),
            (1, Reserve(2, Some(2))),
            (1, Allow(1, false)),
            (3, Allow(1, true)),
        ],
    );
    check(
        "a refusal takes nothing",
        10,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(3, None)),
            (0, Reserve(2, Some(2))),
        ],
    );
    check(
        "jumps back",
        10,
        2,
        1,
        &[
            (1, Reserve(2, Some(1))),
            (0, Reserve(1, Some(2))), // Theirs: 1.
            (2, Reserve(2, Some(4))), // Theirs: 3.
        ],
    );
    check(
        "no longer than this",
        10,
        2,
        0,
        &[
            (0, ReserveWithin(2, 1, Some(0))),
            (0, ReserveWithin(1, 1, Some(1))),
            (0, ReserveWithin(1, 1, None)),
            (0, Tokens(-1.0)),
            (2, Tokens(1.0)),
        ],
    );
}

#[test]
fn cancel() {
    check(
        "the last",
        10,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(2, Some(2))),
            (1, Cancel(1, 2)),
            (1, Reserve(2, Some(2))),
        ],
    );
    check(
        "too late",
        10,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(2, Some(2))),
            (3, Cancel(1, 0)),
            (3, Reserve(2, Some(4))),
        ],
    );
    check(
        "none of it",
        10,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(1, Some(1))),
            (0, Reserve(1, Some(2))),
            (0, Cancel(1, 0)),
            (0, Reserve(1, Some(3))),
        ],
    );
    check(
        "some of it",
        10,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(2, Some(2))),
            (0, Reserve(1, Some(3))),
            (2, Cancel(1, 1)),
            (2, Reserve(2, Some(4))),
        ],
    );
    check(
        "several",
        10,
        4,
        0,
        &[
            (0, Reserve(4, Some(0))),
            (0, Reserve(3, Some(3))),
            (0, Reserve(1, Some(4))),
            (0, Reserve(1, Some(5))),
            (1, Cancel(3, 1)),
            (1, Cancel(1, 2)), // As if the last had never been.
            (1, Reserve(3, Some(5))),
        ],
    );
    check(
        "jumps back",
        10,
        2,
        1,
        &[
            (1, Reserve(2, Some(1))),
            (1, Reserve(2, Some(3))),
            (1, Reserve(1, Some(4))),
            (0, Cancel(1, 1)),
            (1, Reserve(2, Some(5))), // Theirs: 4.
        ],
    );
}

#[test]
fn set_limit_and_burst() {
    check(
        "a new rate",
        5,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(2, Some(4))),
            (2, SetLimit(10)),
            (2, Reserve(2, Some(5))),
        ],
    );
    check(
        "a new burst arrives empty",
        5,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(2, Some(4))),
            (3, SetBurst(4)),
            (0, Reserve(4, Some(12))), // Theirs: 9, counted from the tick stepped back to.
        ],
    );
    check(
        "a new rate, and a cancellation",
        5,
        2,
        0,
        &[
            (0, Reserve(2, Some(0))),
            (0, Reserve(2, Some(4))),
            (2, SetLimit(10)),
            (2, Cancel(1, 2)),
            (2, Reserve(2, Some(3))),
        ],
    );
    check(
        "a smaller burst cuts",
        10,
        5,
        0,
        &[
            (0, SetBurst(2)),
            (0, Tokens(2.0)),
            (0, Allow(3, false)),
            (0, Allow(2, true)),
            (0, SetBurst(5)),
            (1, Tokens(1.0)),
        ],
    );
}

#[test]
fn a_fractional_rate_loses_nothing_to_truncation() {
    let thirteen = Duration::from_secs(13);
    let (limiter, _) = full(Limit::per(10, thirteen), 1, 0);
    limiter.try_acquire_at(1, tick(0)).expect("one");
    let refused = limiter
        .try_acquire_at(1, tick(0))
        .expect_err("one, and taken");
    let wait = refused.retry_after.expect("a wait").as_nanos();
    assert!((1_300_000_000..=1_300_000_001).contains(&wait), "{wait}");
    let float = Limit::per_sec_f64(10.0 / 13.0).expect("a rate");
    let (limiter, _) = full(float, 1, 0);
    limiter.try_acquire_at(1, tick(0)).expect("one");
    assert!(limiter.try_acquire_at(1, tick(14)).is_ok());
    assert_eq!(Limit::per_sec_f64(f64::INFINITY), Ok(Limit::UNLIMITED));
    for wrong in [-1.0, f64::NAN, 1e13] {
        assert!(Limit::per_sec_f64(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn of_fifteen_at_once_a_burst_of_five_admits_five() {
    let (limiter, _) = full(Limit::per_sec(1), 5, 0);
    let threads: Vec<_> = (0..15)
        .map(|_| {
            let limiter = limiter.clone();
            std::thread::spawn(move || limiter.try_acquire(1).is_ok())
        })
        .collect();
    let admitted = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"));
    assert_eq!(admitted.filter(|&admitted| admitted).count(), 5);
}

#[test]
fn five_seconds_at_five_times_the_rate_admit_the_rate_and_the_burst() {
    let (limiter, _) = full(Limit::per_sec(100), 100, 0);
    let every_two_ms = (0..=2_500).map(|step| tick(0).after(Span::from_millis(2 * step)));
    let admitted = every_two_ms.filter(|&now| limiter.try_acquire_at(1, now).is_ok());
    assert_eq!(admitted.count(), 600);
}

#[test]
fn a_word_that_is_full_goes_on() {
    // A year at the highest rate that a word was made for, and two years of rest.
    let (limiter, _) = full(Limit::per_sec(1 << 39), 1 << 39, 0);
    let day = |days: u64| tick(0).after(Span::from_secs(86_400 * days));
    for days in (0..365).chain([1_095]) {
        limiter
            .try_acquire_at(1 << 39, day(days))
            .expect("full again");
        assert!(limiter.try_acquire_at(1 << 38, day(days)).is_err());
    }
}

/// Rows of their `Wait`: (cost, wait at most in tenths, waits in tenths; `None`: refused at once).
#[tokio::test]
async fn wait() {
    for (limit, burst, rows) in [
        (
            Limit::per_sec(10),
            3,
            vec![
                (4, None, None), // More than the burst.
                (2, Some(0), Some(0)),
                (3, Some(1), None), // Not within the deadline.
                (3, None, Some(2)),
            ],
        ),
        (Limit::per_sec(10), 0, vec![(1, None, None)]),
        (Limit::UNLIMITED, 0, vec![(100, Some(0), Some(0))]),
        (Limit::ZERO, 3, vec![(3, None, Some(0)), (1, None, None)]),
    ] {
        let (limiter, clock) = full(limit, burst, 0);
        for (n, most, waits) in rows {
            let began = clock.now();
            let waiting = {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    match most {
                        Some(most) => limiter.acquire_within(n, TENTH * most).await,
                        None => limiter.acquire(n).await,
                    }
                })
            };
            let Some(waits) = waits else {
                assert!(
                    waiting.await.expect("no panic").is_err(),
                    "{n} within {most:?}"
                );
                continue;
            };
            if waits > 0 {
                tokio::task::yield_now().await;
                assert!(!waiting.is_finished());
                clock.advance(TENTH * waits);
            }
            let waiting = tokio::time::timeout(Duration::from_secs(10), waiting).await;
            let admission = waiting.expect("woken").expect("no panic").expect("in time");
            let due = began.after(Span::from_millis(100 * u64::from(waits)));
            assert_eq!(admission.decided_at, due);
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_called_off_leaves_the_level_as_it_was() {
    let (limiter, clock) = full(Limit::per_sec(10), 3, 0);
    limiter.try_acquire(2).expect("two");
    let waiting = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(3).await })
    };
    tokio::task::yield_now().await;
    assert!(limiter.tokens() < 0.0);
    clock.advance(TENTH);
    waiting.abort();
    assert!(waiting.await.is_err());
    assert!(
        (limiter.tokens() - 2.0).abs() < 1e-6,
        "{}",
        limiter.tokens()
    );
}

#[tokio::test]
async fn who_waits_first_is_served_first_whoever_comes_later() {
    let (limiter, clock) = full(Limit::per_sec(10), 3, 0);
    limiter.try_acquire(3).expect("three");
    let waiting = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(3).await })
    };
    tokio::task::yield_now().await;
    clock.advance(TENTH);
    let late = limiter.try_acquire(1).expect_err("it was promised");
    assert_eq!(late.reason, Reason::Throttled);
    assert_eq!(late.retry_after, Some(3 * TENTH));
    clock.advance(2 * TENTH);
    assert!(waiting.await.expect("no panic").is_ok());
}

#[test]
fn what_is_out_of_range_is_named() {
    let wrong = |limit, burst| {
        Limiter::local(limit, burst)
            .expect_err("out of range")
            .to_string()
    };
    assert!(wrong(Limit::per_sec(1 << 50), 1).starts_with("rate: 1125899906842624 tokens per 1s"));
    assert!(wrong(Limit::per(1, Duration::ZERO), 1).starts_with("rate: 1 tokens per 0ns"));
    assert!(wrong(Limit::per_sec(1), u64::MAX).starts_with("burst: 18446744073709551615; at most"));
}
