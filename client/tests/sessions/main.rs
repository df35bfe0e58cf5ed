//! A client and nodes in one process, over real connections.

mod answers;
mod central;
mod forgotten;
mod frozen;
mod gaps;
mod layer;
mod line;
mod many;
mod members;
mod modes;
mod node;
mod outage;
mod shares;
mod silence;
mod steady;
mod steps;

use aliquot_client::limiter::{Kind, LimiterState};
use aliquot_client::observe::SessionId;
use aliquot_client::{BuildError, Client, KeyRefused, Reason};
use aliquot_core::budget::{ExpiryDraft, PartDraft};
use aliquot_core::unit::Span;
use node::{FakeNode, budget, rate};
use std::time::Duration;

/// Polls `so` until it returns true; fails the test after ten seconds.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "in vain: {what}");
}

fn client(nodes: &[&FakeNode]) -> Client {
    let addresses = nodes.iter().map(|node| node.address.clone());
    Client::builder()
        .addresses(addresses)
        .seed(1)
        .connect()
        .expect("a client")
}

/// Returns the session that the client named when it connected for the second time.
fn resumed(node: &FakeNode) -> Option<SessionId> {
    let edge = node.with(|inner| inner.opens[1].resume);
    edge.map(|edge| SessionId {
        node: edge.parent.get(),
        client: edge.child.get(),
    })
}

fn policy(key: &str, expiry: ExpiryDraft) -> aliquot_core::budget::Budget {
    budget(key, |draft| {
        draft.rate = Some("1000/s".into());
        draft.burst = Some("1000".into());
        draft.on_lease_expiry = Some(expiry);
        if draft.on_lease_expiry == Some(ExpiryDraft::Word("floor".into())) {
            draft.floor = Some(PartDraft {
                rate: Some("10/s".into()),
                burst: Some("10".into()),
                permits: None,
            });
        }
    })
}

#[tokio::test]
async fn a_cold_key_is_admitted_as_soon_as_the_node_has_answered() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = Client::builder()
        .addresses([node.address.clone()])
        .cold_wait(Duration::from_secs(5))
        .connect()
        .expect("a client");
    let limiter = client.limiter("a").expect("a key");
    let refused = limiter.try_acquire(1).expect_err("nothing is known yet");
    assert_eq!(refused.reason, Reason::Cold);
    assert!(refused.retry_after.is_some());
    let admission = limiter.acquire(1).await.expect("a token");
    assert_eq!(admission.tokens, 1);
    let held = limiter.peek();
    assert_eq!((held.kind, held.state), (Kind::Rate, LimiterState::Leased));
    assert!(held.rate > 0 && held.rate <= 1_000, "{held:?}");
}

#[tokio::test]
async fn connecting_needs_no_node_and_a_key_stays_cold_without_one() {
    let client = Client::connect(["127.0.0.1:1"]).expect("a client");
    let limiter = client.limiter("a").expect("a key");
    let refused = limiter.acquire(1).await.expect_err("no node");
    assert_eq!(refused.reason, Reason::Cold);
}

#[tokio::test]
async fn a_key_that_no_rule_names_is_refused_as_that() {
    let node = FakeNode::start(1, vec![]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("no/budget").expect("a key");
    until("no budget", || {
        limiter.peek().state == LimiterState::NoBudget
    })
    .await;
    let refused = limiter.try_acquire(1).expect_err("no rule");
    assert_eq!(refused.reason, Reason::NoBudget);
}

#[tokio::test]
async fn invalid_settings_are_named() {
    let client = Client::builder()
        .addresses(["127.0.0.1:1"])
        .keys_max(1)
        .connect()
        .expect("a client");
    let error = client.limiter("a//b").expect_err("no key").to_string();
    assert!(
        error.contains("a//b") && error.contains("segment"),
        "{error}"
    );
    let _held = client.limiter("a").expect("room");
    client.limiter("a").expect("the same");
    let most = 1;
    assert_eq!(
        client.limiter("b").err(),
        Some(KeyRefused::TooMany { most })
    );
    assert_eq!(Client::connect([""; 0]).err(), Some(BuildError::NoAddress));
    let error = Client::connect(["a"]).expect_err("no port").to_string();
    assert!(error.contains("\"a\"") && error.contains("port"), "{error}");
}

#[tokio::test]
async fn a_throttled_caller_is_reported_when_and_is_then_admitted() {
    let node = FakeNode::start(1, vec![rate("a", 100)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst == 100).await;
    let now = aliquot_client::Clock::now(&aliquot_client::clock::HostClock);
    while limiter.try_acquire_at(1, now).is_ok() {}
    let refused = limiter.try_acquire_at(1, now).expect_err("spent");
    assert_eq!(refused.reason, Reason::Throttled);
    let wait = refused.retry_after.expect("a wait");
    assert!(wait <= Duration::from_millis(10), "{wait:?}");
    let later = now.after(Span::from_nanos(wait.as_nanos() as u64));
    limiter.try_acquire_at(1, later).expect("made by then");
    assert_eq!(
        limiter
            .try_acquire_at(101, later)
            .expect_err("too many")
            .reason,
        Reason::ExceedsBurst
    );
    limiter
        .acquire(50)
        .await
        .expect("made within half a second");
    let most = Duration::from_millis(50);
    let refused = limiter
        .acquire_within(90, most)
        .await
        .expect_err("too late");
    assert_eq!(refused.reason, Reason::Throttled);
}

/// Returns a client and a limiter once the node is gone and the lease has ended.
async fn after_the_lease(expiry: ExpiryDraft) -> (Client, aliquot_client::Limiter) {
    let node = FakeNode::start(1, vec![policy("a", expiry)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    until("a floor, if there is one", || {
        node.with(|inner| inner.reports > 3)
    })
    .await;
    node.cut(true);
    until("the lease is over", || {
        let right = limiter.peek().state;
        right != LimiterState::Leased && client.status().lease.is_zero()
    })
    .await;
    // The session task changes the bucket when the lease ends.
    until("the policy", || client.status().node.is_none()).await;
    (client, limiter)
}

#[tokio::test]
async fn deny_refuses_once_the_lease_is_over() {
    let (_client, limiter) = after_the_lease(ExpiryDraft::Word("deny".into())).await;
    let refused = limiter.try_acquire(1).expect_err("no lease");
    assert_eq!(refused.reason, Reason::Lapsed);
}

#[tokio::test]
async fn keep_goes_on_with_the_last_share() {
    let (_client, limiter) = after_the_lease(ExpiryDraft::Word("keep".into())).await;
    until("kept", || limiter.peek().state == LimiterState::Forever).await;
    assert!(limiter.peek().rate >= 990);
    limiter.acquire(5).await.expect("the last share");
}

#[tokio::test]
async fn open_admits_everything() {
    let (_client, limiter) = after_the_lease(ExpiryDraft::Word("open".into())).await;
    until("open", || limiter.peek().state == LimiterState::Open).await;
    limiter.try_acquire(1_000_000).expect("everything");
}

#[tokio::test]
async fn floor_goes_on_with_the_floor() {
    let (_client, limiter) = after_the_lease(ExpiryDraft::Word("floor".into())).await;
    until("a floor", || limiter.peek().state == LimiterState::Floor).await;
    let floor = limiter.peek();
    assert_eq!((floor.rate, floor.burst), (10, 10));
    assert!(floor.level <= 10);
    limiter.acquire(1).await.expect("the floor");
}

#[tokio::test]
async fn a_lost_connection_is_taken_up_again_with_nothing_lost() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    let edge = client.status().session;
    node.cut(false);
    until("a new stream", || node.with(|inner| inner.opens.len() > 1)).await;
    until("a node", || client.status().node.is_some()).await;
    assert_eq!(resumed(&node), edge);
    assert_eq!(client.status().session, edge);
    limiter.try_acquire(1).expect("it was never out of use");
}

#[tokio::test]
async fn a_client_whose_node_dies_uses_its_lease_to_the_end_and_goes_on_with_another() {
    let first = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let second = FakeNode::start(2, vec![rate("a", 1_000)]).await;
    let client = client(&[&first, &second]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    let (dead, other) = match client.status().node == Some(first.address.clone()) {
        true => (first, second),
        false => (second, first),
    };
    let former = client.status().session;
    dead.cut(true);
    until("the other node opens", || {
        other.with(|inner| !inner.opens.is_empty())
    })
    .await;
    if client.status().lease > Duration::from_millis(300) {
        assert_eq!(client.status().session, former, "a lease that runs is used");
        limiter.acquire(1).await.expect("the share under it");
    }
    until("the other node", || client.status().session != former).await;
    until("another share", || limiter.try_acquire(1).is_ok()).await;
    assert_eq!(client.status().node, Some(other.address));
}

#[tokio::test]
async fn a_client_that_is_sent_away_hands_back_first_and_goes() {
    let first = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let second = FakeNode::start(2, vec![rate("a", 1_000)]).await;
    let client = client(&[&first]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    first.send_away(&second.address);
    until("there", || {
        client.status().node == Some(second.address.clone())
    })
    .await;
    until("a share there", || limiter.try_acquire(1).is_ok()).await;
    assert!(
        first.with(|inner| inner.leaves) > 0,
        "it said that it leaves"
    );
    let run = second.with(|inner| inner.node.incarnation());
    assert_eq!(
        client.status().session.map(|session| session.node),
        Some(run.get())
    );
}

/// A part that a client does not return when it leaves is idle until the lease of its session ends.
#[tokio::test]
async fn a_grant_that_crosses_the_hand_back_is_returned_too() {
    let budgets = || vec![rate("a", 1_000), rate("b", 1_000)];
    let first = FakeNode::start(1, budgets()).await;
    let second = FakeNode::start(2, budgets()).await;
    // The session would end by itself long after the test has failed.
    first.with(|inner| inner.lease = Span::from_secs(120));
    let client = client(&[&first]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    first.with(|inner| inner.slow = true);
    let other = client.limiter("b").expect("a key");
    until("a grant on its way", || {
        let _ = other.try_acquire(1);
        first.with(|inner| inner.has_given("b"))
    })
    .await;
    first.send_away(&second.address);
    until("the hand-back", || first.with(|inner| inner.leaves > 0)).await;
    first.with(|inner| inner.slow = false);
    until("nothing is left there", || {
        first.with(|inner| inner.node.ledger().children().count() == 0)
    })
    .await;
    until("shares elsewhere", || {
        limiter.try_acquire(1).is_ok() && other.try_acquire(1).is_ok()
    })
    .await;
    assert_eq!(client.status().node, Some(second.address));
}

#[tokio::test]
async fn close_hands_everything_back_and_admits_nothing_more() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    assert!(client.close().await, "the node took it");
    assert_eq!(
        limiter.try_acquire(1).expect_err("closed").reason,
        Reason::Closed
    );
    assert_eq!(client.limiter("b").err(), Some(KeyRefused::Closed));
    let id = aliquot_core::unit::BudgetId::new(1);
    let held = node.with(|inner| inner.node.account(id).map(|account| account.held()));
    assert!(held.is_some_and(|held| held.is_zero()), "{held:?}");
}

#[tokio::test]
async fn permits_in_flight_never_exceed_the_share_and_return_when_dropped() {
    let limit = budget("p", |draft| {
        draft.concurrency = Some("3".into());
        draft.max_hold = Some("10s".into());
    });
    let node = FakeNode::start(1, vec![limit]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("p").expect("a key");
    until("all permits", || limiter.peek().burst == 3).await;
    let permits: Vec<_> = (0..3).map(|_| limiter.try_permit().expect("one")).collect();
    assert!(permits.iter().all(aliquot_client::Permit::is_valid));
    assert_eq!(
        limiter.try_permit().expect_err("all out").reason,
        Reason::Permits
    );
    assert_eq!(
        limiter.try_acquire(1).expect_err("permits").reason,
        Reason::WrongKind
    );
    drop(permits);
    let _one = limiter.permit().await.expect("they came back");
}

#[tokio::test]
async fn a_recalled_permit_is_not_taken_again_by_callers_that_wait() {
    let limit = budget("p", |draft| {
        draft.concurrency = Some("4".into());
        draft.max_hold = Some("60s".into());
    });
    let node = FakeNode::start(1, vec![limit]).await;
    let first = client(&[&node]);
    let limiter = first.limiter("p").expect("a key");
    until("all permits", || limiter.peek().burst == 4).await;
    // More callers than permits: whenever one is released, another caller takes it at once.
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let limiter = limiter.clone();
        callers.spawn(async move {
            loop {
                let permit = limiter.permit().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(permit);
            }
        });
    }
    let second = client(&[&node]);
    let other = second.limiter("p").expect("a key");
    let served = tokio::time::timeout(Duration::from_secs(5), async {
        while other.permit().await.is_err() {}
    });
    assert!(served.await.is_ok(), "no permit came within five seconds");
}

#[tokio::test]
async fn a_quota_is_spent_once_and_reported() {
    let limit = budget("q", |draft| draft.quota = Some("5/hour".into()));
    let node = FakeNode::start(1, vec![limit]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("q").expect("a key");
    let mut admitted = 0;
    until("five", || {
        if let Ok(admission) = limiter.try_acquire(1) {
            admitted += 1;
            assert_eq!(admission.period, 1, "the node's first");
        }
        admitted == 5
    })
    .await;
    let refused = limiter.acquire(1).await.expect_err("spent");
    assert_eq!(refused.reason, Reason::Quota);
    let id = aliquot_core::unit::BudgetId::new(1);
    until("it is reported", || {
        let spent = node.with(|inner| inner.node.account(id).map(|account| account.spent()));
        spent.is_some_and(|spent| spent.grains() == 5)
    })
    .await;
}

#[tokio::test]
async fn a_node_that_says_nothing_is_left_for_another() {
    let first = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let second = FakeNode::start(2, vec![rate("a", 1_000)]).await;
    let client = client(&[&first, &second]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    let (mute, other) = match client.status().node == Some(first.address.clone()) {
        true => (first, second),
        false => (second, first),
    };
    mute.with(|inner| inner.mute = true);
    until("the other", || {
        client.status().node == Some(other.address.clone())
    })
    .await;
    until("a share there", || limiter.try_acquire(1).is_ok()).await;
}

#[tokio::test]
async fn a_node_without_a_lease_is_left_for_another() {
    let first = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let second = FakeNode::start(2, vec![rate("a", 1_000)]).await;
    let client = client(&[&first, &second]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    let (poor, other) = match client.status().node == Some(first.address.clone()) {
        true => (first, second),
        false => (second, first),
    };
    poor.with(|inner| inner.renewing = false);
    until("the other", || {
        client.status().node == Some(other.address.clone())
    })
    .await;
    until("a share there", || limiter.try_acquire(1).is_ok()).await;
}

#[tokio::test]
async fn the_default_rule_decides_for_keys_that_no_rule_names() {
    let node = FakeNode::start(1, vec![]).await;
    let hour = Duration::from_secs(3_600);
    let limit = aliquot_client::Limit::per(1, hour);
    let client = Client::builder()
        .addresses([node.address.clone()])
        .default_rule(aliquot_client::DefaultRule::Local { limit, burst: 3 })
        .connect()
        .expect("a client");
    let limiter = client.limiter("a").expect("a key");
    until("the rule", || limiter.peek().state == LimiterState::Forever).await;
    assert_eq!((0..9).filter(|_| limiter.try_acquire(1).is_ok()).count(), 3);
    let refused = limiter.acquire(4).await.expect_err("never");
    assert_eq!(refused.reason, Reason::ExceedsBurst);
}
