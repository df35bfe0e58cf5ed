//! The layer that limits requests in flight.

use aliquot_client::http::PermitLayer;
use aliquot_client::{Limit, Limiter};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use std::time::Duration;
use tower::ServiceExt;

async fn ask(app: &Router) -> Response<Body> {
    let answer = app.clone().oneshot(Request::new(Body::empty())).await;
    answer.expect("it never fails")
}

fn app(limiter: Limiter) -> Router {
    let layer = PermitLayer::new(limiter).wait(Duration::ZERO).problems();
    let app = Router::new().route("/", get(|| async { "hello" }));
    app.layer(layer)
}

#[tokio::test]
async fn a_permit_is_held_until_the_body_has_been_sent_or_dropped() {
    let limiter = Limiter::local_permits(2).expect("permits");
    let app = app(limiter.clone());
    let (first, second) = (ask(&app).await, ask(&app).await);
    assert_eq!(first.status(), StatusCode::OK);
    let refused = ask(&app).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["ratelimit"], "\"share\";r=0");
    assert_eq!(limiter.peek().level, 0, "a refusal holds no permit");
    let body = axum::body::to_bytes(first.into_body(), 100).await;
    assert_eq!(body.expect("a body"), "hello");
    assert_eq!(limiter.peek().level, 1);
    drop(second);
    assert_eq!(limiter.peek().level, 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_permit() {
    let limiter = Limiter::local_permits(1).expect("permits");
    let layer = PermitLayer::new(limiter.clone());
    let app = Router::new().route("/", get(|| async { "hello" }));
    let app = app.layer(layer);
    let held = limiter.try_permit().expect("one");
    let waiting = tokio::spawn(async move { ask(&app).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    drop(held);
    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.status(), StatusCode::OK);
}

/// Tokens are no permits: that is a mistake in the service.
#[tokio::test]
async fn a_limit_of_tokens_has_no_permits() {
    let tokens = Limiter::local(Limit::per_sec(1), 1).expect("a limit");
    let refused = ask(&app(tokens)).await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
}
