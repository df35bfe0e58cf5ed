//! Callers that wait in line for a local limit: a dropped wait takes nothing, and a changed limit moves the
//! whole line.

use aliquot_client::clock::{Span, Tick};
use aliquot_client::observe::Mode;
use aliquot_client::shape::Pacer;
use aliquot_client::{Admission, Clock, Limit, Limiter, ManualClock, Reason, Refused, Reservation};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);

type Waiting = Pin<Box<dyn Future<Output = Result<Reservation, Refused>> + Send>>;

fn limiter(per_sec: u64, burst: u64) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    clock.set(Tick::from_nanos(1 << 50));
    let limiter = Limiter::local_with(Limit::per_sec(per_sec), burst, Arc::new(clock.clone()));
    (limiter.expect("a limit"), clock)
}

fn waiter(limiter: &Limiter, n: u64) -> Waiting {
    let limiter = limiter.clone();
    Box::pin(async move { limiter.acquire_to_settle(n).await })
}

fn poll(waiting: &mut Waiting) -> Option<Result<Reservation, Refused>> {
    match waiting
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// Returns this many waiters of one token each, in line.
fn line(limiter: &Limiter, callers: usize) -> Vec<Waiting> {
    let mut line: Vec<_> = (0..callers).map(|_| waiter(limiter, 1)).collect();
    for waiting in &mut line {
        assert!(poll(waiting).is_none());
    }
    line
}

/// All orders in which three callers leave a line, each as the place of the next one to leave.
const ORDERS: [[usize; 3]; 6] = [
    [0, 0, 0],
    [0, 1, 0],
    [1, 0, 0],
    [1, 1, 0],
    [2, 0, 0],
    [2, 1, 0],
];

#[test]
fn waits_that_are_dropped_in_any_order_take_nothing() {
    for order in ORDERS {
        let (limiter, _) = limiter(1, 1);
        limiter.try_acquire(1).expect("the burst");
        let mut line = line(&limiter, 3);
        for which in order {
            drop(line.remove(which));
        }
        assert_eq!(limiter.tokens(), 0.0, "{order:?}");
    }
}

#[test]
fn callers_that_give_up_delay_no_caller() {
    let (limiter, clock) = limiter(10, 1);
    limiter.try_acquire(1).expect("the burst");
    let mut line: VecDeque<_> = line(&limiter, 1_000).into();
    clock.advance(3 * TENTH);
    let served = line.iter_mut().filter_map(poll).count();
    assert_eq!(served, 3);
    // Each gives up after three tenths, the first one first.
    while line.pop_front().is_some() {}
    assert_eq!(limiter.tokens(), 0.0);
    let mut next = waiter(&limiter, 1);
    assert!(poll(&mut next).is_none());
    clock.advance(TENTH);
    assert!(poll(&mut next).is_some_and(|outcome| outcome.is_ok()));
}

#[test]
fn the_end_of_a_runtime_leaves_nothing_booked() {
    let (limiter, _) = limiter(1, 2);
    limiter.try_acquire(2).expect("the burst");
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    for n in [1, 2, 1, 2] {
        let limiter = limiter.clone();
        runtime.spawn(async move { limiter.acquire(n).await });
    }
    runtime.block_on(tokio::task::yield_now());
    assert_eq!(limiter.tokens(), -6.0);
    drop(runtime);
    assert_eq!(limiter.tokens(), 0.0);
}

#[test]
fn a_change_of_mode_leaves_nothing_booked() {
    for mode in [Mode::DryRun, Mode::Bypass, Mode::Freeze] {
        let (limiter, clock) = limiter(1, 1);
        limiter.try_acquire(1).expect("the burst");
        let mut line = line(&limiter, 3);
        limiter.set_mode(mode);
        for waiting in &mut line {
            let outcome = poll(waiting).expect("decided");
            assert_eq!(outcome.is_err(), mode == Mode::Freeze, "{mode:?}");
        }
        limiter.set_mode(Mode::Enforce);
        assert_eq!(limiter.tokens(), 0.0, "{mode:?}");
        clock.advance(SECOND);
        assert!(limiter.try_acquire(1).is_ok());
    }
}

#[test]
fn those_in_line_move_up_when_one_before_them_gives_up() {
    let (limiter, clock) = limiter(1, 1);
    limiter.try_acquire(1).expect("the burst");
    let mut line = line(&limiter, 3);
    drop(line.remove(0));
    clock.advance(SECOND);
    assert!(poll(&mut line[0]).is_some_and(|outcome| outcome.is_ok()));
    assert!(poll(&mut line[1]).is_none());
    clock.advance(SECOND);
    assert!(poll(&mut line[1]).is_some_and(|outcome| outcome.is_ok()));
}

#[test]
fn a_changed_rate_moves_the_line() {
    for (rate, wait) in [(10, TENTH), (1_000_000, Duration::from_micros(1))] {
        let (limiter, clock) = limiter(1, 1);
        limiter.try_acquire(1).expect("the burst");
        let mut line = line(&limiter, 2);
        limiter.set_limit(Limit::per_sec(rate)).expect("a limit");
        assert!(limiter.try_acquire(1).is_err(), "no one passes the line");
        for waiting in &mut line {
            assert!(poll(waiting).is_none());
            clock.advance(wait);
            assert!(
                poll(waiting).is_some_and(|outcome| outcome.is_ok()),
                "{rate}"
            );
        }
    }
    let (limiter, clock) = limiter(10, 1);
    limiter.try_acquire(1).expect("the burst");
    let mut line = line(&limiter, 1);
    limiter.set_limit(Limit::per_sec(1)).expect("a limit");
    clock.advance(9 * TENTH);
    assert!(poll(&mut line[0]).is_none(), "as late as the rate says now");
    clock.advance(TENTH);
    let served = poll(&mut line[0]).expect("due").expect("served");
    assert_eq!(served.delay(), Duration::ZERO);
}

#[test]
fn a_caller_with_a_deadline_is_refused_once_it_cannot_be_met() {
    let (limiter, _) = limiter(10, 1);
    limiter.try_acquire(1).expect("the burst");
    let within = limiter.clone();
    let mut waiting: Waiting =
        Box::pin(async move { within.acquire_to_settle_within(1, SECOND).await });
    assert!(poll(&mut waiting).is_none());
    limiter
        .set_limit(Limit::per(1, 2 * SECOND))
        .expect("a limit");
    let refused = poll(&mut waiting).expect("at once").expect_err("too late");
    assert_eq!(refused.retry_after, Some(2 * SECOND));
    assert_eq!(limiter.tokens(), 0.0);
}

#[test]
fn a_changed_burst_or_a_lifted_limit_decides_for_those_in_line() {
    let (limiter, _) = limiter(1, 5);
    limiter.try_acquire(5).expect("the burst");
    let mut line = [waiter(&limiter, 5), waiter(&limiter, 1)];
    assert!(line.iter_mut().all(|waiting| poll(waiting).is_none()));
    limiter.set_burst(3).expect("a burst");
    let refused = poll(&mut line[0]).expect("at once").expect_err("too much");
    assert_eq!(refused.reason, Reason::ExceedsBurst);
    assert!(poll(&mut line[1]).is_none());
    assert_eq!(limiter.tokens(), -1.0);
    limiter.set_limit(Limit::UNLIMITED).expect("a limit");
    let served = poll(&mut line[1]).expect("at once").expect("served");
    assert_eq!(served.settle(0).restored, 0, "nothing was taken");
    // Tokens that were admitted without a limit are not missing from a limit that is set later, at any scale.
    for to in [
        Limit::per_sec(1),
        Limit::per(1, 864_000 * SECOND),
        Limit::per_sec(1 << 30),
    ] {
        limiter.set_limit(Limit::UNLIMITED).expect("a limit");
        limiter.try_acquire(1_000).expect("no limit");
        limiter.set_limit(to).expect("a limit");
        assert_eq!(limiter.tokens(), 3.0, "{to:?}");
    }
}

#[test]
fn a_refund_serves_the_line_earlier() {
    let (limiter, clock) = limiter(1, 10);
    let call = limiter.reserve(10).expect("the burst");
    let mut line = line(&limiter, 2);
    assert_eq!(call.settle(9).restored, 1);
    assert!(poll(&mut line[0]).is_some_and(|outcome| outcome.is_ok()));
    assert!(poll(&mut line[1]).is_none());
    clock.advance(SECOND);
    assert!(poll(&mut line[1]).is_some_and(|outcome| outcome.is_ok()));
}

#[test]
fn a_free_permit_belongs_to_the_first_who_waits() {
    let clock = Arc::new(ManualClock::new());
    let limiter = Limiter::local_permits_with(1, clock).expect("permits");
    let held = limiter.try_permit().expect("one");
    let mut first = Box::pin(limiter.permit());
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    drop(held);
    let refused = limiter.try_permit().expect_err("it is waited for");
    assert_eq!(refused.reason, Reason::Permits);
    let Poll::Ready(Ok(permit)) = first.as_mut().poll(&mut context) else {
        panic!("the first in line has it");
    };
    drop(permit);
    assert!(limiter.try_permit().is_ok());
}

#[test]
fn turns_of_a_pacer_that_are_given_up_in_any_order_are_free() {
    for order in ORDERS {
        let clock = ManualClock::new();
        let pacer = Pacer::with_clock(SECOND, 9, Arc::new(clock.clone())).expect("a pacer");
        let now = Clock::now(&clock);
        let _first = pacer.book_at(now).expect("the first");
        let mut context = Context::from_waker(Waker::noop());
        let mut line: Vec<_> = (0..3).map(|_| Box::pin(pacer.turn())).collect();
        for turn in &mut line {
            assert!(turn.as_mut().poll(&mut context).is_pending());
        }
        let mut last = Box::pin(pacer.turn());
        assert!(last.as_mut().poll(&mut context).is_pending());
        for which in order {
            drop(line.remove(which));
        }
        assert_eq!(pacer.waiting_at(now), 1, "{order:?}");
        clock.advance(SECOND);
        assert!(last.as_mut().poll(&mut context).is_ready(), "it moved up");
        let next = pacer.book().expect("the next");
        assert_eq!(next.delay(), SECOND, "{order:?}");
    }
}

/// Books a turn, lets `waiting` callers wait behind it, changes the interval at `changed`, and returns after how
/// many tenths of a second each of them is served, and when the next turn would be.
fn retimed(changed: u64, interval: u64, books_behind: Option<usize>) -> (Vec<u64>, u64) {
    const WAITING: usize = 3;
    let clock = ManualClock::new();
    clock.set(Tick::from_nanos(1 << 50));
    let pacer = Pacer::with_clock(SECOND, 9, Arc::new(clock.clone())).expect("a pacer");
    let began = Clock::now(&clock);
    let tenths = |at: Tick| at.since(began).nanos() / 100_000_000;
    let _first = pacer.book().expect("the first");
    let mut context = Context::from_waker(Waker::noop());
    let (mut line, mut booked) = (Vec::new(), Vec::new());
    for which in 0..WAITING {
        line.push(Box::pin(pacer.turn()));
        assert!(line[which].as_mut().poll(&mut context).is_pending());
        booked.extend((books_behind == Some(which)).then(|| pacer.book().expect("a turn")));
    }
    let promised: Vec<_> = booked.iter().map(aliquot_client::shape::Turn::at).collect();
    clock.advance(TENTH * changed as u32);
    pacer
        .set_interval(TENTH * interval as u32)
        .expect("an interval");
    assert!(
        booked
            .iter()
            .map(aliquot_client::shape::Turn::at)
            .eq(promised)
    );
    let next = pacer.book().expect("the next");
    let next_at = tenths(next.at());
    let mut served = Vec::new();
    while served.len() < WAITING {
        line.retain_mut(|turn| match turn.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => {
                outcome.expect("served");
                served.push(tenths(Clock::now(&clock)));
                false
            }
            Poll::Pending => true,
        });
        clock.advance(TENTH);
    }
    (served, next_at)
}

#[test]
fn a_changed_interval_moves_callers_that_wait_for_their_turns() {
    assert_eq!(retimed(0, 5, None), (vec![5, 10, 15], 20));
    assert_eq!(retimed(3, 20, None), (vec![20, 40, 60], 80));
    assert_eq!(retimed(3, 10, None), (vec![10, 20, 30], 40));
    // Overdue by the new interval: the first at once, and the others an interval apart.
    assert_eq!(retimed(8, 5, None), (vec![8, 13, 18], 23));
}

#[test]
fn a_booked_turn_keeps_its_tick_and_those_who_wait_before_it() {
    // Behind the first in line a turn is booked, at 20.
    assert_eq!(retimed(0, 5, Some(0)), (vec![10, 25, 30], 35));
    assert_eq!(retimed(0, 20, Some(0)), (vec![10, 40, 60], 80));
    assert_eq!(retimed(0, 5, Some(2)), (vec![10, 20, 30], 45));
}

/// A host that has just started, and an interval longer than it has run.
#[test]
fn a_changed_interval_delays_no_first_turn() {
    let clock = ManualClock::new();
    clock.set(Tick::from_nanos(1_000_000_000));
    let pacer = Pacer::with_clock(10 * SECOND, 9, Arc::new(clock)).expect("a pacer");
    pacer.set_interval(20 * SECOND).expect("an interval");
    assert_eq!(pacer.book().expect("the first").delay(), Duration::ZERO);
}

/// Between two callers that wait, others have reserved or owe: what is put back serves those behind earlier, and
/// moves no reservation.
#[test]
fn a_caller_that_gives_up_between_reservations_and_debts_moves_only_callers() {
    // A reservation behind: what its caller gives up is lost, since it keeps its time.
    let (limiter, clock) = limiter(1, 3);
    let call = limiter.reserve(3).expect("the burst");
    let mut first = line(&limiter, 2);
    let promised = limiter.reserve(1).expect("a time");
    assert_eq!(promised.delay(), 3 * SECOND);
    drop(first.pop());
    let next = limiter.reserve(1).expect("a time");
    assert_eq!(next.delay(), 4 * SECOND);
    next.cancel();
    // One before, and a debt behind: these move up.
    let mut second = line(&limiter, 3);
    assert_eq!(call.settle(5).taken, 2);
    drop(second.remove(0));
    let mut third = line(&limiter, 1);
    drop(second.remove(0));
    for (secs, waiting) in [(1, &mut first), (3, &mut second), (3, &mut third)] {
        clock.advance(secs * SECOND);
        assert!(poll(&mut waiting[0]).is_some_and(|outcome| outcome.is_ok()));
    }
}

/// Time has made again by now all that was taken, so that a refund is worth nothing.
#[test]
fn a_refund_after_changes_of_the_rate_restores_no_more_than_without() {
    for changes in 0..4 {
        let (limiter, clock) = limiter(1, 10);
        let call = limiter.reserve(5).expect("the burst");
        clock.advance(5 * SECOND);
        for rate in (1..=changes).map(|change| 1 + change % 2) {
            limiter.set_limit(Limit::per_sec(rate)).expect("a limit");
        }
        limiter.try_acquire(5).expect("it is full");
        assert_eq!(call.settle(0).restored, 0, "{changes}");
    }
}

/// A place that is given up brings back no more than the bucket could have kept of it.
#[test]
fn a_place_that_is_given_up_late_brings_no_more_than_the_burst() {
    // The first could have been served after one second, and its token has overflowed since.
    let (overdue, clock) = limiter(1, 1);
    overdue.try_acquire(1).expect("the burst");
    let mut waiting = line(&overdue, 4);
    clock.advance(35 * TENTH);
    drop(waiting.remove(0));
    let served = |waiting: &mut Waiting| poll(waiting).is_some_and(|outcome| outcome.is_ok());
    assert!(served(&mut waiting[0]) && served(&mut waiting[1]));
    clock.advance(4 * TENTH);
    assert!(poll(&mut waiting[2]).is_none());
    clock.advance(TENTH);
    assert!(served(&mut waiting[2]));
    // The burst is lowered below the first cost: of four seconds the bucket has kept three.
    let (lowered, clock) = limiter(1, 5);
    lowered.try_acquire(5).expect("the burst");
    let mut waiting: Vec<_> = [5, 3, 3].map(|n| waiter(&lowered, n)).into();
    assert!(waiting.iter_mut().all(|waiting| poll(waiting).is_none()));
    clock.advance(4 * SECOND);
    lowered.set_burst(3).expect("a burst");
    drop(waiting.remove(0));
    assert!(served(&mut waiting[0]));
    clock.advance(29 * TENTH);
    assert!(poll(&mut waiting[1]).is_none());
    clock.advance(TENTH);
    assert!(served(&mut waiting[1]));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Step(u64),
    Wait(u64),
    Try(u64),
    /// Drops the waiter with this number.
    Drop(usize),
    Limit(u64),
    Burst(u64),
    Reserve(u64),
    Cancel(usize),
    Settle(usize, u64),
}

fn ops(changes: bool) -> impl Strategy<Value = Vec<Op>> {
    let changed = prop_oneof![
        (1..21_u64).prop_map(Op::Limit),
        prop_oneof![1..10_u64, 1..10_000_u64].prop_map(Op::Limit),
        (1..8_u64).prop_map(Op::Burst),
    ];
    let later = prop_oneof![
        2 => (0..5_u64).prop_map(Op::Reserve),
        1 => any::<usize>().prop_map(Op::Cancel),
        1 => (any::<usize>(), 0..5_u64).prop_map(|(which, actual)| Op::Settle(which, actual)),
    ];
    let other = if changes {
        changed.boxed()
    } else {
        later.boxed()
    };
    let op = prop_oneof![
        4 => prop_oneof![0..300_u64, 0..2_000_u64].prop_map(Op::Step),
        5 => (1..6_u64).prop_map(Op::Wait),
        2 => (0..6_u64).prop_map(Op::Try),
        3 => any::<usize>().prop_map(Op::Drop),
        3 => other,
    ];
    prop::collection::vec(op, 1..60)
}

/// A bucket with a line: those in it take nothing before they are served, first come, first served.
struct Queue {
    rate: f64,
    burst: f64,
    level: f64,
    line: VecDeque<u64>,
}

impl Queue {
    /// Rounding of the limiter's fixed point, in tokens.
    const LITTLE: f64 = 1e-3;

    const fn full(rate: f64, burst: f64) -> Self {
        Self {
            rate,
            burst,
            level: burst,
            line: VecDeque::new(),
        }
    }

    fn step(&mut self, ms: u64) {
        self.level += self.rate * ms as f64 / 1e3;
        // The first in line is served when it is due, which is before the bucket overflows.
        if self.line.is_empty() {
            self.level = self.level.min(self.burst);
        }
    }

    /// Serves this many, and checks that these were due and no others are.
    fn serve(&mut self, served: usize) -> TestCaseResult {
        for n in self.line.drain(..served) {
            prop_assert!(
                self.level >= n as f64 - Self::LITTLE,
                "{} for {}",
                self.level,
                n
            );
            self.level -= n as f64;
        }
        if let Some(&n) = self.line.front() {
            prop_assert!(
                self.level <= n as f64 + Self::LITTLE,
                "{} for {}",
                self.level,
                n
            );
        }
        // Served when it was due, before the bucket overflowed.
        if self.line.is_empty() {
            self.level = self.level.min(self.burst);
        }
        Ok(())
    }
}

/// Polls all in line, in order. Returns the outcomes of those that are decided.
fn poll_all(line: &mut VecDeque<Waiting>) -> Vec<Result<Reservation, Refused>> {
    let (mut outcomes, mut rest) = (Vec::new(), VecDeque::new());
    while let Some(mut waiting) = line.pop_front() {
        match poll(&mut waiting) {
            Some(outcome) => outcomes.push(outcome),
            None => rest.push_back(waiting),
        }
    }
    *line = rest;
    outcomes
}

/// Returns true if the level is so close to what is needed that rounding decides.
fn is_close(queue: &Queue, n: u64) -> bool {
    (queue.level - n as f64).abs() < 2.0 * Queue::LITTLE
}

/// Advances the clock by `ms`, one millisecond at a time, so that each caller is served as soon as it is due.
fn step(
    ms: u64,
    clock: &ManualClock,
    line: &mut VecDeque<Waiting>,
    queue: &mut Queue,
) -> TestCaseResult {
    for _ in 0..ms {
        clock.advance(Duration::from_millis(1));
        queue.step(1);
        let served = poll_all(line);
        prop_assert!(served.iter().all(Result::is_ok));
        queue.serve(served.len())?;
        let due = |served: &Reservation| served.delay().is_zero();
        let all_due = served.iter().flatten().all(due);
        prop_assert!(all_due, "served before it is due");
    }
    Ok(())
}

fn compare(ops: &[Op], rate: u64, burst: u64) -> TestCaseResult {
    let (limiter, clock) = limiter(rate, burst);
    let mut queue = Queue::full(rate as f64, burst as f64);
    let mut line = VecDeque::new();
    for &op in ops {
        match op {
            Op::Step(ms) => step(ms, &clock, &mut line, &mut queue)?,
            Op::Wait(n) => {
                let mut waiting = waiter(&limiter, n);
                let at_once = queue.line.is_empty() && queue.level >= n as f64;
                let close = queue.line.is_empty() && is_close(&queue, n);
                match poll(&mut waiting) {
                    Some(Ok(_)) => {
                        prop_assert!(at_once || close);
                        queue.level -= n as f64;
                    }
                    Some(Err(_)) => prop_assert!(n as f64 > queue.burst),
                    None => {
                        prop_assert!(!at_once || close);
                        queue.line.push_back(n);
                        line.push_back(waiting);
                    }
                }
            }
            Op::Try(n) => {
                let ahead: u64 = queue.line.iter().sum();
                if is_close(&queue, ahead + n) {
                    continue;
                }
                let there = queue.level >= (ahead + n) as f64;
                prop_assert_eq!(limiter.try_acquire(n).is_ok(), there);
                queue.level -= if there { n as f64 } else { 0.0 };
            }
            Op::Drop(which) => {
                if let Some(at) = which.checked_rem(line.len()) {
                    drop(line.remove(at));
                    queue.line.remove(at);
                }
            }
            Op::Limit(rate) => {
                limiter.set_limit(Limit::per_sec(rate)).expect("a limit");
                queue.rate = rate as f64;
            }
            Op::Burst(burst) => {
                limiter.set_burst(burst).expect("a burst");
                queue.burst = burst as f64;
                queue.line.retain(|&n| n <= burst);
                queue.level = queue.level.min(queue.burst);
            }
            Op::Reserve(_) | Op::Cancel(_) | Op::Settle(..) => {}
        }
        // Those that moved up, and those that the change refused.
        let decided = poll_all(&mut line);
        queue.serve(decided.iter().filter(|outcome| outcome.is_ok()).count())?;
        prop_assert_eq!(line.len(), queue.line.len());
        let ahead: u64 = queue.line.iter().sum();
        let (level, wanted) = (limiter.tokens(), queue.level - ahead as f64);
        prop_assert!(
            (level - wanted).abs() < Queue::LITTLE,
            "{} of {}",
            level,
            wanted
        );
        queue.level = level + ahead as f64;
    }
    Ok(())
}

/// Uses of a limit at constant rate, as `(ms, tokens)`.
fn uses(ops: &[Op], rate: u64, burst: u64) -> Vec<(u64, u64)> {
    let (limiter, clock) = limiter(rate, burst);
    let start = 1_u64 << 50;
    let ms = |tick: Tick| (tick.nanos() - start).div_ceil(1_000_000);
    let (mut now, mut uses, mut line) = (Tick::from_nanos(start), Vec::new(), VecDeque::new());
    let mut later = Vec::<Reservation>::new();
    let used = |admission: Admission| (ms(admission.decided_at), admission.tokens);
    for &op in ops {
        match op {
            Op::Step(millis) => {
                clock.advance(Duration::from_millis(millis));
                now = now.after(Span::from_millis(millis));
            }
            Op::Wait(n) => line.push_back(waiter(&limiter, n)),
            Op::Try(n) => uses.extend(limiter.try_acquire(n).ok().map(|_| (ms(now), n))),
            Op::Drop(which) => {
                if let Some(at) = which.checked_rem(line.len()) {
                    drop(line.remove(at));
                }
            }
            Op::Reserve(n) => later.extend(limiter.reserve(n).ok()),
            Op::Cancel(which) => {
                if let Some(at) = which.checked_rem(later.len()) {
                    let taken = later.swap_remove(at);
                    match taken.act_at() > now {
                        true => drop(taken.cancel()),
                        false => uses.push(used(taken.admission())),
                    }
                }
            }
            Op::Settle(which, actual) => {
                if let Some(at) = which.checked_rem(later.len()) {
                    let taken = later.swap_remove(at);
                    let (act_at, actual) = (taken.act_at(), actual.min(taken.tokens()));
                    match act_at <= now {
                        true => {
                            uses.push((ms(act_at), actual));
                            taken.settle(actual);
                        }
                        false => uses.push(used(taken.admission())),
                    }
                }
            }
            Op::Limit(_) | Op::Burst(_) => {}
        }
        // Some callers are polled late: only the first half.
        let half = line.len().div_ceil(2);
        let mut rest = line.split_off(half);
        let served = poll_all(&mut line).into_iter().flatten();
        uses.extend(served.map(|served| used(served.admission())));
        line.append(&mut rest);
    }
    uses.extend(later.iter().map(|taken| used(taken.admission())));
    uses.sort_unstable();
    uses
}

/// Returns a window in which more was used than `burst + rate · t`, if there is one.
fn excess(uses: &[(u64, u64)], rate: u64, burst: u64) -> Option<String> {
    for (first, &(from, _)) in uses.iter().enumerate() {
        let mut used = 0;
        for &(to, n) in &uses[first..] {
            used += n;
            // A tick is rounded up to the next millisecond, once at each end.
            if used * 1_000 > burst * 1_000 + rate * (to - from + 1) {
                return Some(format!("{used} in {from} to {to} ms: {uses:?}"));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Waits, dropped waits and changes of the limit equal those of a bucket from which the waiting take
    /// nothing.
    #[test]
    fn a_line_is_a_queue_before_a_bucket(ops in ops(true), rate in 1..21_u64, burst in 1..8_u64) {
        compare(&ops, rate, burst)?;
    }

    /// Never over the limit, with reservations, cancellations and refunds between those who wait.
    #[test]
    fn use_keeps_to_the_envelope(ops in ops(false), rate in 1..21_u64, burst in 1..8_u64) {
        let uses = uses(&ops, rate, burst);
        prop_assert_eq!(excess(&uses, rate, burst), None);
    }
}
