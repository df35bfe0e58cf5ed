//! Responses of the layer.

use super::one;
use aliquot_client::http::{
    Fields, Misconfigured, NoKey, PermitBody, RefusalBody, RequestLimits, Reset, key, retry_after,
};
use aliquot_client::shape::{FixedWindow, Meter};
use aliquot_client::{Client, Keyed, Limit, Limiter, ManualClock, RateLimitLayer};
use http::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tower::{Layer, ServiceExt, service_fn};

pub(crate) type Answer = Response<String>;

pub(crate) async fn asked<A: RefusalBody<String> + 'static>(
    layer: &RateLimitLayer<A>,
    head: http::request::Builder,
) -> Answer {
    let service =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new("served".to_owned())));
    let answer = layer
        .layer(service)
        .oneshot(head.body(()).expect("a request"))
        .await;
    let answer = answer.expect("it never fails");
    answer.map(PermitBody::into_inner)
}

#[tokio::test]
async fn a_refusal_is_a_problem() {
    let (clock, limiter) = one();
    let layer = RateLimitLayer::new(limiter).problems();
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
    let layer = RateLimitLayer::by_key(&client, |_| Some("a\"\\\u{1}b".into())).problems();
    let refused = asked(&layer, Request::builder()).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let problem: serde_json::Value = serde_json::from_str(refused.body()).expect("JSON");
    assert_eq!(
        (&problem["status"], &problem["reason"]),
        (&400.into(), &"invalid_key".into())
    );
    client.close().await;
    let layer = RateLimitLayer::by_key(&client, |_| Some("a".into()));
    assert_eq!(
        asked(&layer, Request::builder()).await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn answers_say_what_they_are_told_to_say() {
    let says = async |fields: Fields| {
        let layer = RateLimitLayer::new(one().1).fields(fields);
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
    let standard = [Some("\"share\";r=0;t=90"), Some("\"share\";q=1;w=90")];
    assert_eq!(
        says(Fields::Standard).await,
        owned([standard[0], standard[1], None, None, None])
    );
    assert_eq!(
        says(Fields::Legacy).await,
        owned([None, None, Some("1"), Some("0"), Some("90")])
    );
    assert_eq!(
        says(Fields::Both).await,
        owned([standard[0], standard[1], Some("1"), Some("0"), Some("90")])
    );
}

#[tokio::test]
async fn paths_are_left_out_and_keys_of_a_store_have_buckets_of_their_own() {
    let clock = ManualClock::new();
    let store = Keyed::builder(Limit::per_sec(2), 4, 100)
        .clock(Arc::new(clock.clone()))
        .build()
        .expect("a store");
    let layer = RateLimitLayer::in_store(Arc::new(store), key::header("x-user"))
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
    assert_eq!(status("GET", "/", "").await, 400);
    for free in ["/health", "/static/", "/static/a/b"] {
        assert_eq!(status("GET", free, "a").await, 200);
    }
    for limited in [
        "/health/",
        "/healthy",
        "/static",
        "/statics/a",
        // Servers that decode or resolve a path would serve another one.
        "/static/../login",
        "/static/%2e%2E/login",
        "/static/a%2f..%2F..%2flogin",
        "/static/..%5clogin",
        "/st%61tic/a",
    ] {
        assert_eq!(status("GET", limited, "a").await, 429, "{limited}");
    }
    clock.advance(Duration::from_millis(500));
    let answer = asked(&layer, Request::builder().uri("/").header("x-user", "a")).await;
    assert_eq!(answer.headers()["ratelimit"], "\"share\";r=0;t=2");
    assert_eq!(answer.headers()["x-ratelimit-reset"], "2");
}

fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

fn limit(limit: Limit, burst: u64) -> (ManualClock, Limiter) {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with(limit, burst, Arc::new(clock.clone()));
    (clock, limiter.expect("a limit"))
}

#[tokio::test]
async fn a_request_without_a_key_is_refused_unless_the_layer_is_told_otherwise() {
    let store = || Arc::new(Keyed::new(Limit::ZERO, 1, 10).expect("a store"));
    let user = || key::header("x-user");
    let layer = RateLimitLayer::in_store(store(), user());
    let grpc = || Request::builder().header("content-type", "application/grpc");
    let refused = asked(&layer.clone().problems(), Request::builder()).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(refused.body().contains("\"reason\":\"no_key\""));
    assert_eq!(field(&refused, "retry-after"), None);
    assert_eq!(
        field(&asked(&layer, grpc()).await, "grpc-status"),
        Some("3")
    );
    let layer = layer.without_key(NoKey::Admit);
    for _ in 0..3 {
        let answer = asked(&layer, Request::builder()).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }
    // A header that is sent twice is a key, and limited.
    let twice = || {
        Request::builder()
            .header("x-user", "a")
            .header("x-user", "b")
    };
    assert_eq!(asked(&layer, twice()).await.status(), StatusCode::OK);
    let refused = asked(&layer, twice()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    // Among several limits each has a setting of its own.
    let both = |no_key| {
        let tiers = RequestLimits::new().in_store("user", store(), user());
        let tiers = tiers.without_key(no_key).limiter("all", one().1);
        RateLimitLayer::combined(tiers).expect("limits").problems()
    };
    let refused = asked(&both(NoKey::Refuse), Request::builder()).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(refused.body().contains("\"layer\":\"user\""));
    let layer = both(NoKey::Admit);
    let first = asked(&layer, Request::builder()).await.status();
    let second = asked(&layer, Request::builder()).await.status();
    assert_eq!(
        (first, second),
        (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS)
    );
}

#[tokio::test]
async fn a_cost_that_can_never_be_served_is_told_as_that() {
    let layer = RateLimitLayer::new(limit(Limit::per_sec(5), 5).1).cost(|_| 6);
    let refused = asked(&layer, Request::builder()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&refused, "retry-after"), None);
    assert_eq!(field(&refused, "ratelimit"), None, "nothing remains for it");
    assert_eq!(
        field(&refused, "ratelimit-policy"),
        Some("\"share\";q=5;w=1")
    );
    let grpc = Request::builder().header("content-type", "application/grpc");
    let refused = asked(&layer, grpc).await;
    assert_eq!(field(&refused, "grpc-status"), Some("8"));
    assert_eq!(field(&refused, "grpc-retry-pushback-ms"), None);
    let layer = layer.never(StatusCode::PAYLOAD_TOO_LARGE).problems();
    let refused = asked(&layer, Request::builder()).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let problem: serde_json::Value = serde_json::from_str(refused.body()).expect("JSON");
    assert_eq!(problem["status"], 413);
    assert_eq!(problem["reason"], "exceeds_burst");
    let detail = "more than can be admitted at once: the cost is 6, and the burst 5";
    assert_eq!(problem["detail"], detail);
}

#[tokio::test]
async fn limits_are_told_as_they_were_written() {
    let minute = Duration::from_secs(60);
    for (rate, burst, policy, state) in [
        (Limit::per(100, minute), 100, "q=100;w=60", "r=99;t=1"),
        (Limit::per(115, minute), 115, "q=115;w=60", "r=114;t=1"),
        (Limit::per_sec(1_000), 1, "q=1000;w=1", "r=0;t=1"),
        (
            Limit::per(1, 14_400 * minute),
            1,
            "q=1;w=864000",
            "r=0;t=864000",
        ),
        (Limit::per(5, 2 * minute), 2, "q=5;w=120", "r=1;t=24"),
    ] {
        let store = Keyed::builder(rate, burst, 10).clock(Arc::new(ManualClock::new()));
        let store = Arc::new(store.build().expect("a store"));
        for layer in [
            RateLimitLayer::new(limit(rate, burst).1),
            RateLimitLayer::in_store(store, |_| Some("a".into())),
        ] {
            let answer = asked(&layer, Request::builder()).await;
            let expect = [policy, state].map(|text| format!("\"share\";{text}"));
            let found_fields = ["ratelimit-policy", "ratelimit"].map(|name| field(&answer, name));
            assert_eq!(found_fields, [Some(&*expect[0]), Some(&*expect[1])]);
        }
    }
}

/// A quota of this process is a window of a day.
#[tokio::test]
async fn the_policy_of_a_window_has_its_length() {
    let day = Duration::from_secs(86_400);
    let window = FixedWindow::with_clock(1_000, day, Arc::new(ManualClock::new()));
    let limits = RequestLimits::new().limit("daily", window.expect("a window"));
    let layer = RateLimitLayer::combined(limits).expect("limits");
    let answer = asked(&layer, Request::builder()).await;
    assert_eq!(
        field(&answer, "ratelimit-policy"),
        Some("\"daily\";q=1000;w=86400")
    );
}

/// The wait is rounded up to whole seconds, and the end of the window is not later.
#[tokio::test]
async fn a_wait_of_1_1_seconds_is_told_as_2() {
    let (_, limiter) = limit(Limit::every(Duration::from_millis(1_100)), 3);
    limiter.try_acquire(3).expect("three");
    let layer = RateLimitLayer::new(limiter);
    let refused = asked(&layer, Request::builder()).await;
    assert_eq!(field(&refused, "retry-after"), Some("2"));
    assert_eq!(field(&refused, "ratelimit"), Some("\"share\";r=0;t=2"));
}

#[tokio::test]
async fn a_limiter_that_can_owe_no_more_says_when_it_has_a_token() {
    let (_, limiter) = limit(Limit::per_sec(1), 1);
    // The first place is for now, and each one later by a second.
    let mut places = 0_u64;
    while limiter.reserve(1).is_ok() {
        places += 1;
    }
    let layer = RateLimitLayer::new(limiter);
    let refused = asked(&layer, Request::builder()).await;
    let wait: u64 = field(&refused, "retry-after")
        .expect("a wait")
        .parse()
        .expect("seconds");
    assert_eq!(wait, places);
    assert!(places > 100_000, "{places} are owed");
}

#[tokio::test]
async fn a_reset_is_told_from_now_or_from_the_epoch() {
    let reset = async |reset| {
        let (clock, limiter) = one();
        clock.set_wall_ms(1_000_000_500);
        let layer = RateLimitLayer::new(limiter).fields(Fields::Legacy);
        let layer = layer.clock(Arc::new(clock)).reset(reset);
        let answer = asked(&layer, Request::builder()).await;
        field(&answer, "x-ratelimit-reset").map(str::to_owned)
    };
    assert_eq!(reset(Reset::Delta).await.as_deref(), Some("90"));
    assert_eq!(reset(Reset::Epoch).await.as_deref(), Some("1000091"));
}

#[tokio::test]
async fn jitter_is_added_to_waits_and_never_taken_from_them() {
    let (_, limiter) = one();
    limiter.try_acquire(1).expect("one");
    let layer = RateLimitLayer::new(limiter).jitter(Duration::from_secs(1_000));
    let mut waits = Vec::new();
    for _ in 0..20 {
        let refused = asked(&layer, Request::builder()).await;
        let wait: u64 = field(&refused, "retry-after")
            .expect("a wait")
            .parse()
            .expect("seconds");
        waits.push(wait);
    }
    assert!(
        waits.iter().all(|wait| (90..=1_090).contains(wait)),
        "{waits:?}"
    );
    waits.dedup();
    assert!(waits.len() > 1);
}

/// A meter of permits has nothing to count: that is a mistake in the service, and not an excess of its caller.
#[tokio::test]
async fn a_limit_that_is_not_set_up_is_no_excess() {
    let permits = Limiter::local_permits(5).expect("permits");
    let limits = RequestLimits::new().limit("meter", Meter::over(permits));
    let layer = RateLimitLayer::combined(limits).expect("limits");
    let refused = asked(&layer, Request::builder()).await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(field(&refused, "retry-after"), None);
    assert_eq!(field(&refused, "ratelimit"), None);
    assert_eq!(field(&refused, "ratelimit-policy"), None);
    let grpc = Request::builder().header("content-type", "application/grpc");
    assert_eq!(field(&asked(&layer, grpc).await, "grpc-status"), Some("13"));
    let layer = layer.misconfigured(Misconfigured::Admit);
    let answer = asked(&layer, Request::builder()).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn grpc_calls_are_known_in_every_spelling() {
    let (_, limiter) = one();
    limiter.try_acquire(1).expect("one");
    let layer = RateLimitLayer::new(limiter);
    for (content, expect) in [
        ("application/grpc", "application/grpc"),
        ("Application/GRPC", "application/grpc"),
        ("application/grpc+proto", "application/grpc"),
        ("application/grpc; charset=utf-8", "application/grpc"),
        ("application/grpc-web+proto", "application/grpc-web+proto"),
        ("application/gRPC-web-text", "application/grpc-web-text"),
    ] {
        let head = Request::builder().header("content-type", content);
        let refused = asked(&layer, head).await;
        assert_eq!(field(&refused, "grpc-status"), Some("8"), "{content}");
        assert_eq!(field(&refused, "content-type"), Some(expect));
        assert_eq!(refused.status(), StatusCode::OK);
    }
    for other in ["application/grpcx", "application/json"] {
        let head = Request::builder().header("content-type", other);
        let refused = asked(&layer, head).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{other}");
    }
}
