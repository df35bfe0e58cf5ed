//! A node that stops answering: another one is tried, and the first is not left before the other is of use.

use super::node::{FakeNode, rate};
use super::{client, resumed, until};
use aliquot_client::clock::{HostClock, Span};
use aliquot_client::{Client, Clock, Limiter};
use aliquot_core::unit::Tick;
use std::time::Duration;

/// A client of two nodes with a long lease, the node in use, and the other one.
struct Pair {
    client: Client,
    limiter: Limiter,
    used: FakeNode,
    other: FakeNode,
}

impl Pair {
    async fn start() -> Self {
        let first = FakeNode::start(1, vec![rate("a", 1_000)]).await;
        let second = FakeNode::start(2, vec![rate("a", 1_000)]).await;
        for node in [&first, &second] {
            node.with(|inner| inner.lease = Span::from_secs(3));
        }
        let client = client(&[&first, &second]);
        let limiter = client.limiter("a").expect("a key");
        until("a share", || limiter.try_acquire(1).is_ok()).await;
        until("a long lease", || {
            client.status().lease > Duration::from_secs(2)
        })
        .await;
        let (used, other) = match client.status().node == Some(first.address.clone()) {
            true => (first, second),
            false => (second, first),
        };
        Self {
            client,
            limiter,
            used,
            other,
        }
    }

    /// The node stops answering, and the other one opens a session.
    async fn fall_silent(&self) {
        self.used.with(|inner| inner.mute = true);
        until("the other node opens", || sessions(&self.other) == 1).await;
    }
}

fn sessions(node: &FakeNode) -> usize {
    node.with(|inner| inner.node.ledger().children().count())
}

#[tokio::test]
async fn a_client_whose_node_answers_again_stays_and_leaves_nothing_elsewhere() {
    let pair = Pair::start().await;
    let edge = pair.client.status().session;
    pair.fall_silent().await;
    assert_eq!(pair.client.status().session, edge, "the lease runs");
    pair.limiter.acquire(1).await.expect("the share under it");
    let reports = pair.used.with(|inner| inner.reports);
    until("it goes on reporting", || {
        pair.used.with(|inner| inner.reports) > reports
    })
    .await;
    pair.used.with(|inner| inner.mute = false);
    until("no session is left elsewhere", || {
        sessions(&pair.other) == 0
    })
    .await;
    let counts_before = pair.other.with(|inner| (inner.reports, inner.leaves));
    assert_eq!(counts_before, (1, 1), "it sent only a closing report");
    let status = pair.client.status();
    assert_eq!(status.session, edge);
    assert_eq!(status.node, Some(pair.used.address.clone()));
    pair.limiter.acquire(1).await.expect("never out of use");
}

#[tokio::test]
async fn after_a_switch_the_new_share_is_used_only_after_the_old() {
    let pair = Pair::start().await;
    let former = pair.client.status().session;
    pair.fall_silent().await;
    let mut ends = Tick::from_nanos(0);
    until("it has gone over", || {
        let counts_before = pair.other.with(|inner| inner.reports);
        let (now, status) = (HostClock.now(), pair.client.status());
        if status.session == former {
            assert_eq!(
                counts_before, 0,
                "what is there is not asked for while the lease runs"
            );
            ends = ends.max(now.after(Span::from_nanos(status.lease.as_nanos() as u64)));
        }
        status.session != former
    })
    .await;
    assert!(HostClock.now() >= ends, "the old lease is over");
    until("a share there", || pair.limiter.try_acquire(1).is_ok()).await;
    assert_eq!(pair.client.status().node, Some(pair.other.address.clone()));
}

#[tokio::test]
async fn closing_during_a_dial_leaves_no_session_anywhere() {
    let pair = Pair::start().await;
    pair.fall_silent().await;
    // Regardless of which call closes the client, at once or afterwards.
    let both = tokio::join!(pair.client.close(), pair.client.close());
    assert_eq!(both, (false, false), "no node said that it was taken");
    assert!(!pair.client.close().await);
    until("none is left", || {
        sessions(&pair.other) + sessions(&pair.used) == 0
    })
    .await;
}

#[tokio::test]
async fn a_redirect_to_the_node_being_dialled_is_followed_at_once() {
    let pair = Pair::start().await;
    let former = pair.client.status();
    pair.fall_silent().await;
    pair.used.send_away(&pair.other.address);
    until("there", || {
        pair.client.status().node == Some(pair.other.address.clone())
    })
    .await;
    until("it was handed back", || sessions(&pair.used) == 0).await;
    assert!(pair.used.with(|inner| inner.leaves) > 0);
    assert_eq!(pair.other.with(|inner| inner.opens.len()), 1);
    assert_ne!(pair.client.status().session, former.session);
    until("a share there", || pair.limiter.try_acquire(1).is_ok()).await;
}

/// A connection that was given up opens late, and leads to the edge in use. Closing it would hand back
/// everything that the client holds.
#[tokio::test]
async fn a_late_open_of_the_edge_in_use_is_not_closed() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let other = FakeNode::start(2, Vec::new()).await;
    other.cut(true);
    node.with(|inner| inner.lease = Span::from_secs(3));
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    node.with(|inner| (inner.mute, inner.opens_late) = (true, true));
    until("another connection", || node.with(|inner| inner.late) == 1).await;
    // This outranks the doubt, so the connection is given up before it has opened.
    node.send_away(&other.address);
    until("it is refused there", || {
        let failure = client.status().failure;
        failure.is_some_and(|text| text.contains(&other.address))
    })
    .await;
    node.with(|inner| (inner.mute, inner.opens_late) = (false, false));
    until("the late reply", || {
        node.with(|inner| inner.opens.len()) > 1
    })
    .await;
    let reports = node.with(|inner| inner.reports);
    until("it goes on reporting", || {
        node.with(|inner| inner.reports) > reports + 2
    })
    .await;
    assert_eq!(node.with(|inner| inner.leaves), 0);
}

#[tokio::test]
async fn a_client_with_one_node_redials_it_and_keeps_its_edge() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    let edge = client.status().session;
    node.with(|inner| inner.mute = true);
    until("another connection", || {
        node.with(|inner| inner.opens.len() > 1)
    })
    .await;
    node.with(|inner| inner.mute = false);
    assert_eq!(resumed(&node), edge);
    let reports = node.with(|inner| inner.reports);
    until("it reports by it", || {
        node.with(|inner| inner.reports) > reports
    })
    .await;
    assert_eq!(client.status().session, edge);
    assert_eq!(sessions(&node), 1);
}
