//! The largest waiting cost, as reported: burst may be moved here for it from other parts. And the budget's limit,
//! as told to callers.

use super::*;
use aliquot_core::client::Decider;

/// Returns the tokens waited for, and the largest cost among them.
fn told(part: &mut Part) -> (u64, u64) {
    let observed = part.decider.observed().expect("a limit that is dealt");
    let tokens = |grains| grains / terms().scale.grains_per_token();
    (tokens(observed.waiting), tokens(observed.waiting_largest))
}

#[test]
fn a_large_cost_is_told_for_as_long_as_it_waits_and_no_longer() {
    let mut part = Part::of(1, 10);
    let limiter = part.limiter.clone();
    assert!(limiter.try_acquire(10).is_ok());
    let waits = |n| {
        let mut waits = Box::pin(limiter.acquire(n));
        assert!(waits.as_mut().now_or_never().is_none());
        waits
    };
    let small = [waits(3), waits(2)];
    let large = waits(9);
    assert_eq!(told(&mut part), (14, 9));
    drop(large);
    assert_eq!(told(&mut part), (5, 3), "the line goes on without it");
    let large = [waits(7), waits(7)];
    let [first, second] = large;
    drop(first);
    assert_eq!(told(&mut part), (12, 7), "another one as large waits");
    drop((small, second));
    assert_eq!(told(&mut part), (0, 0));
}

/// The limit of the budget is 1,000/s with a burst of 100, and a tenth of it is held here.
#[test]
fn a_caller_is_told_the_limit_of_the_budget_and_what_is_left_of_the_share() {
    let mut part = Part::of(100, 10);
    assert!(part.limiter.try_acquire(4).is_ok());
    let info = part.limiter.describe().expect("a limit");
    assert_eq!((info.limit, info.window), (1_000, Some(1)));
    assert_eq!(info.remaining, 6);
    // Four tokens of the share, at 100/s, up to what its rate loses by rounding.
    let reset = info.reset.expect("a time").as_nanos();
    assert!((40_000_000..40_001_000).contains(&reset), "{reset}");
    // A node that does not tell the rate.
    part.agree(Terms {
        rate: Rate::ZERO,
        ..terms()
    });
    let info = part.limiter.describe().expect("a limit");
    assert_eq!((info.limit, info.window), (100, Some(1)));
}

#[test]
fn a_cost_above_the_budget_is_never_served_and_one_above_the_share_may_be() {
    let part = Part::of(100, 10);
    let never = part.limiter.try_acquire(101).expect_err("too much");
    assert_eq!(never.excess, Excess::of(101, 100));
    assert_eq!((never.is_never(), never.retry_after), (true, None));
    let later = part.limiter.try_acquire(11).expect_err("more than is held");
    assert_eq!((later.reason, later.excess), (Reason::ExceedsBurst, None));
    let would = part.limiter.would_admit(101).expect_err("too much");
    assert_eq!(would, never);
    let waits = part.limiter.acquire(101).now_or_never();
    assert_eq!(waits.expect("at once"), Err(never));
}
