//! Go's `Wait`, on a manual clock.

use super::{TENTH, full};
use aliquot_client::clock::Span;
use aliquot_client::{Clock, Limit, Reason};
use std::time::Duration;

/// Rows of Go's `Wait`: (cost, maximum wait in tenths, wait in tenths; `None`: refused at once).
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
async fn waiters_are_served_first_come_first_served() {
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
