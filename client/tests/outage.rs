//! A process that starts while no node can serve it: it has an address, and nothing answers there.
//!
//! In simulated time: tokio's paused clock advances when all tasks rest.

use aliquot_client::clock::{SharedClock, Tick};
use aliquot_client::http::{PermitLayer, RequestLimits};
use aliquot_client::limiter::LimiterState;
use aliquot_client::{
    BuildError, Client, Clock, DefaultRule, Limit, Limiter, RateLimitLayer, Reason, Refused,
};
use http::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The paused clock of tokio's runtime.
#[derive(Debug)]
struct Simulated(Instant);

impl Clock for Simulated {
    fn now(&self) -> Tick {
        let nanos = u64::try_from(self.0.elapsed().as_nanos()).expect("not for long");
        Tick::from_nanos(1_000_000_000_000 + nanos)
    }

    fn wall_ms(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_millis()).expect("not for long")
    }
}

/// Records the warnings.
#[derive(Default)]
struct LogCapture(Mutex<Vec<String>>);

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        write!(self.0, "{field}={value:?} ").expect("a text can be written");
    }
}

impl Subscriber for &'static LogCapture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        self.0.lock().expect("no panic").push(text);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl LogCapture {
    /// Returns the only listener of this process. Each test makes sure of it before its first event.
    fn get() -> &'static Self {
        static CAPTURE: OnceLock<&'static LogCapture> = OnceLock::new();
        CAPTURE.get_or_init(|| {
            let capture: &LogCapture = Box::leak(Box::default());
            tracing::subscriber::set_global_default(capture).expect("the only one");
            capture
        })
    }

    /// Returns the warnings that name this address.
    fn warnings(&self, address: &str) -> Vec<String> {
        let all = self.0.lock().expect("no panic");
        let ours = all.iter().filter(|text| text.contains(address));
        ours.cloned().collect()
    }
}

/// Runs a test in simulated time.
fn simulate<T>(test: impl Future<Output = T>) -> T {
    LogCapture::get();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(test)
}

/// Returns a client of nodes that cannot be reached.
fn client(address: &str, rule: DefaultRule, after: Duration) -> Client {
    let clock: SharedClock = Arc::new(Simulated(Instant::now()));
    let unreachable = |_| async { Err::<tokio::io::DuplexStream, _>(io::Error::other("no route")) };
    let client = Client::builder()
        .addresses([address])
        .connector(unreachable)
        .clock(clock)
        .outage_rule(rule, after)
        .connect();
    client.expect("a client")
}

/// Deadlines that end before a second has made a token.
const SOON: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_millis(100);

const AFTER: Duration = Duration::from_secs(2);

/// Three at once, and one a second.
fn local() -> DefaultRule {
    DefaultRule::Local {
        limit: Limit::per_sec(1),
        burst: 3,
    }
}

/// Ways to ask for one token or permit without a wait for tokens that time makes.
#[derive(Clone, Copy, Debug)]
enum Verb {
    TryAcquire,
    Decide,
    DecideWithin,
    DecideToSettleWithin,
    Acquire,
    AcquireToSettle,
    Reserve,
    Check,
    CheckToSettle,
    Layer,
    RequestLimits,
    TryPermit,
    Permit,
    DecidePermit,
    DecidePermitWithin,
    PermitLayer,
}

const VERBS: [Verb; 16] = [
    Verb::TryAcquire,
    Verb::Decide,
    Verb::DecideWithin,
    Verb::DecideToSettleWithin,
    Verb::Acquire,
    Verb::AcquireToSettle,
    Verb::Reserve,
    Verb::Check,
    Verb::CheckToSettle,
    Verb::Layer,
    Verb::RequestLimits,
    Verb::TryPermit,
    Verb::Permit,
    Verb::DecidePermit,
    Verb::DecidePermitWithin,
    Verb::PermitLayer,
];

/// Asks once. A refusal of a layer is its status.
async fn ask(verb: Verb, client: &Client, limiter: &Limiter) -> Result<(), String> {
    let text = |refused: Refused| format!("{:?}", refused.reason);
    let service =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(String::new())));
    let status = match verb {
        Verb::TryAcquire => return limiter.try_acquire(1).map(drop).map_err(text),
        Verb::Decide => return limiter.decide(1).outcome.map(drop).map_err(text),
        Verb::DecideWithin => {
            let decision = limiter.decide_within(1, MOST).await;
            return decision.outcome.map(drop).map_err(text);
        }
        Verb::DecideToSettleWithin => {
            let decision = limiter.decide_to_settle_within(1, MOST).await;
            return decision.outcome.map(drop).map_err(text);
        }
        Verb::Acquire => {
            return limiter
                .acquire_within(1, SOON)
                .await
                .map(drop)
                .map_err(text);
        }
        Verb::AcquireToSettle => {
            let reserved = limiter.acquire_to_settle_within(1, SOON).await;
            return reserved.map(drop).map_err(text);
        }
        Verb::Reserve => {
            let reserved = limiter.reserve_within(1, Duration::ZERO);
            return reserved.map(drop).map_err(text);
        }
        Verb::Check => return limiter.check(1).await.map(drop).map_err(text),
        Verb::CheckToSettle => return limiter.check_to_settle(1).await.map(drop).map_err(text),
        Verb::TryPermit => return limiter.try_permit().map(drop).map_err(text),
        Verb::Permit => {
            let permit = tokio::time::timeout(MOST, limiter.permit()).await;
            let permit = permit.map_err(|_| "Waits".to_owned())?;
            return permit.map(drop).map_err(text);
        }
        Verb::DecidePermit => return limiter.decide_permit().outcome.map(drop).map_err(text),
        Verb::DecidePermitWithin => {
            let decision = limiter.decide_permit_within(MOST).await;
            return decision.outcome.map(drop).map_err(text);
        }
        Verb::Layer => {
            let key = limiter.key().to_owned();
            let layer = RateLimitLayer::by_key(client, move |_| Some(key.clone()));
            let answer = layer.layer(service).oneshot(Request::new(())).await;
            answer.expect("it never fails").status()
        }
        Verb::RequestLimits => {
            let limits = RequestLimits::new().limiter("fleet", limiter.clone());
            let layer = RateLimitLayer::combined(limits).expect("limits");
            let answer = layer.layer(service).oneshot(Request::new(())).await;
            answer.expect("it never fails").status()
        }
        Verb::PermitLayer => {
            let layer = PermitLayer::new(limiter.clone()).wait(SOON);
            let service = service_fn(async |_: Request<()>| {
                let body = axum::body::Body::from("hello");
                Ok::<_, Infallible>(Response::new(body))
            });
            let answer = layer.layer(service).oneshot(Request::new(())).await;
            answer.expect("it never fails").status()
        }
    };
    match status {
        StatusCode::OK => Ok(()),
        refused => Err(refused.as_u16().to_string()),
    }
}

/// By each verb, how many of ten requests are admitted before the rule applies and when it does, and the last refusal.
#[test]
fn the_rule_decides_by_each_verb_from_its_time_on() {
    for verb in VERBS {
        for (rule, expect) in [
            (DefaultRule::Deny, 0),
            (DefaultRule::Allow, 10),
            (local(), 3),
        ] {
            simulate(async {
                let client = client("dead:7001", rule, AFTER);
                let limiter = client.limiter("tenant/42/reads").expect("a key");
                let early = ask(verb, &client, &limiter).await.expect_err("too early");
                let cold = ["Cold", "503"].contains(&early.as_str());
                let waits = matches!(verb, Verb::Permit) && early == "Waits";
                assert!(cold || waits, "{verb:?}: {early}");
                tokio::time::sleep(AFTER + Duration::from_millis(5)).await;
                let (mut admitted, mut last) = (0, None);
                for _ in 0..10 {
                    match ask(verb, &client, &limiter).await {
                        Ok(()) => admitted += 1,
                        Err(refused) => last = Some(refused),
                    }
                }
                assert_eq!(admitted, expect, "{verb:?} by {rule:?}: {last:?}");
                if rule == local() {
                    let last = last.expect("seven were refused");
                    let known = ["Throttled", "429", "Waits"];
                    assert!(known.contains(&last.as_str()), "{verb:?}: {last}");
                }
            });
        }
    }
}

#[test]
fn a_local_rule_makes_its_rate_and_no_more() {
    simulate(async {
        let client = client("dead:7001", local(), Duration::ZERO);
        let limiter = client.limiter("a").expect("a key");
        let other = client.limiter("b").expect("a key");
        limiter.check(3).await.expect("a full bucket");
        assert_eq!(limiter.peek().state, LimiterState::Forever);
        let began = Instant::now();
        limiter.acquire(2).await.expect("two seconds make two");
        let took = began.elapsed();
        let expect = Duration::from_secs(2);
        assert!(
            (expect..expect + Duration::from_millis(5)).contains(&took),
            "{took:?}"
        );
        let refused = limiter.acquire(4).await.expect_err("never");
        assert_eq!(refused.reason, Reason::ExceedsBurst);
        other.check(3).await.expect("each key has its own");
    });
}

/// Callers that wait for the first answer are served when the rule comes into force.
#[test]
fn callers_that_wait_are_served_by_the_rule() {
    simulate(async {
        let client = client("dead:7001", DefaultRule::Allow, Duration::from_millis(100));
        let limiter = client.limiter("a").expect("a key");
        let began = Instant::now();
        limiter.acquire(1).await.expect("by the rule");
        let took = began.elapsed().as_millis();
        assert!((100..110).contains(&took), "{took} ms");
    });
}

/// Many more keys than there is room for are each admitted once.
#[test]
fn keys_make_room_for_others_during_an_outage() {
    simulate(async {
        let clock: SharedClock = Arc::new(Simulated(Instant::now()));
        let unreachable =
            |_| async { Err::<tokio::io::DuplexStream, _>(io::Error::other("no route")) };
        let client = Client::builder()
            .addresses(["dead:7001"])
            .connector(unreachable)
            .clock(clock)
            .keys_max(8)
            .outage_rule(DefaultRule::Allow, Duration::ZERO)
            .connect()
            .expect("a client");
        for key in 0..100 {
            let limiter = client.limiter(&format!("k/{key}")).expect("room");
            limiter.check(1).await.expect("by the rule");
        }
    });
}

#[test]
fn an_invalid_rule_is_named() {
    simulate(async {
        let rule = DefaultRule::Local {
            limit: Limit::UNLIMITED,
            burst: 1,
        };
        let builder = Client::builder().addresses(["dead:7001"]);
        let error = builder.outage_rule(rule, AFTER).connect();
        let error = error.expect_err("no rate");
        assert!(matches!(error, BuildError::OutageRule { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.starts_with("outage_rule: ") && text.contains("rate"),
            "{text}"
        );
    });
}

/// The first warning comes after three seconds, in which a node may be starting, and then one comes a minute.
#[test]
fn an_outage_is_logged_once_a_minute_with_its_cause() {
    simulate(async {
        let _client = client("lost:7001", DefaultRule::Deny, AFTER);
        let reported = |secs: u64| async move {
            tokio::time::sleep(Duration::from_secs(secs)).await;
            LogCapture::get().warnings("lost:7001")
        };
        assert_eq!(reported(2).await.len(), 0);
        let warnings = reported(8).await;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let cause = &warnings[0];
        assert!(
            cause.contains("no session") && cause.contains("no route"),
            "{cause}"
        );
        assert_eq!(reported(50).await.len(), 1);
        assert_eq!(reported(10).await.len(), 2);
        assert_eq!(reported(240).await.len(), 6);
    });
}
