//! The tower layer in front of axum and of a gRPC server.

use super::central::{kept, limiters, small};
use super::node::{FakeNode, budget, rate};
use super::{client, until};
use aliquot_client::http::{Misconfigured, NoKey, PermitLayer, Problems, RequestLimits};
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, Limit, Limiter, RateLimitLayer};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
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
    let layer = RateLimitLayer::by_key(&client, |request| {
        (request.uri.path() != "/health").then(|| "a".into())
    })
    .without_key(NoKey::Admit)
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

/// Returns the answer of a layer to a request, with its policy, its state and its wait.
async fn rejection(layer: &RateLimitLayer<Problems>) -> (StatusCode, [Option<String>; 3]) {
    let service = tower::service_fn(async |_: Request<()>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    });
    let answer = tower::Layer::layer(layer, service).oneshot(Request::new(()));
    let answer = answer.await.expect("it never fails");
    let field = |name| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
    (
        answer.status(),
        ["ratelimit-policy", "ratelimit", "retry-after"].map(field),
    )
}

/// A hundred a minute and a thousand a day, with different parts of them held here.
#[tokio::test]
async fn the_policy_of_a_leased_limit_is_what_its_author_wrote() {
    let minute = budget("minute", |draft| {
        draft.rate = Some("100/min".into());
        draft.burst = Some("20".into());
    });
    let node = FakeNode::start(1, vec![minute, daily("day")]).await;
    let clients = [client(&[&node]), client(&[&node])];
    for client in &clients {
        for (key, policy) in [
            ("minute", "\"share\";q=100;w=60"),
            ("day", "\"share\";q=1000;w=86400"),
        ] {
            let layer = RateLimitLayer::by_key(client, move |_| Some(key.into())).problems();
            let (status, [rejection, ..]) = rejection(&layer).await;
            assert_eq!(status, StatusCode::OK);
            assert_eq!(rejection.as_deref(), Some(policy));
        }
    }
    // In central mode.
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let layer = RateLimitLayer::by_key(&clients[0], |_| Some("a".into())).problems();
    until("the home tells what is left", || {
        limiters[0].peek().burst == 0
    })
    .await;
    let (_, [policy, ..]) = rejection(&layer).await;
    let whole = limiters[0].whole_limit();
    let (limit, window) = whole.expect("the terms are known");
    let expect = format!("\"share\";q={limit};w={}", window.expect("a rate"));
    assert_eq!(policy, Some(expect));
}

/// No budget, and for a layer of permits one of the wrong kind: mistakes of the operator, and never an excess of the
/// caller.
#[tokio::test]
async fn a_budget_that_is_not_there_or_of_another_kind_is_no_excess() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = client(&[&node]);
    let fault = StatusCode::INTERNAL_SERVER_ERROR;
    for (key, reason) in [("none", "no_budget")] {
        let limiter = client.limiter(key).expect("a key");
        until("its terms are known", || {
            limiter.peek().state != LimiterState::Cold
        })
        .await;
        let one = RateLimitLayer::by_key(&client, move |_| Some(key.into()));
        let several =
            RequestLimits::new()
                .limiter("user", own(1_000))
                .by_key("fleet", &client, move |_| Some(key.into()));
        let several = RateLimitLayer::combined(several).expect("limits");
        for layer in [one, several] {
            let layer = layer.problems();
            assert_eq!(
                rejection(&layer).await,
                (fault, [None, None, None]),
                "{key}"
            );
            let (_, body) = response_text(&layer).await;
            assert!(body.contains(&format!("\"reason\":\"{reason}\"")), "{body}");
            let app = Router::new().route("/", get(|| async { "hello" }));
            let admits = layer.clone().misconfigured(Misconfigured::Admit);
            let app = app.layer(layer).into_service::<Body>();
            let answer = app.oneshot(request(true)).await.expect("an answer");
            assert_eq!(header(&answer, "grpc-status"), Some("13"), "{key}");
            assert_eq!(header(&answer, "grpc-message"), Some(reason));
            assert_eq!(header(&answer, "grpc-retry-pushback-ms"), None);
            assert_eq!(rejection(&admits).await.0, StatusCode::OK, "{key}");
        }
    }
    for key in ["none", "a"] {
        let limiter = client.limiter(key).expect("a key");
        until("its terms are known", || {
            limiter.peek().state != LimiterState::Cold
        })
        .await;
        for wait in [Duration::ZERO, Duration::from_millis(50)] {
            let layer = PermitLayer::new(limiter.clone()).wait(wait);
            let app = Router::new().route("/", get(|| async { "hello" }));
            let app = app.layer(layer).into_service::<Body>();
            let answer = app
                .clone()
                .oneshot(request(false))
                .await
                .expect("an answer");
            assert_eq!(answer.status(), fault, "{key}");
            assert_eq!(header(&answer, "retry-after"), None);
            assert_eq!(header(&answer, "ratelimit-policy"), None);
            let answer = app.oneshot(request(true)).await.expect("an answer");
            assert_eq!(header(&answer, "grpc-status"), Some("13"), "{key}");
        }
    }
}

/// Permits of a leased budget, of a client that knows nothing of it at its first request.
#[tokio::test]
async fn a_layer_holds_leased_permits_until_the_response_has_been_sent() {
    let jobs = |key| budget(key, |draft| draft.concurrency = Some(5_u64.into()));
    let node = FakeNode::start(1, vec![jobs("one"), jobs("several")]).await;
    let client = client(&[&node]);
    let tokens = own(1_000);
    let one = RateLimitLayer::by_key(&client, |_| Some("one".into()));
    let several =
        RequestLimits::new()
            .limiter("user", tokens.clone())
            .by_key("fleet", &client, |_| Some("several".into()));
    let several = RateLimitLayer::combined(several).expect("limits");
    for layer in [one, several] {
        let app = Router::new().route("/", get(|| async { "hello" }));
        let app = app.layer(layer).into_service::<Body>();
        let ask = || async {
            app.clone()
                .oneshot(request(false))
                .await
                .expect("an answer")
        };
        let mut answers = Vec::new();
        for _ in 0..5 {
            let answer = ask().await;
            assert_eq!(answer.status(), StatusCode::OK);
            answers.push(answer);
        }
        let refused = ask().await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(header(&refused, "retry-after"), Some("1"));
        drop(answers);
        assert_eq!(ask().await.status(), StatusCode::OK);
    }
    assert_eq!(tokens.tokens() as u64, 1_000 - 6, "a refusal takes none");
}

/// A quota of a thousand a day: the unused rest stays at the node.
fn daily(key: &str) -> aliquot_core::budget::Budget {
    budget(key, |draft| draft.quota = Some("1000 per day".into()))
}

#[tokio::test]
async fn a_layer_waits_for_a_quota_that_was_not_dealt_here_yet() {
    let node = FakeNode::start(1, vec![daily("a")]).await;
    for fresh in 0..10 {
        let client = client(&[&node]);
        let limiter = client.limiter("a").expect("a key");
        let known = || limiter.peek().state == LimiterState::Leased;
        until("its terms are known", known).await;
        assert_eq!(limiter.peek().level, 0, "no caller wanted any");
        let layer = RateLimitLayer::by_key(&client, |_| Some("a".into())).problems();
        assert_eq!(response_text(&layer).await.0, StatusCode::OK, "{fresh}");
        let tiers = RequestLimits::new()
            .by_key("fleet", &client, |_| Some("a".into()))
            .limiter("user", own(10));
        let layer = RateLimitLayer::combined(tiers).expect("limits").problems();
        assert_eq!(response_text(&layer).await.0, StatusCode::OK, "{fresh}");
    }
}

#[tokio::test]
async fn a_layer_refuses_a_spent_quota() {
    let few = budget("a", |draft| draft.quota = Some("3 per day".into()));
    let node = FakeNode::start(1, vec![few]).await;
    let client = client(&[&node]);
    let layer = RateLimitLayer::by_key(&client, |_| Some("a".into())).problems();
    let mut served = 0;
    for _ in 0..20 {
        served += u32::from(response_text(&layer).await.0 == StatusCode::OK);
    }
    assert_eq!(served, 3);
}

async fn response_text(layer: &RateLimitLayer<Problems>) -> (StatusCode, String) {
    let service = tower::service_fn(async |_: Request<()>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    });
    let answer = tower::Layer::layer(layer, service).oneshot(Request::new(()));
    let answer = answer.await.expect("it never fails");
    (answer.status(), answer.into_body().into_inner())
}

fn own(burst: u64) -> Limiter {
    Limiter::local(Limit::ZERO, burst).expect("a limit")
}

#[tokio::test]
async fn among_several_limits_a_cold_key_is_waited_for_after_the_others_admitted() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = Client::builder()
        .addresses([node.address.clone()])
        .cold_wait(Duration::from_secs(5))
        .connect()
        .expect("a client");
    let user = own(1);
    let tiers = RequestLimits::new()
        .by_key("fleet", &client, |_| Some("a".into()))
        .limiter("user", user.clone());
    let layer = RateLimitLayer::combined(tiers).expect("limits").problems();
    let (status, rejected) = response_text(&layer).await;
    assert_eq!(status, StatusCode::OK, "{rejected}");
    assert_eq!(user.tokens(), 0.0);
    let (_, rejected) = response_text(&layer).await;
    assert!(rejected.contains("\"layer\":\"user\""), "{rejected}");
}

#[tokio::test]
async fn a_central_refusal_among_several_limits_costs_the_others_nothing() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let user = own(10);
    let layer = |cost| {
        let tiers = RequestLimits::new()
            .by_key("fleet", &clients[0], |_| Some("a".into()))
            .limiter("user", user.clone());
        let layer = RateLimitLayer::combined(tiers).expect("limits");
        layer.cost(move |_| cost).problems()
    };
    let (one, three) = (layer(1), layer(3));
    let mut served = 0.0;
    let three_times = tokio::time::timeout(Duration::from_secs(10), async {
        while served < 3.0 {
            match response_text(&one).await {
                (StatusCode::OK, _) => served += 1.0,
                (_, rejected) => assert!(rejected.contains("\"layer\":\"fleet\""), "{rejected}"),
            }
            assert_eq!(user.tokens(), 10.0 - served);
            tokio::task::yield_now().await;
        }
    });
    three_times.await.expect("it is never served");
    // More than the budget can ever have.
    let (status, rejected) = response_text(&three).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(rejected.contains("\"layer\":\"fleet\""), "{rejected}");
    assert_eq!(user.tokens(), 7.0);
    node.with(|inner| inner.silent = true);
    let asked = || node.with(|inner| inner.asked.len());
    let before = asked();
    let gone = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            tokio::select! {
                // A request that was just refused is refused again without a question.
                _ = response_text(&one) => tokio::task::yield_now().await,
                () = until("the question arrives", || asked() > before) => break,
            }
        }
    });
    gone.await.expect("in time");
    assert_eq!(user.tokens(), 7.0);
}

#[tokio::test]
async fn a_service_that_no_node_answers_is_unavailable() {
    // Nothing listens on the port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = gone.local_addr().expect("an address").to_string();
    drop(gone);
    let client = Client::builder()
        .addresses([address])
        .cold_wait(Duration::from_millis(50))
        .connect()
        .expect("a client");
    let layer = RateLimitLayer::by_key(&client, |_| Some("a".into()));
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(layer);
    let mut app = app.into_service::<Body>();
    let service = ServiceExt::<Request<Body>>::ready(&mut app)
        .await
        .expect("ready");
    let response = service.call(request(false)).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let call = app.call(request(true)).await.expect("an answer");
    assert_eq!(header(&call, "grpc-status"), Some("14"));
}
