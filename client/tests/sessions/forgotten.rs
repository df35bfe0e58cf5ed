//! Keys that are no longer needed are forgotten, and make room for others.

use super::node::{FakeNode, budget, rate};
use super::until;
use aliquot_client::http::key;
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, DefaultRule, KeyRefused, Limit, RateLimitLayer, Reason};
use aliquot_core::budget::Budget;
use aliquot_core::unit::Incarnation;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, StatusCode};
use std::time::Duration;
use tower::ServiceExt;

const MOST: usize = 4;

fn client(node: &FakeNode, most: usize) -> Client {
    Client::builder()
        .addresses([node.address.clone()])
        .keys_max(most)
        .cold_wait(Duration::from_secs(5))
        .connect()
        .expect("a client")
}

fn many(count: usize, of: impl Fn(&str) -> Budget) -> Vec<Budget> {
    (0..count).map(|at| of(&format!("k/{at}"))).collect()
}

/// Returns whether the node has booked anything of a key for its clients.
fn booked(node: &FakeNode, key: &str) -> bool {
    node.with(|inner| {
        let id = inner.id(key);
        let account = inner.node.account(id);
        account.is_some_and(|account| !account.is_clear())
    })
}

#[tokio::test]
async fn more_keys_than_there_may_be_are_served_one_after_the_other_and_handed_back() {
    let node = FakeNode::start(1, many(40, |key| rate(key, 1_000))).await;
    let client = client(&node, MOST);
    for round in 0..2 {
        for at in 0..40 {
            let limiter = client.limiter(&format!("k/{at}")).expect("room");
            limiter
                .acquire(1)
                .await
                .unwrap_or_else(|no| panic!("{round}, {at}: {no}"));
            assert!(client.status().keys <= MOST);
        }
    }
    // The home may have decided for the last key as well, which holds nothing then.
    let last = client.limiter("k/39").expect("room");
    until("it is held", || {
        let _ = last.try_acquire(1);
        booked(&node, "k/39")
    })
    .await;
    for at in 0..40 - MOST {
        until("it is back", || !booked(&node, &format!("k/{at}"))).await;
    }
    assert_eq!(client.limiters().len(), MOST);
}

#[tokio::test]
async fn a_key_that_is_asked_for_again_is_given_no_more_than_there_is() {
    let hourly = |key: &str| budget(key, |draft| draft.quota = Some("10/hour".into()));
    let mut budgets = many(8, |key| rate(key, 1_000));
    budgets.push(hourly("q"));
    let node = FakeNode::start(1, budgets).await;
    let client = client(&node, 1);
    let mut admitted = 0;
    for round in 0..8 {
        let limiter = client.limiter("q").expect("room");
        for _ in 0..2 {
            admitted += u64::from(limiter.acquire(1).await.is_ok());
        }
        drop(limiter);
        let other = client.limiter(&format!("k/{round}")).expect("room");
        other.acquire(1).await.expect("a token");
    }
    assert_eq!(admitted, 10, "what was spent stays spent");
}

#[tokio::test]
async fn held_keys_stay_and_without_a_free_one_there_is_no_room() {
    let mut budgets = many(40, |key| rate(key, 1_000));
    budgets.push(budget("p", |draft| {
        draft.concurrency = Some("3".into());
        draft.max_hold = Some("60s".into());
    }));
    let node = FakeNode::start(1, budgets).await;
    let client = client(&node, 2);
    // A permit holds its key, even without a limiter.
    let permit = client
        .limiter("p")
        .expect("room")
        .permit()
        .await
        .expect("one");
    for at in 0..40 {
        let limiter = client.limiter(&format!("k/{at}")).expect("room");
        limiter.acquire(1).await.expect("a token");
    }
    assert!(permit.is_valid());
    let held = client.limiter("k/39").expect("it is there");
    assert_eq!(
        client.limiter("k/1").err(),
        Some(KeyRefused::TooMany { most: 2 })
    );
    held.acquire(1).await.expect("it is untouched");
    drop(permit);
    until("there is room again", || client.limiter("k/1").is_ok()).await;
}

#[tokio::test]
async fn a_rule_of_ones_own_is_not_full_again_for_being_forgotten() {
    let node = FakeNode::start(1, vec![]).await;
    let limit = Limit::per(1, Duration::from_secs(3_600));
    let client = Client::builder()
        .addresses([node.address.clone()])
        .default_rule(DefaultRule::Local { limit, burst: 3 })
        .keys_max(2)
        .connect()
        .expect("a client");
    for key in ["a", "b"] {
        let limiter = client.limiter(key).expect("room");
        until("the rule", || limiter.peek().state == LimiterState::Forever).await;
        assert!(limiter.try_acquire(1).is_ok());
    }
    let most = 2;
    assert_eq!(
        client.limiter("c").err(),
        Some(KeyRefused::TooMany { most })
    );
    assert_eq!(client.limiter("a").expect("it is there").peek().level, 2);
}

#[tokio::test]
async fn whatever_callers_say_they_are_others_are_still_served() {
    let node = FakeNode::start(1, vec![rate("user/known", 1_000)]).await;
    let client = client(&node, MOST);
    let user = key::all((key::text("user"), key::header("x-user")));
    let app = Router::new().route("/", get(|| async { "hello" }));
    let app = app.layer(RateLimitLayer::by_key(&client, user));
    let ask = async |user: &str| {
        let mut request = Request::new(Body::empty());
        let value = http::HeaderValue::from_str(user).expect("a header");
        request.headers_mut().insert("x-user", value);
        let response = app.clone().oneshot(request).await.expect("an answer");
        response.status()
    };
    assert_eq!(ask("known").await, StatusCode::OK);
    for at in 0..50 {
        ask(&format!("stranger-{at}")).await;
    }
    assert_eq!(ask("known").await, StatusCode::OK);
    assert!(client.status().keys <= MOST);
}

/// Forgotten keys are forgotten by the node, too, while callers continue to be served.
#[tokio::test]
async fn a_session_with_many_forgotten_keys_renews_its_edge() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = client(&node, 512);
    let limiter = client.limiter("a").expect("a key");
    limiter.acquire(1).await.expect("a token");
    let former = client.status().session.expect("an edge");
    for round in 0..6 {
        let strangers: Vec<_> = (0..500)
            .map(|at| {
                client
                    .limiter(&format!("stranger/{round}/{at}"))
                    .expect("room")
            })
            .collect();
        until("they are known not to be", || {
            strangers
                .iter()
                .all(|limiter| limiter.peek().state == LimiterState::NoBudget)
        })
        .await;
    }
    until("another edge", || client.status().session != Some(former)).await;
    assert_eq!(client.status().node, Some(node.address.clone()));
    // Between the two nothing is held.
    until("its part", || limiter.peek().state == LimiterState::Leased).await;
    limiter.acquire(1).await.expect("a token under it");
    until("the former session is over", || {
        let child = Incarnation::new(former.client);
        node.with(|inner| inner.node.ledger().child(child).is_none())
    })
    .await;
    let refused = client.limiter("stranger/0/0").expect("room").try_acquire(1);
    assert_eq!(refused.expect_err("anew").reason, Reason::Cold);
}
