//! Layers that limit requests in flight.

use aliquot_client::http::{PermitLayer, RequestLimits};
use aliquot_client::{Limit, Limiter, RateLimitLayer};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::{FutureExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

async fn ask(app: &Router) -> Response<Body> {
    let answer = app.clone().oneshot(Request::new(Body::empty())).await;
    answer.expect("it never fails")
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn app(limiter: Limiter) -> Router {
    hello().layer(PermitLayer::new(limiter).wait(Duration::ZERO).problems())
}

/// Layers that take a permit for each request: one limit, one of several, and a limit of any kind.
fn layers(permits: &Limiter) -> [(RateLimitLayer, &'static str); 3] {
    let tokens = Limiter::local(Limit::per_sec(1), 1_000).expect("a limit");
    let limits = || RequestLimits::new().limiter("tokens", tokens.clone());
    let combined = |limits| RateLimitLayer::combined(limits).expect("limits");
    [
        (RateLimitLayer::new(permits.clone()), "share"),
        (combined(limits().limiter("jobs", permits.clone())), "jobs"),
        (combined(limits().limit("jobs", permits.clone())), "jobs"),
    ]
}

#[tokio::test]
async fn a_permit_is_held_until_the_body_has_been_sent_or_dropped() {
    let limiter = Limiter::local_permits(2).expect("permits");
    let mut apps = vec![(app(limiter.clone()), "share")];
    apps.extend(layers(&limiter).map(|(layer, name)| (hello().layer(layer.cost(|_| 7)), name)));
    for (app, name) in apps {
        let (first, second) = (ask(&app).await, ask(&app).await);
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(second.status(), StatusCode::OK);
        let refused = ask(&app).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()["retry-after"], "1");
        let rate_limit = format!("\"{name}\";r=0");
        assert_eq!(refused.headers()["ratelimit"], rate_limit.as_str());
        assert_eq!(limiter.peek().level, 0, "a refusal holds no permit");
        let body = axum::body::to_bytes(first.into_body(), 100).await;
        assert_eq!(body.expect("a body"), "hello");
        assert_eq!(limiter.peek().level, 1);
        drop(second);
        assert_eq!(limiter.peek().level, 2);
    }
}

/// A service with a body of two frames, of which the second may fail.
#[tokio::test]
async fn a_permit_is_held_through_each_frame_until_the_last_or_a_failed_one() {
    let permits = Limiter::local_permits(1).expect("permits");
    for fails in [false, true] {
        for (layer, _) in layers(&permits) {
            let service = service_fn(move |_: Request<()>| async move {
                let second = match fails {
                    true => Err(io::Error::other("the disk is gone")),
                    false => Ok("two"),
                };
                let frames = stream::iter([Ok("one"), second]);
                Ok::<_, Infallible>(Response::new(Body::from_stream(frames)))
            });
            let answer = layer.layer(service).oneshot(Request::new(())).await;
            let mut body = pin!(answer.expect("it never fails").into_body());
            let mut next = || {
                let frame = body
                    .as_mut()
                    .poll_frame(&mut Context::from_waker(Waker::noop()));
                assert!(frame.is_ready());
                permits.peek().level
            };
            assert_eq!(next(), 0, "one more is to be sent");
            assert_eq!(next(), u64::from(fails));
            assert_eq!(next(), 1);
        }
    }
}

/// A caller that hangs up before the answer, and a service that fails.
#[tokio::test]
async fn a_request_without_a_response_holds_no_permit() {
    let permits = Limiter::local_permits(1).expect("permits");
    for (layer, _) in layers(&permits) {
        let never = service_fn(async |_: Request<()>| {
            pending::<Result<Response<String>, Infallible>>().await
        });
        let never = layer.layer(never).oneshot(Request::new(()));
        let mut never = Box::pin(never);
        assert!((&mut never).now_or_never().is_none());
        assert_eq!(permits.peek().level, 0);
        drop(never);
        assert_eq!(permits.peek().level, 1);
        let fails = service_fn(async |_: Request<()>| Err::<Response<String>, _>("it is broken"));
        let answer = layer.layer(fails).oneshot(Request::new(())).await;
        assert_eq!(answer.err(), Some("it is broken"));
        assert_eq!(permits.peek().level, 1);
    }
}

/// A refused request leaves the other limits as they were, whichever refuses.
#[tokio::test]
async fn permits_and_tokens_are_taken_together_or_not_at_all() {
    let permits = Limiter::local_permits(2).expect("permits");
    let tokens = Limiter::local(Limit::every(Duration::from_secs(1_000)), 3).expect("a limit");
    let limits = RequestLimits::new()
        .limiter("jobs", permits.clone())
        .limiter("tokens", tokens.clone());
    let admitted = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&admitted);
    let layer = RateLimitLayer::combined(limits).expect("limits");
    let app = hello().layer(layer.on_admit(move |_, admission| {
        seen.fetch_add(admission.tokens, Ordering::Relaxed);
    }));
    let left = || (permits.peek().level, tokens.peek().level);
    let held = (ask(&app).await, ask(&app).await);
    assert_eq!(left(), (0, 1));
    assert_eq!(ask(&app).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(left(), (0, 1), "no permit was free");
    drop(held);
    assert_eq!(ask(&app).await.status(), StatusCode::OK);
    assert_eq!(left(), (2, 0));
    assert_eq!(ask(&app).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(left(), (2, 0), "no token was there");
    assert_eq!(
        admitted.load(Ordering::Relaxed),
        6,
        "a permit and a token of each"
    );
}

/// A layer around another one answers by itself, too.
#[tokio::test]
async fn layers_lie_within_each_other() {
    let permits = Limiter::local_permits(1).expect("permits");
    let layers = ServiceBuilder::new()
        .layer(PermitLayer::new(permits.clone()).wait(Duration::ZERO))
        .layer(RateLimitLayer::new(permits.clone()).problems())
        .layer(RateLimitLayer::new(
            Limiter::local(Limit::per_sec(1), 1).expect("a limit"),
        ));
    let service = layers
        .service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Body::from("hello"))));
    let answer = service.oneshot(Request::new(())).await.expect("an answer");
    // The first layer has the only permit.
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    let body = axum::body::to_bytes(Body::new(answer.into_body()), 1_000).await;
    assert!(body.expect("a body").starts_with(b"{\"type\""));
    assert_eq!(permits.peek().level, 1);
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
