//! Moving from governor, step by step as docs/guide/migrate.md says: what a service calls before and after decides the
//! same at the same times.

use aliquot_client::{Keyed, Limit, Limiter, ManualClock};
use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

const PER_SEC: u32 = 5;
const BURST: u32 = 10;

/// Pauses between two requests, with their costs.
const REQUESTS: [(u64, u32); 12] = [
    (0, 1),
    (0, 4),
    (0, 5),
    (0, 1),
    (199, 1),
    (1, 1),
    (1_000, 6),
    (0, 5),
    (0, 1),
    (3_000, 10),
    (0, 1),
    (60_000, 10),
];

fn nonzero(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}

fn quota() -> Quota {
    Quota::per_second(nonzero(PER_SEC)).allow_burst(nonzero(BURST))
}

fn limit() -> Limit {
    Limit::per_sec(u64::from(PER_SEC))
}

/// `RateLimiter::direct`, `check_n` and the fake clock, and what takes their places.
#[test]
fn a_direct_limiter_decides_the_same() {
    let (theirs, ours) = (FakeRelativeClock::default(), ManualClock::new());
    let before = RateLimiter::direct_with_clock(quota(), theirs.clone());
    let after = Limiter::local_with(limit(), u64::from(BURST), Arc::new(ours.clone()));
    let after = after.expect("a limit");
    for (pause, cost) in REQUESTS {
        let pause = Duration::from_millis(pause);
        theirs.advance(pause);
        ours.advance(pause);
        let before = before.check_n(nonzero(cost)).expect("within the burst");
        let after = after.try_acquire(u64::from(cost));
        assert_eq!(before.is_ok(), after.is_ok(), "{pause:?}, {cost}");
    }
    // A cost beyond the burst never fits: an error of its own there, a refusal without a wait here.
    assert!(before.check_n(nonzero(BURST + 1)).is_err());
    let refused = after.try_acquire(u64::from(BURST) + 1);
    let refused = refused.expect_err("more than the burst");
    assert!(refused.is_never());
}

/// The wait of a refusal.
#[test]
fn a_refusal_tells_the_same_wait() {
    use governor::clock::Clock as _;
    let (theirs, ours) = (FakeRelativeClock::default(), ManualClock::new());
    let before = RateLimiter::direct_with_clock(quota(), theirs.clone());
    let after = Limiter::local_with(limit(), u64::from(BURST), Arc::new(ours.clone()));
    let after = after.expect("a limit");
    let _ = before.check_n(nonzero(BURST)).expect("within the burst");
    after.try_acquire(u64::from(BURST)).expect("a full bucket");
    let before = before.check().expect_err("an empty bucket");
    let before = before.wait_time_from(theirs.now());
    let after = after.try_acquire(1).expect_err("an empty bucket");
    assert_eq!(after.retry_after, Some(before));
    assert_eq!(before, Duration::from_millis(200));
}

/// `RateLimiter::keyed`, and `Keyed`, which also bounds the number of its keys.
#[test]
fn a_limiter_by_key_decides_the_same() {
    let (theirs, ours) = (FakeRelativeClock::default(), ManualClock::new());
    let before = RateLimiter::dashmap_with_clock(quota(), theirs.clone());
    let after = Keyed::builder(limit(), u64::from(BURST), 64).clock(Arc::new(ours.clone()));
    let after = after.build().expect("a limit");
    for (pause, cost) in REQUESTS {
        let pause = Duration::from_millis(pause);
        theirs.advance(pause);
        ours.advance(pause);
        for key in ["tenant/1", "tenant/2"] {
            let before = before.check_key_n(&key.to_owned(), nonzero(cost));
            let before = before.expect("within the burst");
            let after = after.try_acquire(key, u64::from(cost));
            assert_eq!(before.is_ok(), after.is_ok(), "{key}: {pause:?}, {cost}");
        }
    }
}

/// `until_ready`, on the clocks of the host.
#[tokio::test]
async fn a_caller_that_waits_is_admitted_then() {
    let before = RateLimiter::direct(Quota::per_second(nonzero(1_000)));
    let after = Limiter::local(Limit::per_sec(1_000_u64), 1).expect("a limit");
    for _ in 0..3 {
        before.until_ready().await;
        after
            .acquire(1)
            .await
            .expect("a token within a millisecond");
    }
}
