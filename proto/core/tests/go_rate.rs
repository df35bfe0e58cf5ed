//! The contract of `golang.org/x/time/rate`, as that package's own tests state it, written as rows of data.
//! Ticks are tenths of a second, costs are tokens.
//!
//! The two agree except for one case: there, a clock that steps back takes the limiter's last instant back
//! with it, and the same tenth of a second is paid out again when the clock goes forward. Here it is not
//! (invariant 12 of `docs/invariants.md`). A row whose results differ for that reason has theirs beside ours.

use aliquot_core::bucket::{Bucket, Refusal, Reservation};
use aliquot_core::share::Share;
use aliquot_core::unit::{Frequency, Rate, Scale, Span, Tick, Tokens};

/// Grains per token, for all rows: divides tenths of a second exactly.
const TOKEN: u64 = 1_000_000;

fn tick(tenths: u64) -> Tick {
    // Not at the clock's zero, so that nothing depends on that.
    Tick::from_nanos(7_000_000_007 + tenths * 100_000_000)
}

fn tokens(whole: u64) -> Tokens {
    Tokens::from_grains(whole * TOKEN)
}

fn rate(per_sec: u64) -> Rate {
    Rate::from_grains(per_sec * TOKEN)
}

fn full(per_sec: u64, burst: u64, start: u64) -> Bucket {
    let share = Share {
        rate: rate(per_sec),
        burst: tokens(burst),
        tokens: tokens(burst),
    };
    Bucket::new(share, tick(start))
}

/// Rows of (tick, cost, admitted).
fn check_allow(bucket: &mut Bucket, rows: &[(u64, u64, bool)]) {
    for (row, &(at, n, admitted)) in rows.iter().enumerate() {
        let peek = bucket.peek(tokens(n), tick(at));
        let answer = bucket.try_acquire_at(tokens(n), tick(at));
        assert_eq!(peek, answer, "row {row}: peek");
        assert_eq!(answer.is_ok(), admitted, "row {row}: {n} at {at}");
    }
}

/// Reserves, and expects the tick to act at (`None`: refused).
fn check_reserve(bucket: &mut Bucket, at: u64, n: u64, act: Option<u64>) -> Option<Reservation> {
    check_reserve_within(bucket, at, n, Span::MAX, act)
}

fn check_reserve_within(
    bucket: &mut Bucket,
    at: u64,
    n: u64,
    within: Span,
    act: Option<u64>,
) -> Option<Reservation> {
    let reservation = bucket.reserve(tokens(n), tick(at), within).ok();
    assert_eq!(
        reservation.as_ref().map(Reservation::act_at),
        act.map(tick),
        "{n} at {at}"
    );
    reservation
}

fn cancel(bucket: &mut Bucket, reservation: Option<Reservation>, at: u64, restored: u64) {
    let reservation = reservation.expect("a reservation to cancel");
    assert_eq!(bucket.cancel(reservation, tick(at)), tokens(restored));
}

#[test]
fn a_burst_of_one_admits_one_per_interval() {
    check_allow(
        &mut full(10, 1, 0),
        &[
            (0, 1, true),
            (0, 1, false),
            (0, 1, false),
            (1, 1, true),
            (1, 1, false),
            (1, 1, false),
            (2, 2, false), // More than the burst.
            (2, 1, true),
            (2, 1, false),
        ],
    );
}

#[test]
fn a_burst_of_three_fills_up_and_costs_nothing_to_ask_for_nothing() {
    check_allow(
        &mut full(10, 3, 0),
        &[
            (0, 2, true),
            (0, 2, false),
            (0, 1, true),
            (0, 1, false),
            (1, 4, false),
            (2, 1, true),
            (3, 1, true),
            (4, 1, true),
            (4, 1, true),
            (4, 1, false),
            (4, 1, false),
            (9, 3, true),
            (9, 0, true),
        ],
    );
}

#[test]
fn a_clock_that_jumps_back_keeps_the_level_and_mints_nothing() {
    check_allow(
        &mut full(10, 3, 1),
        &[
            (1, 1, true),
            (0, 1, true), // Two were left, and still are.
            (0, 1, true),
            (0, 1, false),
            (0, 1, false),
            (1, 1, false), // Theirs: true, the first tenth counted again.
            (1, 1, false),
            (1, 1, false),
            (2, 1, true),
            (2, 1, false),
            (2, 1, false),
        ],
    );
}

#[test]
fn a_fractional_rate_loses_nothing_to_truncation() {
    // 10 tokens in 13 seconds.
    let frequency = Frequency::new(10, Span::from_secs(13)).expect("in range");
    let scale = Scale::fit(frequency, 1).expect("in range");
    let burst = scale.tokens(1).expect("in range");
    let share = Share {
        rate: scale.rate(frequency).expect("in range"),
        burst,
        tokens: burst,
    };
    let mut bucket = Bucket::new(share, tick(0));
    assert_eq!(bucket.try_acquire_at(burst, tick(0)), Ok(()));
    let Err(Refusal::NotYet { retry_after }) = bucket.try_acquire_at(burst, tick(0)) else {
        panic!("one token, taken");
    };
    assert!((1_300_000_000..=1_300_000_001).contains(&retry_after.nanos()));
}

#[test]
fn of_fifteen_at_once_a_burst_of_five_admits_five() {
    let mut bucket = full(1, 5, 0);
    let admitted = (0..15).filter(|_| bucket.try_acquire_at(tokens(1), tick(0)).is_ok());
    assert_eq!(admitted.count(), 5);
}

#[test]
fn five_seconds_at_five_times_the_rate_admit_the_rate_and_the_burst() {
    let mut bucket = full(100, 100, 0);
    let every_two_ms = (0..=2_500).map(|step| tick(0).after(Span::from_millis(2 * step)));
    let admitted = every_two_ms.filter(|&now| bucket.try_acquire_at(tokens(1), now).is_ok());
    assert_eq!(admitted.count(), 600);
}

#[test]
fn without_a_rate_there_is_only_the_burst() {
    let mut bucket = full(0, 1, 0);
    check_allow(&mut bucket, &[(0, 1, true), (0, 1, false), (0, 0, true)]);
    let late = Tick::from_nanos(u64::MAX);
    assert_eq!(bucket.try_acquire_at(tokens(1), late), Err(Refusal::Never));
}

#[test]
fn without_a_burst_nothing_is_admitted_but_nothing() {
    let mut bucket = full(10, 0, 0);
    check_allow(&mut bucket, &[(0, 1, false), (9, 1, false), (9, 0, true)]);
    let exceeds = Refusal::ExceedsBurst {
        burst: Tokens::ZERO,
    };
    assert_eq!(bucket.try_acquire_at(tokens(1), tick(9)), Err(exceeds));
}

#[test]
fn without_a_limit_everything_is_admitted_whatever_the_burst() {
    let mut bucket = Bucket::unlimited();
    assert_eq!(bucket.try_acquire_at(Tokens::MAX, tick(0)), Ok(()));
    let reservation = check_reserve_within(&mut bucket, 3, 3, Span::ZERO, Some(3));
    cancel(&mut bucket, reservation, 3, 0);
    assert_eq!(bucket.level_at(tick(0)), Tokens::MAX);
}

#[test]
fn a_reservation_waits_for_what_is_missing() {
    let mut bucket = full(10, 2, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    check_reserve(&mut bucket, 0, 2, Some(2));
    check_reserve(&mut bucket, 3, 2, Some(4));
}

#[test]
fn reservations_and_acquisitions_share_one_level() {
    let mut bucket = full(10, 2, 0);
    check_reserve(&mut bucket, 0, 3, None); // More than the burst.
    check_reserve(&mut bucket, 0, 2, Some(0));
    check_allow(&mut bucket, &[(1, 2, false)]);
    check_reserve(&mut bucket, 1, 2, Some(2));
    check_allow(&mut bucket, &[(1, 1, false), (3, 1, true)]);
}

#[test]
fn a_refused_reservation_took_nothing() {
    let mut bucket = full(10, 2, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    check_reserve(&mut bucket, 0, 3, None);
    check_reserve(&mut bucket, 0, 2, Some(2));
}

#[test]
fn cancelling_the_last_reservation_restores_all_of_it() {
    let mut bucket = full(10, 2, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    let last = check_reserve(&mut bucket, 0, 2, Some(2));
    cancel(&mut bucket, last, 1, 2);
    check_reserve(&mut bucket, 1, 2, Some(2));
}

#[test]
fn cancelling_too_late_restores_nothing() {
    let mut bucket = full(10, 2, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    let late = check_reserve(&mut bucket, 0, 2, Some(2));
    cancel(&mut bucket, late, 3, 0);
    check_reserve(&mut bucket, 3, 2, Some(4));
}

#[test]
fn cancelling_restores_only_what_later_reservations_do_not_rest_on() {
    let mut none = full(10, 2, 0);
    check_reserve(&mut none, 0, 2, Some(0));
    let one = check_reserve(&mut none, 0, 1, Some(1));
    check_reserve(&mut none, 0, 1, Some(2));
    cancel(&mut none, one, 0, 0);
    check_reserve(&mut none, 0, 1, Some(3));

    let mut some = full(10, 2, 0);
    check_reserve(&mut some, 0, 2, Some(0));
    let two = check_reserve(&mut some, 0, 2, Some(2));
    check_reserve(&mut some, 0, 1, Some(3));
    cancel(&mut some, two, 2, 1);
    check_reserve(&mut some, 2, 2, Some(4));
}

#[test]
fn cancelling_several_counts_none_of_them_twice() {
    let mut bucket = full(10, 4, 0);
    check_reserve(&mut bucket, 0, 4, Some(0));
    let first = check_reserve(&mut bucket, 0, 3, Some(3));
    check_reserve(&mut bucket, 0, 1, Some(4));
    let last = check_reserve(&mut bucket, 0, 1, Some(5));
    cancel(&mut bucket, last, 1, 1);
    cancel(&mut bucket, first, 1, 2); // As if the last had never been.
    check_reserve(&mut bucket, 1, 3, Some(5));
}

#[test]
fn a_wait_that_is_called_off_leaves_the_level_as_it_was() {
    let mut bucket = full(10, 3, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    let called_off = check_reserve(&mut bucket, 0, 3, Some(2));
    cancel(&mut bucket, called_off, 1, 3);
    check_reserve(&mut bucket, 1, 2, Some(1));
}

#[test]
fn reserving_on_a_clock_that_jumped_back_waits_on_the_latest_tick() {
    let mut bucket = full(10, 2, 1);
    check_reserve(&mut bucket, 1, 2, Some(1));
    check_reserve(&mut bucket, 0, 1, Some(2)); // Theirs: 1.
    check_reserve(&mut bucket, 2, 2, Some(4)); // Theirs: 3.
}

#[test]
fn cancelling_on_a_clock_that_jumped_back_restores_but_does_not_mint() {
    let mut bucket = full(10, 2, 1);
    check_reserve(&mut bucket, 1, 2, Some(1));
    let earlier = check_reserve(&mut bucket, 1, 2, Some(3));
    check_reserve(&mut bucket, 1, 1, Some(4));
    cancel(&mut bucket, earlier, 0, 1);
    check_reserve(&mut bucket, 1, 2, Some(5)); // Theirs: 4.
}

#[test]
fn a_new_rate_counts_from_when_it_was_set() {
    let mut bucket = full(5, 2, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    check_reserve(&mut bucket, 0, 2, Some(4));
    assert_eq!(bucket.reconfigure(rate(10), tokens(2), tick(2)), tokens(0));
    check_reserve(&mut bucket, 2, 1, Some(4));
}

#[test]
fn a_new_burst_arrives_empty_and_leaves_what_is_owed() {
    let mut bucket = full(5, 2, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    check_reserve(&mut bucket, 0, 2, Some(4));
    assert_eq!(bucket.reconfigure(rate(5), tokens(4), tick(3)), tokens(0));
    check_reserve(&mut bucket, 0, 4, Some(12)); // Theirs: 9, counted from the tick stepped back to.
}

#[test]
fn cancelling_after_a_new_rate_restores_what_was_taken() {
    let mut bucket = full(5, 2, 0);
    check_reserve(&mut bucket, 0, 2, Some(0));
    let reservation = check_reserve(&mut bucket, 0, 2, Some(4));
    bucket.reconfigure(rate(10), tokens(2), tick(2));
    cancel(&mut bucket, reservation, 2, 2);
    check_reserve(&mut bucket, 2, 2, Some(3));
}

#[test]
fn a_reservation_keeps_to_the_longest_wait() {
    let mut bucket = full(10, 2, 0);
    let tenth = Span::from_millis(100);
    check_reserve_within(&mut bucket, 0, 2, tenth, Some(0));
    check_reserve_within(&mut bucket, 0, 1, tenth, Some(1));
    check_reserve_within(&mut bucket, 0, 1, tenth, None);
    assert_eq!(
        bucket.reserve(tokens(1), tick(0), tenth),
        Err(Refusal::NotYet {
            retry_after: Span::from_millis(200)
        })
    );
}

/// Their `Wait` is a reservation bounded by the caller's deadline.
#[test]
fn a_wait_acts_now_or_later_or_is_refused_at_once() {
    let mut bucket = full(10, 3, 0);
    check_reserve_within(&mut bucket, 0, 4, Span::MAX, None);
    check_reserve_within(&mut bucket, 0, 2, Span::ZERO, Some(0));
    check_reserve_within(&mut bucket, 0, 3, Span::from_millis(100), None);
    check_reserve_within(&mut bucket, 0, 3, Span::MAX, Some(2));
}
