//! Responses of the layer.

use super::one;
use aliquot_client::web::{key, retry_after};
use aliquot_client::{Answers, Client, Fields, Keyed, Limit, LimitLayer, ManualClock};
use http::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tower::{Layer, ServiceExt, service_fn};

pub(crate) type Answer = Response<String>;

pub(crate) async fn asked<A: Answers<String> + 'static>(
    layer: &LimitLayer<A>,
    head: http::request::Builder,
) -> Answer {
    let service =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new("served".to_owned())));
    let answer = layer
        .layer(service)
        .oneshot(head.body(()).expect("a request"))
        .await;
    answer.expect("it never fails")
}

#[tokio::test]
async fn a_refusal_is_a_problem() {
    let (clock, limiter) = one();
    let layer = LimitLayer::new(limiter).problems();
    let get = || Request::builder().uri("/");
    assert_eq!(asked(&layer, get()).await.into_body(), "served");
    let refused = asked(&layer, get()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    assert_eq!(refused.headers()["retry-after"], "90");
    let problem: serde_json::Value = serde_json::from_str(refused.body()).expect("JSON");
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(
        (&problem["status"], &problem["reason"]),
        (&429.into(), &"throttled".into())
    );
    assert_eq!(problem["retry_after_ms"], 90_000);
    // A gRPC call has no body.
    let refused = asked(
        &layer,
        get().header("content-type", "application/grpc+proto"),
    )
    .await;
    assert_eq!(
        (refused.status(), refused.body().as_str()),
        (StatusCode::OK, "")
    );
    assert_eq!(refused.headers()["grpc-status"], "8");
    assert_eq!(refused.headers()["retry-after"], "90");
    assert_eq!(refused.headers()["grpc-retry-pushback-ms"], "90000");
    // A client that obeys returns exactly when the limit allows it, and not up to a second later.
    clock.advance(Duration::from_micros(89_100_500));
    let grpc = get().header("content-type", "application/grpc");
    let refused = asked(&layer, grpc).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    let (status, headers) = (refused.status(), refused.headers());
    let wait = retry_after(status, headers, 0);
    assert_eq!(wait, Some(Duration::from_millis(900)));
}

#[tokio::test]
async fn a_key_that_is_none_is_a_problem_that_does_not_repeat_it() {
    let client = Client::connect(["127.0.0.1:9"]).expect("a client");
    let layer = LimitLayer::by_key(&client, |_| Some("a\"\\\u{1}b".into())).problems();
    let refused = asked(&layer, Request::builder()).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let problem: serde_json::Value = serde_json::from_str(refused.body()).expect("JSON");
    assert_eq!(
        (&problem["status"], &problem["reason"]),
        (&400.into(), &"invalid_key".into())
    );
    client.close().await;
    let layer = LimitLayer::by_key(&client, |_| Some("a".into()));
    assert_eq!(
        asked(&layer, Request::builder()).await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn answers_say_what_they_are_told_to_say() {
    let says = async |fields: Fields| {
        let layer = LimitLayer::new(one().1).fields(fields);
        let answer = asked(&layer, Request::builder()).await;
        let names = [
            "ratelimit",
            "ratelimit-policy",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ];
        names.map(|name| {
            answer
                .headers()
                .get(name)
                .map(|value| value.to_str().expect("text").to_owned())
        })
    };
    let owned = |texts: [Option<&str>; 5]| texts.map(|text| text.map(str::to_owned));
    assert_eq!(says(Fields::None).await, owned([None; 5]));
    // Less than one token per second is stated without a time.
    let standard = [Some("\"share\";r=0"), Some("\"share\";q=1")];
    assert_eq!(
        says(Fields::Standard).await,
        owned([standard[0], standard[1], None, None, None])
    );
    assert_eq!(
        says(Fields::Legacy).await,
        owned([None, None, Some("1"), Some("0"), None])
    );
    assert_eq!(
        says(Fields::Both).await,
        owned([standard[0], standard[1], Some("1"), Some("0"), None])
    );
}

#[tokio::test]
async fn paths_are_left_out_and_keys_of_a_store_have_buckets_of_their_own() {
    let clock = ManualClock::new();
    let store = Keyed::builder(Limit::per_sec(2), 4, 100)
        .clock(Arc::new(clock.clone()))
        .build()
        .expect("a store");
    let layer = LimitLayer::in_store(Arc::new(store), key::header("x-user"))
        .cost(|head| if head.method == "POST" { 4 } else { 1 })
        .except(["/health", "/static/*"])
        .fields(Fields::Both);
    let status = async |method: &str, path: &str, user: &str| {
        let head = Request::builder()
            .method(method)
            .uri(path)
            .header("x-user", user);
        asked(&layer, head).await.status().as_u16()
    };
    assert_eq!(status("POST", "/", "a").await, 200);
    assert_eq!(status("GET", "/", "a").await, 429);
    assert_eq!(status("GET", "/", "b").await, 200);
    assert_eq!(status("GET", "/", "").await, 200);
    for free in ["/health", "/static/", "/static/a/b"] {
        assert_eq!(status("GET", free, "a").await, 200);
    }
    for limited in ["/health/", "/healthy", "/static", "/statics/a"] {
        assert_eq!(status("GET", limited, "a").await, 429, "{limited}");
    }
    clock.advance(Duration::from_millis(500));
    let answer = asked(&layer, Request::builder().uri("/").header("x-user", "a")).await;
    assert_eq!(answer.headers()["ratelimit"], "\"share\";r=0;t=2");
    assert_eq!(answer.headers()["x-ratelimit-reset"], "2");
}
