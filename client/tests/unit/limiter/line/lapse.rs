//! Callers in line when the lease ends, or when the share is recalled.

use super::*;
use crate::bucket::AdmissionMode;
use aliquot_core::central::Reason as Why;
use aliquot_core::unit::Scale;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

impl Part {
    fn lease(&mut self, until: Tick, right: Right) {
        let now = self.clock.now();
        self.limiter.handle.shared.set_lease(until);
        self.decider.admit_by(right, PeriodId::new(0), now);
    }

    fn advance(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A part of one token per second, all of it spent.
fn spent() -> Part {
    let part = Part::of(1, 10);
    assert!(part.limiter.try_acquire(10).is_ok());
    part
}

#[test]
fn waiting_continues_when_the_session_changes_nodes() {
    let mut part = spent();
    let limiter = part.limiter.clone();
    let (mut first, mut second) = (pin!(limiter.acquire(3)), pin!(limiter.acquire(3)));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    // By now they have waited for longer than for a share, because time makes their tokens.
    part.advance(2_000);
    assert!(first.as_mut().now_or_never().is_none());
    part.lease(Tick::ZERO, Right::Never);
    assert!(first.as_mut().now_or_never().is_none());
    let mut third = pin!(limiter.acquire(3));
    assert!(third.as_mut().now_or_never().is_none());
    part.advance(900);
    assert!(first.as_mut().now_or_never().is_none());
    // The right is restored first, then the lease, then the share.
    let now = part.clock.now();
    part.decider.replace(Share::EMPTY, now);
    part.decider.admit_by(Right::Leased, PeriodId::new(0), now);
    assert!(first.as_mut().now_or_never().is_none());
    assert!(part.limiter.handle.shared.set_lease(Tick::NEVER));
    part.decider.leased();
    assert!(first.as_mut().now_or_never().is_none());
    part.advance(50);
    assert!(first.as_mut().now_or_never().is_none());
    part.deposit(1, 10);
    for waits in [first, second, third] {
        let served = waits.now_or_never().expect("there are ten");
        assert_eq!(served.map(|admission| admission.tokens), Ok(3));
    }
}

#[test]
fn a_lease_that_comes_after_its_share_wakes_the_waiting() {
    let mut part = Part::of(1, 10);
    part.lease(Tick::ZERO, Right::Never);
    let limiter = part.limiter.clone();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut waits = pin!(limiter.acquire(1));
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    part.lease(Tick::ZERO, Right::Leased);
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    woken.0.store(false, Ordering::Release);
    part.limiter.handle.shared.set_lease(Tick::NEVER);
    part.decider.leased();
    assert!(woken.0.load(Ordering::Acquire));
    assert!(matches!(waits.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
}

#[test]
fn no_line_outlives_a_lease_for_more_than_a_second_and_none_begins_after_that() {
    let mut part = spent();
    let limiter = part.limiter.clone();
    let (mut first, mut second) = (pin!(limiter.acquire(3)), pin!(limiter.acquire(3)));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    part.advance(100);
    part.lease(Tick::ZERO, Right::Never);
    assert!(first.as_mut().now_or_never().is_none());
    part.advance(999);
    assert!(first.as_mut().now_or_never().is_none());
    part.advance(1);
    let refused = [first, second].map(|of| reason(of.now_or_never()));
    assert_eq!(refused, [Some(Reason::Lapsed); 2]);
    assert_eq!(
        reason(limiter.acquire(1).now_or_never()),
        Some(Reason::Lapsed)
    );
    assert_eq!(part.limiter.key_state.tally.waiting(), 0);
}

#[test]
fn a_line_that_stood_for_time_waits_for_a_share_that_is_recalled_for_as_long_as_others_do() {
    let mut kept = Kept::new();
    kept.part.agree(terms());
    kept.part.deposit(1, 10);
    let limiter = kept.part.limiter.clone();
    assert!(limiter.try_acquire(10).is_ok());
    let mut waits = pin!(limiter.acquire(5));
    assert!(waits.as_mut().now_or_never().is_none());
    kept.part.advance(2_000);
    assert!(waits.as_mut().now_or_never().is_none());
    kept.part
        .decider
        .replace(Share::EMPTY, kept.part.clock.now());
    let refused = || Answer::Refused {
        reason: Why::Spent,
        retry_after: Some(Span::from_millis(20)),
        left: None,
    };
    let mut waited = 0;
    let outcome = loop {
        assert!(waits.as_mut().now_or_never().is_none());
        let call = kept.asked().expect("the home is asked");
        assert!(call.reply.send(refused()).is_ok());
        if let Some(outcome) = waits.as_mut().now_or_never() {
            break outcome;
        }
        kept.part.advance(20);
        waited += 20;
    };
    assert_eq!(waited, 1_000);
    assert_eq!(reason(Some(outcome)), Some(Reason::Throttled));
}

#[test]
fn a_line_that_stood_for_time_waits_for_a_rule_that_is_made_meanwhile() {
    let mut kept = Kept::new();
    let limiter = kept.part.limiter.clone();
    let (now, grains) = (kept.part.clock.now(), |of| Tokens::from_grains(of));
    let share = Share {
        rate: Rate::from_grains(1),
        burst: grains(10),
        tokens: grains(0),
    };
    let decider = &mut kept.part.decider;
    decider.rule(AdmissionMode::Forever, Scale::WHOLE, share, now);
    let mut waits = pin!(limiter.acquire(5));
    assert!(waits.as_mut().now_or_never().is_none());
    kept.part.advance(2_000);
    assert!(waits.as_mut().now_or_never().is_none());
    let (now, decider) = (kept.part.clock.now(), &mut kept.part.decider);
    decider.rule(AdmissionMode::Cold, Scale::WHOLE, Share::EMPTY, now);
    assert!(waits.as_mut().now_or_never().is_none());
    kept.part.advance(49);
    assert!(waits.as_mut().now_or_never().is_none());
    kept.part.advance(1);
    assert_eq!(reason(waits.now_or_never()), Some(Reason::Cold));
}
