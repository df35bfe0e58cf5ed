//! The contract of `golang.org/x/time/rate`, as the tests of that package state it, applied to [`Limiter`]:
//! rows of data, in tenths of a second and whole tokens.
//!
//! The two differ in one point. In Go, a clock that steps back takes the limiter's last instant back with it,
//! so that the same tenth is replenished again. Here it is not; a row where the answers differ for that
//! reason names Go's.

mod script;
mod wait;

use aliquot_client::clock::{Span, Tick};
use aliquot_client::{Limit, LimitError, Limiter, ManualClock};
use script::check;
use std::sync::Arc;
use std::time::Duration;

const TENTH: Duration = Duration::from_millis(100);

fn tick(tenths: u64) -> Tick {
    // Not the clock's zero, so that nothing depends on that.
    Tick::from_nanos(7_000_000_007 + tenths * 100_000_000)
}

/// Returns a limiter that is full at `start`, and its clock.
fn full(limit: Limit, burst: u64, start: u64) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    clock.set(tick(start));
    let limiter = Limiter::local_with(limit, burst, Arc::new(clock.clone()));
    (limiter.expect("a limit"), clock)
}

#[test]
fn allow() {
    check(
        "a burst of one",
        (10, 1, 0),
        "0 allow 1 yes
         0 allow 1 no
         0 allow 1 no
         1 allow 1 yes
         1 allow 1 no
         1 allow 1 no
         2 allow 2 no
         2 allow 1 yes
         2 allow 1 no",
    );
    check(
        "a burst of three",
        (10, 3, 0),
        "0 allow 2 yes
         0 allow 2 no
         0 allow 1 yes
         0 allow 1 no
         1 allow 4 no
         2 allow 1 yes
         3 allow 1 yes
         4 allow 1 yes
         4 allow 1 yes
         4 allow 1 no
         4 allow 1 no
         9 allow 3 yes
         9 allow 0 yes",
    );
    check(
        "a clock that jumps back",
        (10, 3, 1),
        "1 allow 1 yes
         0 allow 1 yes
         0 allow 1 yes
         0 allow 1 no
         0 allow 1 no
         1 allow 1 no # Theirs: true, the first tenth counted again.
         1 allow 1 no
         1 allow 1 no
         2 allow 1 yes
         2 allow 1 no
         2 allow 1 no",
    );
}

#[test]
fn limits_at_the_edge() {
    check(
        "no rate",
        (0, 1, 0),
        "0 allow 1 yes
         0 allow 1 no
         999 allow 1 no
         999 allow 0 yes",
    );
    check(
        "no rate, set later",
        (0, 1, 0),
        "0 allow 1 yes
         5 allow 1 no
         5 limit 10
         5 allow 1 no
         6 allow 1 yes",
    );
    check(
        "no burst",
        (10, 0, 0),
        "0 allow 1 no
         9 allow 1 no
         9 allow 0 yes",
    );
    check(
        "no limit",
        (10, 0, 0),
        "0 unlimit
         0 allow 18446744073709551615 yes
         3 reserve 3 at 3 within 0
         3 cancel 0 restores 0",
    );
    check(
        "a limit again",
        (10, 2, 0),
        "0 allow 2 yes
         0 unlimit
         1 allow 100 yes
         1 limit 10
         1 allow 2 yes
         1 allow 1 no",
    );
}

#[test]
fn reserve() {
    check(
        "what is missing is waited for",
        (10, 2, 0),
        "0 reserve 2 at 0
         0 reserve 2 at 2
         3 reserve 2 at 4",
    );
    check(
        "one level",
        (10, 2, 0),
        "0 reserve 3 no
         0 reserve 2 at 0
         1 allow 2 no
         1 reserve 2 at 2
         1 allow 1 no
         3 allow 1 yes",
    );
    check(
        "a refusal takes nothing",
        (10, 2, 0),
        "0 reserve 2 at 0
         0 reserve 3 no
         0 reserve 2 at 2",
    );
    check(
        "jumps back",
        (10, 2, 1),
        "1 reserve 2 at 1
         0 reserve 1 at 2 # Theirs: 1.
         2 reserve 2 at 4 # Theirs: 3.",
    );
    check(
        "no longer than this",
        (10, 2, 0),
        "0 reserve 2 at 0 within 1
         0 reserve 1 at 1 within 1
         0 reserve 1 no within 1
         0 tokens -1.0
         2 tokens 1.0",
    );
}

#[test]
fn cancel() {
    check(
        "the last",
        (10, 2, 0),
        "0 reserve 2 at 0
         0 reserve 2 at 2
         1 cancel 1 restores 2
         1 reserve 2 at 2",
    );
    check(
        "too late",
        (10, 2, 0),
        "0 reserve 2 at 0
         0 reserve 2 at 2
         3 cancel 1 restores 0
         3 reserve 2 at 4",
    );
    check(
        "none of it",
        (10, 2, 0),
        "0 reserve 2 at 0
         0 reserve 1 at 1
         0 reserve 1 at 2
         0 cancel 1 restores 0
         0 reserve 1 at 3",
    );
    check(
        "before a later one",
        (10, 2, 0),
        "0 reserve 2 at 0
         0 reserve 2 at 2
         0 reserve 1 at 3
         2 cancel 1 restores 0 # Theirs: 1, of which a second one before the same tick is too much.
         2 reserve 2 at 5",
    );
    check(
        "several",
        (10, 4, 0),
        "0 reserve 4 at 0
         0 reserve 3 at 3
         0 reserve 1 at 4
         0 reserve 1 at 5
         1 cancel 3 restores 1
         1 cancel 2 restores 1 # As if the last had never been.
         1 cancel 1 restores 3
         1 reserve 3 at 3",
    );
    check(
        "jumps back",
        (10, 2, 1),
        "1 reserve 2 at 1
         1 reserve 2 at 3
         1 reserve 1 at 4
         0 cancel 1 restores 0 # Theirs: 1.
         1 reserve 2 at 6",
    );
}

#[test]
fn set_limit_and_burst() {
    check(
        "a new rate",
        (5, 2, 0),
        "0 reserve 2 at 0
         0 reserve 2 at 4
         2 limit 10
         2 reserve 2 at 5",
    );
    check(
        "a new burst arrives empty",
        (5, 2, 0),
        "0 reserve 2 at 0
         0 reserve 2 at 4
         3 burst 4
         0 reserve 4 at 12 # Theirs: 9, counted from the tick stepped back to.",
    );
    check(
        "a new rate, and a cancellation",
        (5, 2, 0),
        "0 reserve 2 at 0
         0 reserve 2 at 4
         2 limit 10
         2 cancel 1 restores 2
         2 reserve 2 at 3",
    );
    check(
        "a smaller burst cuts",
        (10, 5, 0),
        "0 burst 2
         0 tokens 2.0
         0 allow 3 no
         0 allow 2 yes
         0 burst 5
         1 tokens 1.0",
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
    // A year at the highest rate for which a word has room, then two years of rest.
    let (limiter, _) = full(Limit::per_sec(1 << 39), 1 << 39, 0);
    let day = |days: u64| tick(0).after(Span::from_secs(86_400 * days));
    for days in (0..365).chain([1_095]) {
        limiter
            .try_acquire_at(1 << 39, day(days))
            .expect("full again");
        assert!(limiter.try_acquire_at(1 << 38, day(days)).is_err());
    }
}

#[test]
fn values_out_of_range_are_named() {
    let wrong = |limit, burst| {
        Limiter::local(limit, burst)
            .expect_err("out of range")
            .to_string()
    };
    assert!(wrong(Limit::per_sec(1 << 50), 1).starts_with("rate: 1125899906842624 tokens per 1s"));
    assert!(wrong(Limit::per(1, Duration::ZERO), 1).starts_with("rate: 1 tokens per 0ns"));
    assert!(wrong(Limit::per_sec(1), u64::MAX).starts_with("burst: 18446744073709551615; at most"));
}

/// That package's table for `Every`: one token per span, and not a nanosecond sooner. A span of zero means no
/// limit there; here it is out of range, and the limit is [`Limit::UNLIMITED`]. So is their last row, of 292
/// years. A negative span cannot be expressed here.
#[test]
fn every() {
    const MILLI: u64 = 1_000_000;
    let table = [
        1,
        1_000,
        MILLI,
        10 * MILLI,
        100 * MILLI,
        1_000 * MILLI,
        2_000 * MILLI,
        2_500 * MILLI,
        4_000 * MILLI,
        10_000 * MILLI,
    ];
    for nanos in table {
        let (limiter, _) = full(Limit::every(Duration::from_nanos(nanos)), 1, 0);
        let at = |nanos| Tick::from_nanos(tick(0).nanos() + nanos);
        assert!(limiter.try_acquire_at(1, at(0)).is_ok(), "{nanos}");
        assert!(limiter.try_acquire_at(1, at(nanos - 1)).is_err(), "{nanos}");
        assert!(limiter.try_acquire_at(1, at(nanos)).is_ok(), "{nanos}");
    }
    for span in [
        Duration::ZERO,
        Duration::from_nanos(i64::MAX.cast_unsigned()),
    ] {
        let limit = Limiter::local(Limit::every(span), 1);
        assert!(matches!(limit, Err(LimitError::Rate { .. })), "{span:?}");
    }
}
