//! Figures of answers: the wait until a retry, and the tokens that are left.

use super::central::limiters;
use super::client;
use super::node::{FakeNode, budget};
use aliquot_client::clock::{HostClock, Span, Tick};
use aliquot_client::limiter::Decision;
use aliquot_client::{Clock, Limiter, Reason};
use std::time::Duration;

const WITHIN: Duration = Duration::from_millis(250);

/// A budget of whole tokens that are made one after the other.
fn slow(rate: &str, burst: u64) -> aliquot_core::budget::Budget {
    budget("a", |draft| {
        draft.rate = Some(rate.into());
        draft.burst = Some(burst.into());
    })
}

/// Asks in turn, for longer than any wait for a part takes.
async fn ask_for_a_while(limiters: &[Limiter], mut check: impl FnMut(usize, &Decision, Tick)) {
    let end = HostClock.now().after(Span::from_millis(1_500));
    while HostClock.now() < end {
        for (index, limiter) in limiters.iter().enumerate() {
            let decision = limiter.decide_within(1, WITHIN).await;
            check(index, &decision, HostClock.now());
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

/// The wait is that in which the rate makes the token, whatever the rate. It was a tenth of a second for all.
#[tokio::test]
async fn a_spent_slow_rate_tells_when_it_makes_a_token() {
    for (rate, secs) in [("1 per 10s", 10), ("1 per 10 days", 864_000)] {
        let node = FakeNode::start(1, vec![slow(rate, 1)]).await;
        let clients = [client(&[&node])];
        let mut taken = None;
        ask_for_a_while(&limiters(&clients), |_, decision, now| {
            let Some(refused) = decision.refused() else {
                assert!(taken.replace(now).is_none(), "one token");
                return;
            };
            assert_eq!(refused.reason, Reason::Throttled);
            let since = now.since(taken.expect("it was there first"));
            let since = Duration::from_nanos(since.nanos());
            let wait = refused.retry_after.expect("a wait");
            let (from, to) = (Duration::from_secs(secs), Duration::from_millis(500));
            assert!(
                wait + since + to >= from && wait <= from,
                "{wait:?} {since:?}"
            );
            let info = decision.info.expect("a state");
            assert_eq!((info.limit, info.remaining), (1, 0));
            // Burst and rate are those of one token: it is full again when it has one.
            assert_eq!(info.window, Some(secs));
            let reset = info.reset.expect("time fills it");
            assert!(
                reset + since + to >= from && reset <= from,
                "{reset:?} {since:?}"
            );
        })
        .await;
        assert!(taken.is_some());
    }
}

/// A client's share makes a token in twice the time that the budget needs. But what the budget makes comes to
/// where callers are refused.
#[tokio::test]
async fn a_second_client_is_reported_the_time_of_the_whole_rate() {
    let node = FakeNode::start(1, vec![slow("2 per 10s", 2)]).await;
    let clients = [client(&[&node]), client(&[&node])];
    let mut taken = 0;
    ask_for_a_while(&limiters(&clients), |index, decision, _| {
        taken += u32::from(decision.is_admitted());
        if let Some(refused) = decision.refused() {
            let wait = refused.retry_after.expect("a wait");
            assert!(wait <= Duration::from_secs(5), "{index}: {wait:?}");
            assert_eq!(decision.info.map(|info| info.remaining), Some(0));
        }
    })
    .await;
    assert_eq!(taken, 2);
}

/// A look takes nothing, and is answered for a key that no one has used yet.
#[tokio::test]
async fn a_look_at_a_cold_key_tells_limit_and_rest() {
    let quota = budget("a", |draft| draft.quota = Some("1000 per day".into()));
    for (budget, limit) in [
        (slow("1 per 10s", 1), 1),
        (slow("100/s", 100), 100),
        (quota, 1_000),
    ] {
        let node = FakeNode::start(1, vec![budget]).await;
        let client = client(&[&node]);
        let limiter = client.limiter("a").expect("a key");
        for _ in 0..3 {
            let look = limiter.decide_within(0, WITHIN).await;
            assert!(look.is_admitted(), "{look:?}");
            let info = look.info.expect("a state");
            assert_eq!(info.limit, limit);
            assert!(
                info.remaining + 1 >= limit && info.remaining <= limit,
                "{info:?}"
            );
        }
        assert!(limiter.decide_within(1, WITHIN).await.is_admitted());
    }
}
