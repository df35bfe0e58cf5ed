//! Requests: where they come from, what they are counted under, and what they are answered.

use aliquot_client::web::{OutgoingError, Proxies, RetryAfterLayer, key, retry_after};
use aliquot_client::{Fields, Keyed, Limit, LimitLayer, Limiter, ManualClock, Reason};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use proptest::prelude::*;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tower::{Layer, Service, ServiceExt, service_fn};

const PEER: &str = "10.0.0.1";

fn parts(request: http::request::Builder) -> Parts {
    request.body(()).expect("a request").into_parts().0
}

fn headers(name: &'static str, lines: &[&str]) -> HeaderMap {
    let value = |line: &&str| {
        (
            name.parse().expect("a name"),
            HeaderValue::from_bytes(line.as_bytes()).expect("a value"),
        )
    };
    lines.iter().map(value).collect()
}

#[track_caller]
fn came_from(proxies: &Proxies, name: &'static str, peer: &str, lines: &[&str], expect: &str) {
    let client = proxies.client(peer.parse().expect("an address"), &headers(name, lines));
    assert_eq!(
        client,
        expect.parse::<IpAddr>().expect("an address"),
        "{lines:?}"
    );
}

#[test]
fn addresses_are_read_from_the_right_and_only_from_those_who_are_trusted() {
    let proxies =
        Proxies::x_forwarded_for(["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]).expect("networks");
    let check =
        |peer, lines: &[&str], expect| came_from(&proxies, "x-forwarded-for", peer, lines, expect);
    check(PEER, &[], PEER);
    check(PEER, &["203.0.113.7"], "203.0.113.7");
    check(PEER, &["6.6.6.6, 203.0.113.7"], "203.0.113.7");
    check(
        PEER,
        &["6.6.6.6, 203.0.113.7, 10.9.9.9 ,192.0.2.7"],
        "203.0.113.7",
    );
    check(
        PEER,
        &["6.6.6.6", "203.0.113.7,", " 10.9.9.9"],
        "203.0.113.7",
    );
    check(PEER, &["203.0.113.7:4711"], "203.0.113.7");
    check(PEER, &["[2001:db9::1]:80"], "2001:db9::1");
    check(PEER, &["2001:db9::1, 2001:db8::2"], "2001:db9::1");
    check(
        PEER,
        &["::ffff:203.0.113.7, ::ffff:10.2.3.4"],
        "203.0.113.7",
    );
    // All are trusted, or one cannot be read.
    check(PEER, &["10.1.1.1, 10.2.2.2"], "10.1.1.1");
    check(PEER, &["203.0.113.7, rubbish, 10.2.2.2"], "10.2.2.2");
    check(PEER, &["\u{e9}, 10.2.2.2"], PEER);
    // Who is not trusted speaks for nobody.
    check("198.51.100.1", &["203.0.113.7"], "198.51.100.1");
    check("::ffff:198.51.100.1", &["203.0.113.7"], "198.51.100.1");
    came_from(
        &Proxies::none(),
        "x-forwarded-for",
        PEER,
        &["203.0.113.7"],
        PEER,
    );
    // The other header is whatever a client wrote.
    came_from(&proxies, "forwarded", PEER, &["for=203.0.113.7"], PEER);
}

#[test]
fn the_standard_header_is_read_with_its_quotes() {
    let proxies = Proxies::forwarded(["10.0.0.0/8"]).expect("networks");
    let check = |lines: &[&str], expect| came_from(&proxies, "forwarded", PEER, lines, expect);
    check(&["for=203.0.113.7;proto=https;by=10.0.0.1"], "203.0.113.7");
    check(&["proto=http ; For=\"203.0.113.7:80\""], "203.0.113.7");
    check(
        &["for=6.6.6.6, for=\"[2001:db9::1]:4711\", for=10.1.1.1"],
        "2001:db9::1",
    );
    check(&["for=203.0.113.7, for=unknown"], PEER);
    check(&["for=203.0.113.7, for=_hidden, for=10.1.1.1"], "10.1.1.1");
    check(&["proto=http"], PEER);
    // A quote that a client left open swallows nothing of what a proxy added.
    check(&["for=\"6.6.6.6, for=203.0.113.7"], "203.0.113.7");
    check(
        &["x=\"\\\", for=203.0.113.7;by=\"[2001:db9::2]\""],
        "203.0.113.7",
    );
}

#[test]
fn what_is_no_network_is_said() {
    for text in [
        "",
        "10.0.0.0/33",
        "10.0.0/8",
        "2001:db8::/129",
        "10.0.0.0/-1",
        "a/8",
        "10.0.0.0/",
    ] {
        let error = Proxies::x_forwarded_for([text]).expect_err(text);
        assert_eq!(error.text, text);
        assert!(error.to_string().contains(&format!("{text:?}")));
    }
    let all = Proxies::x_forwarded_for(["0.0.0.0/0"]).expect("a network");
    assert!(all.trusts("1.2.3.4".parse().expect("an address")));
    assert!(!all.trusts("2001:db8::1".parse().expect("an address")));
}

proptest! {
    #[test]
    fn nothing_that_a_client_writes_changes_whom_it_is_taken_for(
        written in "[ -~]{0,60}", standard in any::<bool>()
    ) {
        let (name, proxies, added) = match standard {
            true => ("forwarded", Proxies::forwarded(["10.0.0.0/8"]), "for=203.0.113.7;proto=http"),
            false => ("x-forwarded-for", Proxies::x_forwarded_for(["10.0.0.0/8"]), "203.0.113.7"),
        };
        let line = format!("{written}, {added}, {}", if standard { "for=10.3.3.3" } else { "10.3.3.3" });
        came_from(&proxies.expect("networks"), name, PEER, &[&line], "203.0.113.7");
    }

    #[test]
    fn a_date_is_as_good_as_a_number(now in 0..4_000_000_000_u64, wait in 0..1_000_000_u64) {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now + wait));
        let wall_ms = i64::try_from(now * 1_000).expect("in range");
        let said = |text: &str| retry_after(StatusCode::SERVICE_UNAVAILABLE, &headers("retry-after", &[text]), wall_ms);
        prop_assert_eq!(said(&date), Some(Duration::from_secs(wait)));
        prop_assert_eq!(said(&wait.to_string()), Some(Duration::from_secs(wait)));
    }

    #[test]
    fn whatever_a_server_says_is_read_or_not(text in "\\PC{0,40}") {
        if let Ok(value) = HeaderValue::from_str(&text) {
            let headers: HeaderMap = [(http::header::RETRY_AFTER, value)].into_iter().collect();
            let _ = retry_after(StatusCode::TOO_MANY_REQUESTS, &headers, i64::MIN);
        }
    }
}

#[test]
fn what_servers_say() {
    let check = |status: StatusCode, lines: &[(&'static str, &str)], expect: Option<u64>| {
        let headers = lines
            .iter()
            .flat_map(|&(name, line)| headers(name, &[line]))
            .filter_map(|(name, value)| Some((name?, value)))
            .collect();
        let wait = retry_after(status, &headers, 1_000_000);
        assert_eq!(wait, expect.map(Duration::from_millis), "{lines:?}");
    };
    let (ok, busy) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    check(busy, &[("retry-after", "7")], Some(7_000));
    check(busy, &[("retry-after", " 7 ")], Some(7_000));
    check(
        StatusCode::MOVED_PERMANENTLY,
        &[("retry-after", "7")],
        Some(7_000),
    );
    check(
        StatusCode::INTERNAL_SERVER_ERROR,
        &[("retry-after", "7")],
        None,
    );
    check(
        busy,
        &[("retry-after", "Thu, 01 Jan 1970 00:16:41 GMT")],
        Some(1_000),
    );
    check(
        busy,
        &[("retry-after", "Thursday, 01-Jan-70 00:16:41 GMT")],
        Some(1_000),
    );
    check(
        busy,
        &[("retry-after", "Thu Jan  1 00:16:41 1970")],
        Some(1_000),
    );
    check(
        busy,
        &[("retry-after", "Thu, 01 Jan 1970 00:00:01 GMT")],
        Some(0),
    );
    for rubbish in ["", "-1", "1.5", "soon", "+3"] {
        check(busy, &[("retry-after", rubbish)], None);
    }
    check(
        ok,
        &[("grpc-status", "8"), ("retry-after", "3")],
        Some(3_000),
    );
    check(
        ok,
        &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "250")],
        Some(250),
    );
    check(
        ok,
        &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")],
        None,
    );
    check(
        ok,
        &[("grpc-status", "0"), ("grpc-retry-pushback-ms", "250")],
        None,
    );
    let endless = headers("retry-after", &["99999999999999999999999"]);
    assert!(retry_after(busy, &endless, 0).is_some_and(|wait| wait.as_secs() == u64::MAX));
}

#[test]
fn requests_have_keys() {
    let request = || {
        Request::builder()
            .method("POST")
            .uri("http://host/v1//users/a%20b/*?x=1")
            .header("x-tenant", "a/b *%")
            .header("twice", "1")
            .header("twice", "2")
            .header("empty", "")
            .header("authorization", "bEarer token-7")
            .extension(SocketAddr::from(([203, 0, 113, 7], 80)))
    };
    let head = parts(request());
    let said = |key: Option<String>, expect: Option<&str>| assert_eq!(key.as_deref(), expect);
    said(key::header("x-tenant")(&head), Some("a%2Fb%20%2A%25"));
    for absent in ["twice", "empty", "none"] {
        said(key::header(absent)(&head), None);
    }
    said(key::path()(&head), Some("v1/users/a%20b/%2A"));
    said(key::path()(&parts(Request::builder().uri("/"))), Some("-"));
    said(key::method()(&head), Some("POST"));
    said(
        key::claim(|token| token.strip_prefix("token-").map(Into::into))(&head),
        Some("7"),
    );
    said(key::claim(|_| None)(&head), None);
    said(
        key::claim(|token| Some(token.into()))(&parts(Request::builder())),
        None,
    );
    said(
        key::ip(key::peer, Proxies::none())(&head),
        Some("203.0.113.7"),
    );
    let v6: IpAddr = "2001:db9:1:2:3:4:5:6".parse().expect("an address");
    let v6 = parts(Request::builder().extension(v6));
    said(
        key::ip(key::peer, Proxies::none())(&v6),
        Some("2001:db9:1:2::"),
    );
    said(
        key::ip(key::peer, Proxies::none())(&parts(Request::builder())),
        None,
    );
    let both = key::all((key::text("tenant"), key::header("x-tenant"), key::method()));
    said(both(&head), Some("tenant/a%2Fb%20%2A%25/POST"));
    said(
        key::all((key::text("tenant"), key::header("none")))(&head),
        None,
    );
}

type Answer = Response<String>;

async fn asked<A: aliquot_client::Answers<String> + 'static>(
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

fn one() -> (ManualClock, Limiter) {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with(
        Limit::every(Duration::from_secs(90)),
        1,
        Arc::new(clock.clone()),
    );
    (clock, limiter.expect("a limit"))
}

#[tokio::test]
async fn a_refusal_is_a_problem() {
    let layer = LimitLayer::new(one().1).problems();
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
    // A gRPC call has none.
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
}

#[tokio::test]
async fn a_key_that_is_none_is_a_problem_that_does_not_repeat_it() {
    let client = aliquot_client::Client::connect(["127.0.0.1:9"]).expect("a client");
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
    // Less than one token a second is said without a time.
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

/// Answers 503 with this wait to the first call, and then serves; and counts.
fn moody(
    wait: &'static str,
) -> impl Service<Request<()>, Response = Response<u32>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
    service_fn(move |_: Request<()>| {
        let call = calls.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        async move {
            let mut answer = Response::new(call);
            if call == 0 {
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                answer
                    .headers_mut()
                    .insert("retry-after", HeaderValue::from_static(wait));
            }
            Ok(answer)
        }
    })
}

fn to(host: &str) -> Request<()> {
    Request::builder()
        .uri(format!("http://{host}/"))
        .body(())
        .expect("a request")
}

#[tokio::test]
async fn nobody_calls_a_host_before_it_said_so() {
    let clock = ManualClock::new();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock.clone()))
        .wait(Duration::from_secs(10));
    let service = layer.layer(moody("5"));
    let call = |host: &str| tokio::spawn(service.clone().oneshot(to(host)));
    let first = call("a").await.expect("no panic").expect("an answer");
    assert_eq!(first.status(), StatusCode::SERVICE_UNAVAILABLE);
    let waits = call("a");
    // Others are called meanwhile: this one is the second.
    assert_eq!(
        call("b")
            .await
            .expect("no panic")
            .expect("an answer")
            .into_body(),
        1
    );
    clock.advance(Duration::from_millis(4_999));
    assert_eq!(
        call("b")
            .await
            .expect("no panic")
            .expect("an answer")
            .into_body(),
        2
    );
    assert!(!waits.is_finished());
    clock.advance(Duration::from_millis(1));
    assert_eq!(
        waits
            .await
            .expect("no panic")
            .expect("an answer")
            .into_body(),
        3
    );
}

#[tokio::test]
async fn a_wait_that_is_too_long_fails_at_once_and_no_server_is_believed_forever() {
    let clock = ManualClock::new();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock.clone()))
        .wait(Duration::from_secs(10))
        .most(Duration::from_secs(60));
    let mut service = layer.layer(moody("86400"));
    let call = async |service: &mut aliquot_client::web::Obeying<_>| {
        service.ready().await.expect("ready").call(to("a")).await
    };
    assert!(call(&mut service).await.is_ok());
    let held = call(&mut service)
        .await
        .expect_err("it was told to wait for a day");
    assert_eq!(held, OutgoingError::Held(Duration::from_secs(60)));
    clock.advance(Duration::from_secs(60));
    assert_eq!(
        call(&mut service)
            .await
            .expect("a minute is over")
            .into_body(),
        1
    );
}

#[tokio::test]
async fn a_limiter_paces_what_nobody_complained_of() {
    let (clock, limiter) = one();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock))
        .wait(Duration::from_secs(1))
        .limiter(limiter);
    let service = layer.layer(moody("0"));
    assert!(service.clone().oneshot(to("a")).await.is_ok());
    let refused = service
        .oneshot(to("b"))
        .await
        .expect_err("there is no token");
    let OutgoingError::Refused(refused) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(refused.reason, Reason::Throttled);
}
