//! Callers that ask once, and what a node may still bring them.

use super::*;
use crate::limiter::key_state::Home;
use aliquot_core::central::Reason as Why;

#[test]
fn one_caller_a_second_waits_for_a_spent_quota() {
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    let (home, wait) = (Home::default(), Span::from_millis(250));
    let probe = |cost, millis| home.probe(cost, wait, at(millis));
    assert_eq!((probe(2, 0), probe(2, 1)), (None, None), "nothing is known");
    home.waited_in_vain(2, at(250));
    assert_eq!(probe(2, 251), Some(Span::from_millis(999)));
    assert_eq!(probe(1, 251), None, "less may be there");
    assert_eq!(probe(2, 1_250), None, "one waits again");
    assert_eq!(probe(2, 1_250), Some(wait), "the others do not");
    home.waited_in_vain(2, at(1_500));
    assert_eq!(probe(3, 2_499), Some(Span::from_millis(1)));
    // A wait as old as that says nothing about the next caller, nor about one beside it.
    assert_eq!((probe(3, 3_500), probe(3, 3_500)), (None, None));
    home.waited_in_vain(2, at(4_000));
    home.waited_with_success();
    assert_eq!(probe(2, 4_001), None);
}

/// A client that holds a tenth of a budget, and whose part is spent, is brought more of what is left.
#[test]
fn more_of_a_budget_is_waited_for_by_as_many_as_it_may_serve() {
    let mut part = Part::of(1, 10);
    assert!(part.limiter.try_acquire(10).is_ok());
    let limiter = part.limiter.clone();
    assert!(limiter.needs_a_node(1, part.clock.now()));
    let mut most = pin!(limiter.check(89));
    let mut last = pin!(limiter.check(1));
    assert!(most.as_mut().now_or_never().is_none());
    assert!(last.as_mut().now_or_never().is_none());
    let beyond = limiter.check(1).now_or_never();
    assert_eq!(reason(beyond), Some(Reason::Throttled), "90 can come");
    part.deposit(0, 90);
    for once in [most, last] {
        assert!(once.now_or_never().is_some_and(|of| of.is_ok()));
    }
    // All of it is held here: time alone brings more.
    assert_eq!(
        reason(limiter.check(1).now_or_never()),
        Some(Reason::Throttled)
    );
    assert!(!limiter.needs_a_node(1, part.clock.now()));
}

#[test]
fn a_part_of_a_spent_rate_is_waited_for_by_one_caller_a_second() {
    let part = Part::of(1, 10);
    assert!(part.limiter.try_acquire(10).is_ok());
    let limiter = part.limiter.clone();
    let mut once = pin!(limiter.check(1));
    assert!(once.as_mut().now_or_never().is_none());
    part.clock.advance(Duration::from_millis(250));
    let refused = once.now_or_never().expect("in time").expect_err("in vain");
    assert_eq!(refused.reason, Reason::Throttled);
    // The part makes one a second.
    let wait = refused.retry_after.expect("a wait");
    assert!((740..=751).contains(&wait.as_millis()), "{wait:?}");
    for _ in 0..3 {
        assert_eq!(
            reason(limiter.check(1).now_or_never()),
            Some(Reason::Throttled)
        );
    }
}

/// Callers that wait are served by time, and no node brings more: from then on one waits at a time.
#[test]
fn tokens_that_time_makes_are_not_waited_for_by_all() {
    for grows in [false, true] {
        let mut part = Part::of(100, 10);
        assert!(part.limiter.try_acquire(10).is_ok());
        let limiter = part.limiter.clone();
        let (mut first, mut second) = (pin!(limiter.check(1)), pin!(limiter.check(1)));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        if grows {
            part.deposit(0, 1);
        }
        part.clock.advance(Duration::from_millis(11));
        assert!(first.now_or_never().is_some_and(|of| of.is_ok()));
        // Of a larger part there is one token more.
        assert_eq!(limiter.try_acquire(1).is_ok(), grows);
        let mut third = pin!(limiter.check(1));
        assert!(third.as_mut().now_or_never().is_none(), "the next may wait");
        let next = reason(limiter.check(1).now_or_never());
        assert_eq!(next, (!grows).then_some(Reason::Throttled), "{grows}");
        if grows {
            continue;
        }
        // Time serves those that wait already, and no caller takes their places in line.
        part.clock.advance(Duration::from_millis(11));
        assert!(second.now_or_never().is_some_and(|of| of.is_ok()));
        let next = limiter.check(1).now_or_never();
        assert_eq!(reason(next), Some(Reason::Throttled));
        part.clock.advance(Duration::from_millis(11));
        assert!(third.now_or_never().is_some_and(|of| of.is_ok()));
        let next = limiter.check(1).now_or_never();
        assert!(next.is_none(), "no caller waits any more");
    }
}

/// A session that changes its edge holds nothing for two round trips.
#[test]
fn a_caller_that_asks_once_waits_for_the_next_lease() {
    for comes in [true, false] {
        let part = Part::of(100, 10);
        let (limiter, shared) = (part.limiter.clone(), &part.limiter.handle.shared);
        shared.set_lease(part.clock.now());
        let mut once = pin!(limiter.check(1));
        assert!(once.as_mut().now_or_never().is_none());
        if comes {
            shared.set_lease(Tick::NEVER);
            part.decider.leased();
        }
        part.clock.advance(Duration::from_millis(250));
        let outcome = once.now_or_never().expect("in time");
        assert_eq!(outcome.map(|of| of.tokens).ok(), comes.then_some(1));
        part.clock.advance(Duration::from_millis(751));
        let late = limiter.check(1).now_or_never();
        assert!(late.is_some(), "no caller begins to wait a second later");
    }
}

/// A home node that has nothing left of a rate answers before the share arrives that the key's first report
/// brings.
#[test]
fn a_share_that_is_on_its_way_outlives_the_refusal_of_the_home() {
    for comes in [true, false] {
        let mut kept = Kept::new();
        kept.part.agree(terms());
        let limiter = kept.part.limiter.clone();
        let mut once = pin!(limiter.check(1));
        assert!(once.as_mut().now_or_never().is_none());
        let spent = Answer::Refused {
            reason: Why::Spent,
            retry_after: Some(Span::from_millis(400)),
            left: None,
        };
        let call = kept.asked().expect("nothing is held here");
        assert!(call.reply.send(spent).is_ok());
        assert!(once.as_mut().now_or_never().is_none(), "a share may come");
        kept.part.clock.advance(Duration::from_millis(249));
        assert!(once.as_mut().now_or_never().is_none());
        if comes {
            kept.part.deposit(1_000, 100);
        }
        kept.part.clock.advance(Duration::from_millis(1));
        let outcome = once.as_mut().now_or_never().expect("that was long enough");
        assert_eq!(outcome.is_ok(), comes);
    }
}

/// A part of fewer than eight tokens of burst is nearly never full when it is needed: its node may have some.
#[test]
fn a_caller_asks_its_node_for_what_a_small_part_has_spent() {
    let mut kept = Kept::new();
    kept.part.agree(terms());
    kept.part.deposit(1, 7);
    let limiter = kept.part.limiter.clone();
    assert!(limiter.check(7).now_or_never().is_some_and(|of| of.is_ok()));
    assert_eq!(
        reason(Some(limiter.try_acquire(1))),
        Some(Reason::Throttled)
    );
    assert!(
        kept.asked().is_none(),
        "what is held here costs no question"
    );
    assert!(limiter.needs_a_node(1, kept.part.clock.now()));

    let mut once = pin!(limiter.check(1));
    assert!(once.as_mut().now_or_never().is_none());
    let call = kept.asked().expect("the part is small");
    let now = kept.part.clock.now();
    let grant = Answer::Admitted(Grant {
        asked_at: now,
        heard_at: now,
        period: PeriodId::new(0),
        left: None,
        booking: None,
    });
    assert!(call.reply.send(grant).is_ok());
    assert!(once.now_or_never().is_some_and(|of| of.is_ok()));

    // The part itself makes one in a second.
    let within = Duration::from_millis(50);
    let mut waits = pin!(limiter.acquire_within(1, within));
    assert!(waits.as_mut().now_or_never().is_none());
    let spent = Answer::Refused {
        reason: Why::Spent,
        retry_after: Some(Span::from_millis(400)),
        left: None,
    };
    let call = kept.asked().expect("the part is small");
    assert!(call.reply.send(spent).is_ok());
    let outcome = waits.now_or_never().expect("neither is in time");
    assert_eq!(reason(Some(outcome)), Some(Reason::Throttled));

    kept.part.deposit(0, 1);
    assert!(limiter.check(1).now_or_never().is_some_and(|of| of.is_ok()));
    let _ = limiter.check(1).now_or_never();
    assert!(kept.asked().is_none(), "eight tokens are not so few");
}
