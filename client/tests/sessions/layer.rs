//! The tower layer in front of axum and of a gRPC server.

use super::node::{FakeNode, rate};
use super::{client, until};
use aliquot_client::LimitLayer;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tower::{Service, ServiceExt};

fn request(grpc: bool) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    if grpc {
        let value = http::HeaderValue::from_static("application/grpc");
        request.headers_mut().insert("content-type", value);
    }
    request
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

#[tokio::test]
async fn the_layer_admits_what_the_limiter_does_and_says_429_with_when_to_retry() {
    let node = FakeNode::start(1, vec![rate("a", 20)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst == 20).await;
    let admitted = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&admitted);
    let layer = LimitLayer::by_key(&client, |request| {
        (request.uri.path() != "/health").then(|| "a".into())
    })
    .cost(|_| 10)
    .on_admit(move |_, admission| {
        seen.fetch_add(admission.tokens, Ordering::Relaxed);
    });
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/health", get(|| async { "well" }))
        .layer(layer);
    let mut app = app.into_service::<Body>();
    let mut refused = None;
    for _ in 0..5 {
        let service = ServiceExt::<Request<Body>>::ready(&mut app)
            .await
            .expect("ready");
        let response = service.call(request(false)).await.expect("an answer");
        assert!(
            header(&response, "ratelimit").is_some_and(|text| text.starts_with("\"share\";r="))
        );
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            refused = Some(response);
        }
    }
    let refused = refused.expect("50 are more than 20");
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    let policy = header(&refused, "ratelimit-policy");
    assert_eq!(policy, Some("\"share\";q=20;w=1"));
    assert_eq!(admitted.load(Ordering::Relaxed) % 10, 0);
    let mut health = request(false);
    *health.uri_mut() = http::Uri::from_static("/health");
    let response = app.call(health).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK, "it is not limited");
    let response = app.call(request(true)).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(header(&response, "grpc-status"), Some("8"));
    assert_eq!(header(&response, "grpc-message"), Some("throttled"));
}
