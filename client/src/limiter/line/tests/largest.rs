//! The largest waiting cost, as reported: burst may be moved here for it from other parts.

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
