//! Questions that no budget can answer: each face tells them as a fault of the operator, and logs a line.
//!
//! These tests need a process of their own. Whether an event has a listener is determined once for all threads,
//! by the first thread that reaches it, and that must be one that listens.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_client::http::LimitFields;
use aliquot_client::{KeyRefused, Limiter};
use aliquot_faces::decider::{Limiters, Options};
use aliquot_faces::resp::{Caller, Server};
use aliquot_faces::rls::Rls;
use aliquot_faces::rls::pb::rate_limit_descriptor::Entry;
use aliquot_faces::rls::pb::{RateLimitDescriptor, RateLimitRequest};
use aliquot_faces::rls::rules::{Contents, Reading, Rules, RulesFile};
use aliquot_faces::rls::settings::Settings;
use aliquot_faces::{Decider, KeyRules, Scope, grpc, http as http_face};
use aliquot_wire::pb;
use aliquot_wire::pb::limits_client::LimitsClient;
use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::fmt;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// Keys with `jobs` in them limit concurrency, and no others have a budget.
struct Unfit;

impl Limiters for Unfit {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        if key.contains("jobs") {
            return Ok(Limiter::local_permits(5).unwrap());
        }
        Err(KeyRefused::Invalid {
            key: key.to_owned(),
            reason: "must have at least one segment".into(),
        })
    }
}

const KEYS: [(&str, &str); 2] = [("none", "no_budget"), ("jobs", "wrong_kind")];

fn decider() -> Decider {
    let rules = KeyRules::parse(["redis:r/* -> r/*"]).unwrap();
    let options = Options {
        rules,
        ..Options::default()
    };
    Decider::of(Unfit, options)
}

/// Records the events of this thread.
#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<String>>>);

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for LogCapture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("aliquot")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        self.0.lock().unwrap().push(text);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl LogCapture {
    fn listen() -> (Self, DefaultGuard) {
        let capture = Self::default();
        let guard = tracing::subscriber::set_default(capture.clone());
        (capture, guard)
    }

    /// Checks that one line was logged, about this key.
    #[track_caller]
    fn heard_once(&self, key: &str) {
        let reported = self.0.lock().unwrap().clone();
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(
            reported[0].contains("no suitable budget exists"),
            "{reported:?}"
        );
        assert!(
            reported[0].contains(&format!("key={key:?}")),
            "{reported:?}"
        );
    }
}

async fn ask(decider: &Decider, path: &str, body: &Value) -> (Response<Body>, Value) {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let answer =
        http_face::answer(&Arc::new(decider.clone()), LimitFields::default(), request).await;
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let said = serde_json::from_slice(&bytes).unwrap();
    (Response::from_parts(parts, Body::empty()), said)
}

#[tokio::test]
async fn by_http_it_is_no_429() {
    for (key, reason) in KEYS {
        let (capture, _listens) = LogCapture::listen();
        let decider = decider();
        for (path, status) in [("/v1/check", 200), ("/v1/check?status=429", 500)] {
            let (answer, said) = ask(&decider, path, &json!({ "key": key })).await;
            assert_eq!(answer.status(), status, "{key}");
            assert_eq!(said["allowed"], json!(false));
            assert_eq!(said["outcome"], json!("no_budget"));
            assert_eq!(said["reason"], json!(reason));
            for field in ["retry-after", "ratelimit", "ratelimit-policy"] {
                assert!(answer.headers().get(field).is_none(), "{key}: {field}");
            }
        }
        for all in [false, true] {
            let body = json!({ "checks": [{ "key": key }], "all": all });
            let (answer, said) = ask(&decider, "/v1/check:batch?status=429", &body).await;
            assert_eq!(
                (answer.status().as_u16(), &said["allowed"]),
                (500, &json!(false))
            );
        }
        // Of a key that has permits, several at once are a wrong field.
        let status = if reason == "wrong_kind" { 400 } else { 500 };
        let body = json!({ "key": key, "cost": 2 });
        let (answer, said) = ask(&decider, "/v1/reserve?status=429", &body).await;
        assert_eq!(
            (answer.status().as_u16(), &said["id"]),
            (status, &Value::Null)
        );
        capture.heard_once(key);
    }
}

/// A permit is asked for after tokens were refused, which is no fault.
#[tokio::test]
async fn a_permit_that_is_reserved_is_no_fault() {
    let (capture, _listens) = LogCapture::listen();
    let decider = decider();
    let body = json!({ "key": "jobs" });
    let (answer, said) = ask(&decider, "/v1/reserve?status=429", &body).await;
    assert_eq!(answer.status(), 200);
    assert!(said["id"].is_string(), "{said}");
    assert_eq!(*capture.0.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn by_grpc_the_outcome_is_no_budget() {
    for (key, reason) in KEYS {
        let (capture, _listens) = LogCapture::listen();
        let mut client = LimitsClient::new(grpc::service(decider()));
        let check = pb::CheckRequest {
            key: key.into(),
            ..pb::CheckRequest::default()
        };
        let reply = client.check(check).await.unwrap().into_inner();
        assert_eq!(reply.outcome(), pb::LimitOutcome::NoBudget, "{key}");
        assert_eq!((reply.allowed, reply.reason.as_str()), (false, reason));
        assert_eq!(reply.retry_after_ms, None);
        capture.heard_once(key);
    }
}

#[tokio::test]
async fn by_grpc_several_permits_are_an_invalid_argument() {
    let mut client = LimitsClient::new(grpc::service(decider()));
    let part = pb::ReservePart {
        key: "jobs".into(),
        cost: Some(2),
    };
    let reserve = pb::ReserveRequest {
        parts: vec![part],
        ..pb::ReserveRequest::default()
    };
    let refused = client.reserve(reserve).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().starts_with("cost = 2: must be 1"));
}

/// A client without a password.
struct Anyone;

impl Caller for Anyone {
    type Open = ();

    fn begin(&self) {}

    fn without_password(&self) -> Option<Scope> {
        Some(Scope::ALL)
    }

    fn scope(&self, _: &[u8]) -> Option<Scope> {
        None
    }
}

#[tokio::test]
async fn by_redis_it_is_an_error_and_no_refusal() {
    for (key, says) in [
        ("r/none", "no budget applies to the key"),
        ("r/jobs", "limits concurrency"),
    ] {
        let (capture, _listens) = LogCapture::listen();
        let server = Server::new(decider(), aliquot_faces::resp::Options::default());
        let (mut near, far) = duplex(1 << 16);
        let talk = async {
            let commands = format!("INCR {key}\nGET {key}\nQUIT\n");
            near.write_all(commands.as_bytes()).await.unwrap();
            let mut replies = String::new();
            near.read_to_string(&mut replies).await.unwrap();
            replies
        };
        let serve = server.serve(far, &Anyone, std::future::pending());
        let (replies, served) = tokio::join!(talk, serve);
        served.unwrap();
        let lines: Vec<&str> = replies.lines().collect();
        assert_eq!(lines.len(), 3, "{replies}");
        for line in &lines[..2] {
            assert!(line.starts_with("-ERR ") && line.contains(says), "{line}");
        }
        capture.heard_once(key);
    }
}

/// Envoy then does as its `failure_mode_deny` says.
#[tokio::test]
async fn by_envoy_it_is_unavailable_and_not_over_the_limit() {
    const RULES: &str = "\
domain: d
descriptors:
  - key: none
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: jobs
    rate_limit: { unit: second, requests_per_unit: 10 }
";
    for (key, says) in [
        ("none", "there is no budget for it"),
        ("jobs", "its budget is of another kind"),
    ] {
        let (capture, _listens) = LogCapture::listen();
        let rls = Rls::new(decider(), Settings::default());
        let file = RulesFile {
            name: "r.yaml".into(),
            contents: Contents::Yaml(RULES.into()),
        };
        let (rules, _) = Rules::read(&[file], Reading::default()).unwrap();
        rls.install(rules);
        let descriptor = RateLimitDescriptor {
            entries: vec![Entry {
                key: key.to_owned().into(),
                value: "1".into(),
            }],
            ..RateLimitDescriptor::default()
        };
        let request = RateLimitRequest {
            domain: "d".into(),
            descriptors: vec![descriptor],
            hits_addend: 0,
        };
        let refused = rls.decide(&request, None).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");
        assert!(refused.message().contains(says), "{refused}");
        capture.heard_once(&format!("rls/d/{key}/1"));
    }
}
