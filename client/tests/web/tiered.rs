//! Several limits in front of one service: all or nothing.

use super::answers::{Answer, asked};
use aliquot_client::clock::{SharedClock, Tick};
use aliquot_client::http::{NoKey, Proxies, RefusalBody, RequestLimits, RequestLimitsError, key};
use aliquot_client::observe::{Mode, Switched};
use aliquot_client::shape::{FixedWindow, Meter, Pacer, SlidingCounter, SlidingLog};
use aliquot_client::{Admission, Combined, Keyed, Limit, Limiter, ManualClock, RateLimitLayer};
use http::{Request, StatusCode};
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A clock, and limits on it: of an address, of a user and of the service.
struct Limits {
    clock: ManualClock,
    addresses: Arc<Keyed>,
    users: Arc<Keyed>,
    service: Limiter,
}

impl Limits {
    /// Returns limits of this many per second, with equal bursts, for addresses, users and the service.
    fn of(address: u64, user: u64, service: u64) -> Self {
        let clock = ManualClock::new();
        let shared = || -> SharedClock { Arc::new(clock.clone()) };
        let store = |per_sec| {
            let builder = Keyed::builder(Limit::per_sec(per_sec), per_sec, 100);
            Arc::new(builder.clock(shared()).build().expect("a store"))
        };
        let limiter = Limiter::local_with(Limit::per_sec(service), service, shared());
        Self {
            addresses: store(address),
            users: store(user),
            service: limiter.expect("a limit"),
            clock,
        }
    }

    fn tiers(&self) -> RequestLimits {
        RequestLimits::new()
            .in_store("address", Arc::clone(&self.addresses), key::header("x-ip"))
            .in_store("user", Arc::clone(&self.users), key::header("x-user"))
            .limiter("service", self.service.clone())
    }

    fn layer(&self) -> RateLimitLayer {
        RateLimitLayer::combined(self.tiers()).expect("limits")
    }

    /// Returns what is left for this address, this user and the service.
    fn left(&self, ip: &str, user: &str) -> [u64; 3] {
        let now = self.users.now();
        let service = self.service.tokens() as u64;
        [
            self.addresses.tokens_at(ip, now),
            self.users.tokens_at(user, now),
            service,
        ]
    }
}

async fn from<A: RefusalBody<String> + 'static>(
    layer: &RateLimitLayer<A>,
    ip: &str,
    user: &str,
) -> Answer {
    let head = Request::builder().uri("/");
    asked(layer, head.header("x-ip", ip).header("x-user", user)).await
}

fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

#[tokio::test]
async fn a_refusal_by_one_limit_costs_the_others_nothing_and_names_it() {
    let limits = Limits::of(10, 2, 100);
    let layer = limits.layer().problems();
    for _ in 0..2 {
        let served = from(&layer, "1", "a").await;
        assert_eq!(served.status(), StatusCode::OK);
    }
    assert_eq!(limits.left("1", "a"), [8, 0, 98]);
    let refused = from(&layer, "1", "a").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(limits.left("1", "a"), [8, 0, 98]);
    assert_eq!(field(&refused, "ratelimit"), Some("\"user\";r=0;t=1"));
    let policy = field(&refused, "ratelimit-policy");
    assert_eq!(policy, Some("\"user\";q=2;w=1"));
    let problem: serde_json::Value = serde_json::from_str(refused.body()).expect("JSON");
    assert_eq!(
        (&problem["layer"], &problem["reason"]),
        (&"user".into(), &"throttled".into())
    );
    assert_eq!(problem["retry_after_ms"], 500);
    assert_eq!(from(&layer, "1", "b").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn of_several_that_refuse_the_one_to_wait_for_the_longest_is_named() {
    let limits = Limits::of(10, 10, 10);
    let hourly = Limit::every(Duration::from_secs(3_600));
    let clock: SharedClock = Arc::new(limits.clock.clone());
    let seldom = Limiter::local_with(hourly, 1, clock).expect("a limit");
    let tiers = limits.tiers().limiter("seldom", seldom.clone());
    let layer = RateLimitLayer::combined(tiers.limiter("last", limits.service.clone()));
    let layer = layer.expect("limits").problems();
    // Each of the other limits has some left.
    seldom.try_acquire(1).expect("one");
    limits.service.try_acquire(10).expect("ten");
    let refused = from(&layer, "1", "a").await;
    assert_eq!(field(&refused, "retry-after"), Some("3600"));
    assert_eq!(field(&refused, "ratelimit"), Some("\"seldom\";r=0;t=3600"));
    assert!(refused.body().contains("\"layer\":\"seldom\""));
    assert_eq!(limits.left("1", "a"), [10, 10, 0]);
}

#[tokio::test]
async fn an_admitted_request_is_told_of_the_tightest() {
    let limits = Limits::of(10, 10, 100);
    let layer = limits.layer();
    let says = async |ip, user| {
        let answer = from(&layer, ip, user).await;
        field(&answer, "ratelimit").map(str::to_owned)
    };
    // Of the limits with equally few left, the first.
    assert_eq!(says("1", "a").await.as_deref(), Some("\"address\";r=9;t=1"));
    assert_eq!(says("2", "a").await.as_deref(), Some("\"user\";r=8;t=1"));
    assert_eq!(says("1", "b").await.as_deref(), Some("\"address\";r=8;t=1"));
}

#[tokio::test]
async fn a_limit_for_which_a_request_has_no_key_can_be_skipped() {
    let limits = Limits::of(1, 1, 3);
    let tiers = RequestLimits::new()
        .in_store(
            "address",
            Arc::clone(&limits.addresses),
            key::header("x-ip"),
        )
        .without_key(NoKey::Admit)
        .in_store("user", Arc::clone(&limits.users), key::header("x-user"))
        .without_key(NoKey::Admit)
        .limiter("service", limits.service.clone());
    let layer = RateLimitLayer::combined(tiers).expect("limits");
    let status = async |ip: &str, user: &str| from(&layer, ip, user).await.status().as_u16();
    assert_eq!(status("1", "a").await, 200);
    assert_eq!(status("", "a").await, 429);
    assert_eq!(status("", "").await, 200);
    assert_eq!(status("2", "").await, 200);
    assert_eq!(status("", "").await, 429);
    let keys =
        RequestLimits::new().in_store("user", Arc::clone(&limits.users), key::header("x-user"));
    let layer = RateLimitLayer::combined(keys.without_key(NoKey::Admit)).expect("a limit");
    let free = from(&layer, "1", "").await;
    assert_eq!(free.status(), StatusCode::OK);
    assert_eq!(field(&free, "ratelimit"), None);
}

#[tokio::test]
async fn modes_hold_and_windows_tell_what_they_hold() {
    let limits = Limits::of(1, 1, 100);
    let clock: SharedClock = Arc::new(limits.clock.clone());
    let minute = FixedWindow::with_clock(2, Duration::from_secs(60), clock).expect("a window");
    let users = Switched::shadow(Arc::clone(&limits.users));
    let tiers = RequestLimits::new()
        .in_store("user", users.clone(), key::header("x-user"))
        .limit("minute", minute);
    let layer = RateLimitLayer::combined(tiers).expect("limits").problems();
    for _ in 0..2 {
        assert_eq!(from(&layer, "1", "a").await.status(), StatusCode::OK);
    }
    assert_eq!(users.mode_stats().let_through, 1);
    let refused = from(&layer, "1", "b").await;
    assert!(refused.body().contains("\"layer\":\"minute\""));
    assert_eq!(field(&refused, "ratelimit"), Some("\"minute\";r=0;t=60"));
    assert!(field(&refused, "retry-after").is_some());
    let now = limits.users.now();
    assert_eq!(limits.users.tokens_at("b", now), 1, "it was put back");
    users.set_mode(Mode::Freeze);
    let frozen = from(&layer, "1", "b").await;
    assert_eq!(frozen.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(frozen.body().contains("\"layer\":\"user\""));
}

#[tokio::test]
async fn each_limiter_that_admits_is_heard_of_and_none_where_one_refuses() {
    let limits = Limits::of(10, 2, 100);
    let heard: Arc<Mutex<Vec<Admission>>> = Arc::default();
    let hook = Arc::clone(&heard);
    let tiers = limits.tiers().limiter("twice", limits.service.clone());
    let layer = RateLimitLayer::combined(tiers).expect("limits");
    let layer = layer
        .cost(|_| 2)
        .on_admit(move |_, admission| hook.lock().expect("no panic").push(*admission));
    assert_eq!(from(&layer, "1", "a").await.status(), StatusCode::OK);
    assert_eq!(
        from(&layer, "1", "a").await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    let heard = heard.lock().expect("no panic");
    let now = limits.users.now();
    assert_eq!(heard.len(), 2);
    assert!(
        heard
            .iter()
            .all(|of| (of.tokens, of.decided_at) == (2, now))
    );
    assert_eq!(limits.left("1", "a"), [8, 0, 96]);
}

#[test]
fn invalid_limits_are_named() {
    let limiter = Limiter::local(Limit::per_sec(1), 1).expect("a limit");
    let layer = |names: &[&str]| {
        let tiers = names.iter().fold(RequestLimits::new(), |tiers, name| {
            tiers.limiter(name, limiter.clone())
        });
        RateLimitLayer::combined(tiers).err()
    };
    assert_eq!(layer(&[]), Some(RequestLimitsError::None));
    let long = "a".repeat(65);
    for name in ["", "a b", "a\"", "a\\", "ä", "a\r\n", &long] {
        let error = layer(&["user", name]).expect("no name");
        assert!(
            matches!(error, RequestLimitsError::Name { .. }),
            "{name:?}: {error}"
        );
        assert!(error.to_string().contains("visible ASCII"), "{error}");
    }
    let error = layer(&["user", "route", "user"]).expect("twice");
    assert_eq!(
        error,
        RequestLimitsError::Twice {
            name: "user".into()
        }
    );
    assert_eq!(layer(&["user", &long[1..]]), None);
}

/// Several IPv6 networks of one customer have a limit each, and one together.
#[tokio::test]
async fn several_lengths_of_ipv6_prefixes_limit_at_once() {
    let clock = ManualClock::new();
    let store = |burst| {
        let builder = Keyed::builder(Limit::per_sec(1), burst, 100);
        let builder = builder.clock(Arc::new(clock.clone()));
        Arc::new(builder.build().expect("a store"))
    };
    let limits = RequestLimits::new()
        .in_store("network", store(2), key::ip(key::peer, Proxies::none()))
        .in_store(
            "site",
            store(3),
            key::ip_prefix(key::peer, Proxies::none(), 56),
        )
        .in_store(
            "customer",
            store(5),
            key::ip_prefix(key::peer, Proxies::none(), 48),
        );
    let layer = RateLimitLayer::combined(limits).expect("limits").problems();
    for (address, refused_by) in [
        ("2001:db8:1:1::1", None),
        ("2001:db8:1:1::2", None),
        // The third of one /64.
        ("2001:db8:1:1::3", Some("network")),
        ("2001:db8:1:2::1", None),
        // The fourth of one /56.
        ("2001:db8:1:3::1", Some("site")),
        ("2001:db8:1:100::1", None),
        ("2001:db8:1:200::1", None),
        // The sixth of one /48.
        ("2001:db8:1:300::1", Some("customer")),
        ("2001:db8:2:1::1", None),
    ] {
        let address: IpAddr = address.parse().expect("an address");
        let answer = asked(&layer, Request::builder().extension(address)).await;
        let by = refused_by.map(|by| format!("\"layer\":\"{by}\""));
        match by {
            None => assert_eq!(answer.status(), StatusCode::OK, "{address}"),
            Some(by) => assert!(answer.body().contains(&by), "{address}: {answer:?}"),
        }
    }
}

proptest! {
    /// A layer of several limits admits and takes what `Combined` of the same limits do.
    #[test]
    fn a_layer_of_several_limits_is_those_layers(
        requests in prop::collection::vec((0..400_u64, 0..3_u8, 0..3_u8, 0..4_u64), 1..40),
        limits in (1..4_u64, 1..5_u64, 2..8_u64),
    ) {
        let new = || Limits::of(limits.0, limits.1, limits.2);
        let (mine, theirs) = (new(), new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for (gap, ip, user, n) in requests {
            for limits in [&mine, &theirs] {
                limits.clock.advance(Duration::from_millis(gap));
            }
            let (ip, user) = (format!("ip/{ip}").replace('/', ""), format!("u{user}"));
            let layer = mine.layer().cost(move |_| n).problems();
            let answer = runtime.block_on(from(&layer, &ip, &user));
            let (address, named) = (theirs.addresses.bucket(&ip), theirs.users.bucket(&user));
            let layers = Combined::of_any([
                ("address", &address),
                ("user", &named),
                ("service", &theirs.service),
            ]);
            match layers.try_acquire(n) {
                Ok(_) => prop_assert_eq!(answer.status(), StatusCode::OK),
                Err(refused) => {
                    let named = format!("\"layer\":\"{}\"", refused.limit);
                    prop_assert!(answer.body().contains(&named), "{}", answer.body());
                    let wait = refused.refused.retry_after.map(|wait| wait.as_secs_f64().ceil().max(1.0));
                    let wait_field = field(&answer, "retry-after").map(|text| text.parse::<f64>().expect("a number"));
                    prop_assert_eq!(wait_field, wait);
                }
            }
            prop_assert_eq!(mine.left(&ip, &user), theirs.left(&ip, &user));
        }
    }
}

/// A window, a meter and a pacer behind a layer are described as limiters are.
#[tokio::test]
async fn limits_of_other_shapes_are_told_in_header_fields() {
    let clock = ManualClock::new();
    clock.set(Tick::from_nanos(5_000_000_000));
    let shared = || -> SharedClock { Arc::new(clock.clone()) };
    let second = Duration::from_secs(1);
    let window = FixedWindow::with_clock(10, 2 * second, shared()).expect("a window");
    let log = SlidingLog::with_clock(10, 2 * second, shared()).expect("a log");
    let counter = SlidingCounter::with_clock(10, 2 * second, shared()).expect("a counter");
    let meter = Meter::with_clock(Limit::per_sec(5), 10, shared()).expect("a meter");
    let pacer = Pacer::with_clock(3 * second, 9, shared()).expect("a pacer");
    let one = |limits: RequestLimits| {
        RateLimitLayer::combined(limits)
            .expect("a limit")
            .cost(|_| 3)
    };
    for (layer, policy, state) in [
        (
            one(RequestLimits::new().limit("a", window)),
            "q=10;w=2",
            "r=7;t=1",
        ),
        (
            one(RequestLimits::new().limit("a", log)),
            "q=10;w=2",
            "r=7;t=2",
        ),
        (
            one(RequestLimits::new().limit("a", counter)),
            "q=10;w=2",
            "r=7;t=3",
        ),
        (
            one(RequestLimits::new().limit("a", meter)),
            "q=10;w=2",
            "r=7;t=1",
        ),
        (
            one(RequestLimits::new().limit("a", pacer)),
            "q=1;w=3",
            "r=0;t=9",
        ),
    ] {
        let served = asked(&layer, Request::builder()).await;
        assert_eq!(served.status(), StatusCode::OK);
        let reported = |name| field(&served, name).map(|text| text.replace("\"a\";", ""));
        assert_eq!(reported("ratelimit-policy").as_deref(), Some(policy));
        assert_eq!(reported("ratelimit").as_deref(), Some(state), "{policy}");
    }
}
