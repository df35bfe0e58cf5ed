//! Clients with thousands of keys.

use super::node::{FakeNode, rate};
use super::until;
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, KeyRefused, Limiter, Reason};
use aliquot_wire::session::KeyRefusal;
use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum number of keys of a session, and default maximum of a client.
const KEYS_MAX: usize = 16_384;

/// Maximum number of names that are asked for at a time.
const PENDING_MAX: usize = 1_024;

fn client(node: &FakeNode) -> Client {
    let builder = Client::builder().addresses([node.address.clone()]);
    builder.connect().expect("a client")
}

fn limiters(client: &Client, count: usize) -> Vec<Limiter> {
    let key = |at| format!("k/{at}");
    let limiter = |at| client.limiter(&key(at)).expect("room");
    (0..count).map(limiter).collect()
}

#[tokio::test]
async fn new_keys_are_asked_for_some_at_a_time_and_none_is_left_out() {
    const KEYS: usize = PENDING_MAX + 256;
    let budgets = (0..KEYS).map(|at| rate(&format!("k/{at}"), 1_000));
    let node = FakeNode::start(1, budgets.collect()).await;
    let client = client(&node);
    until("a session", || client.status().node.is_some()).await;
    node.with(|inner| inner.unmade = true);
    let limiters = limiters(&client, KEYS);
    let asked = || {
        node.with(|inner| {
            let keys = inner.interned.iter().flatten().cloned();
            keys.collect::<BTreeSet<_>>()
        })
    };
    let repeated = || node.with(|inner| inner.interned.iter().flatten().count()) > 3 * PENDING_MAX;
    until("they were asked for again", repeated).await;
    assert!(asked().len() <= PENDING_MAX, "{}", asked().len());
    let most = node.with(|inner| inner.interned.iter().map(Vec::len).max());
    assert!(most <= Some(PENDING_MAX), "{most:?}");
    let before = client.status().reports;
    node.with(|inner| inner.unmade = false);
    until("all are known", || {
        let known = |limiter: &Limiter| limiter.peek().state == LimiterState::Leased;
        limiters.iter().all(known)
    })
    .await;
    assert_eq!(asked().len(), KEYS);
    let reports = client.status().reports - before;
    assert!(reports < 400, "{reports} reports of {KEYS} keys");
}

#[tokio::test]
async fn a_client_with_all_the_keys_there_may_be_refuses_another_and_goes_on() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = client(&node);
    let held = client.limiter("a").expect("a key");
    held.acquire(1).await.expect("a token");
    let edge = client.status().session;
    let mut others = limiters(&client, KEYS_MAX - 1);
    let no = client.limiter("one/more").err();
    assert_eq!(no, Some(KeyRefused::TooMany { most: KEYS_MAX }));
    until("all are known not to be", || {
        let known = |limiter: &Limiter| limiter.peek().state == LimiterState::NoBudget;
        others.iter().all(known)
    })
    .await;
    held.acquire(1).await.expect("what is held goes on");
    assert_eq!(client.status().session, edge, "under the same edge");
    others.truncate(KEYS_MAX / 2);
    until("there is room again", || client.limiter("one/more").is_ok()).await;
    held.acquire(1).await.expect("what is held goes on");
}

/// A key without room in its session, or in its template, is refused with a reason of its own. Held keys go on.
async fn a_key_is_refused(by: KeyRefusal, state: LimiterState, reason: Reason) {
    let node = FakeNode::start(1, vec![rate("a", 1_000), rate("b", 1_000)]).await;
    let client = client(&node);
    let held = client.limiter("a").expect("a key");
    held.acquire(1).await.expect("a token");
    let edge = client.status().session;
    node.with(|inner| inner.refuses = Some(by));
    let other = client.limiter("b").expect("a key");
    until("there is no room", || other.peek().state == state).await;
    let refused = other.try_acquire(1).expect_err("no room");
    assert_eq!(refused.reason, reason);
    assert_eq!(refused.retry_after, Some(Duration::from_secs(5)));
    held.acquire(1).await.expect("what is held goes on");
    assert_eq!(client.status().session, edge, "under the same edge");
    node.with(|inner| inner.refuses = None);
    until("there is room again", || {
        other.peek().state == LimiterState::Leased
    })
    .await;
    other.acquire(1).await.expect("a token");
}

#[tokio::test]
async fn a_key_for_which_the_session_has_no_room_is_refused_as_that() {
    a_key_is_refused(
        KeyRefusal::SessionFull,
        LimiterState::NoRoom,
        Reason::NoRoom,
    )
    .await;
}

#[tokio::test]
async fn a_key_beyond_the_max_keys_of_its_template_is_refused_as_that() {
    a_key_is_refused(
        KeyRefusal::TooManyInstances,
        LimiterState::MaxKeys,
        Reason::MaxKeys,
    )
    .await;
    let reason = Reason::MaxKeys.to_string();
    assert_eq!(reason, "the template has reached max_keys");
}
