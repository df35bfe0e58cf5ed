//! Bytes from anybody: each parser of the faces gives an answer or an error to whatever arrives.
//!
//! The inputs are those of `corpus`, and the same with random edits. `PROPTEST_CASES` sets how many. An input that
//! has failed once belongs in the corpus, as a file with any name.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

mod edit;
mod replies;

use aliquot_client::http::LimitFields;
use aliquot_client::{KeyRefused, Limit, Limiter};
use aliquot_faces::decider::{Limiters, Options};
use aliquot_faces::resp::{Caller, Server};
use aliquot_faces::rlqs::book::{Book, Place};
use aliquot_faces::rlqs::bucket::BucketName;
use aliquot_faces::rlqs::pb::RateLimitQuotaUsageReports;
use aliquot_faces::rls::Rls;
use aliquot_faces::rls::pb::RateLimitRequest;
use aliquot_faces::rls::pb::rate_limit_service_server::RateLimitService;
use aliquot_faces::rls::rules::{Contents, Reading, Rules, RulesFile};
use aliquot_faces::rls::settings::Settings;
use aliquot_faces::rls::xds;
use aliquot_faces::rls::xds::pb::{Any, DiscoveryResponse};
use aliquot_faces::{Decider, KeyRules, Scope, http as http_face};
use axum::body::Body;
use edit::{Corpus, edited};
use http::Request;
use http_body_util::BodyExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};
use tonic::metadata::{Ascii, MetadataValue};
use tower::ServiceExt;

/// Limits of this process: permits for keys with `jobs` in them, a rate for all others.
struct Local;

impl Limiters for Local {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        Ok(match key.contains("jobs") {
            true => Limiter::local_permits(5).unwrap(),
            false => Limiter::local(Limit::per_sec(10), 10).unwrap(),
        })
    }
}

fn decider(rules: &[&str]) -> Decider {
    let rules = KeyRules::parse(rules.iter().copied()).unwrap();
    let options = Options {
        rules,
        ..Options::default()
    };
    Decider::of(Local, options)
}

/// Returns a runtime whose timers end at once when nothing else is to be done.
fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap()
}

/// Runs a check on every input of a corpus, and on random edits of them.
fn attack(corpus: &str, check: impl Fn(&[u8])) {
    let corpus = Corpus::read(corpus);
    corpus.inputs().for_each(&check);
    let mut runner = TestRunner::new(Config::default());
    let outcome = runner.run(&edited(corpus), |input| {
        check(&input);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
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

/// A connection ends when its input does, and all that it was sent is whole replies.
#[test]
fn redis_answers_with_whole_replies() {
    let runtime = runtime();
    attack("redis", |input| {
        let server = Server::new(
            decider(&["redis:* -> redis/*/{limit}", "redis:jobs -> jobs"]),
            aliquot_faces::resp::Options::default(),
        );
        let (near, far) = duplex(1 << 10);
        let (mut reader, mut writer) = tokio::io::split(near);
        let talk = async {
            let (mut replies, end) = (Vec::new(), async {
                // The server hangs up on input that is no request.
                let _ = writer.write_all(input).await;
                let _ = writer.shutdown().await;
            });
            let read = reader.read_to_end(&mut replies);
            let (read, ()) = tokio::join!(read, end);
            read.unwrap();
            replies
        };
        let serve = server.serve(far, &Anyone, std::future::pending());
        let (replies, _) = runtime.block_on(async { tokio::join!(talk, serve) });
        assert!(replies::are_whole(&replies), "{}", replies.escape_ascii());
    });
}

/// Returns the request that an input of the corpus describes: its method and target in the first line, then its body.
fn request(input: &[u8]) -> Option<Request<Body>> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    let (method, target) = str::from_utf8(&input[..end]).ok()?.split_once(' ')?;
    let body = input[end + 1..].to_vec();
    let request = Request::builder().method(method).uri(target);
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body)).ok()
}

/// No request is an error of the server, and all bodies are JSON.
#[test]
fn http_answers_with_json_and_blames_no_server() {
    let runtime = runtime();
    let decider = decider(&[]);
    attack("http", |input| {
        let Some(request) = request(input) else {
            return;
        };
        let answer = runtime.block_on(async {
            let answer =
                http_face::answer(&Arc::new(decider.clone()), LimitFields::default(), request)
                    .await;
            let (parts, body) = answer.into_parts();
            (parts, body.collect().await.unwrap().to_bytes())
        });
        let (parts, body) = answer;
        let said = parts.status.as_u16();
        // A decision that a caller wants as a status may be that there is none.
        let decided = serde_json::from_slice::<Value>(&body);
        let is_decision = decided
            .as_ref()
            .is_ok_and(|body| body.get("allowed").is_some());
        assert!(said < 500 || is_decision, "{said} {body:?}");
        assert!(body.is_empty() || decided.is_ok(), "{said} {body:?}");
    });
}

/// A file of rules is read whole, or every error says in which file it is.
#[test]
fn rules_of_envoy_are_read_or_refused_by_name() {
    attack("rls-rules", |input| {
        let file = RulesFile {
            name: "limits.yaml".into(),
            contents: Contents::Yaml(String::from_utf8_lossy(input).into()),
        };
        match Rules::read(&[file], Reading::default()) {
            Ok((rules, _)) => Rls::new(decider(&[]), Settings::default()).install(rules),
            Err(refused) => {
                let refused = refused.to_string();
                assert!(refused.contains("limits.yaml"), "{refused}");
            }
        }
    });
}

/// The rules of a response are read whole and put into force, or the error names the resource.
fn take(response: &DiscoveryResponse) {
    let resources = 0..response.resources.len();
    let indices = || resources.clone().map(|index| format!("resources[{index}]"));
    let files = match xds::rules_of(response) {
        Ok(files) => files,
        Err(refused) => {
            let is_named = |name: String| refused.contains(&name);
            let named = refused.starts_with("type_url = ") || refused.starts_with("resource \"");
            assert!(named || indices().any(is_named), "{refused}");
            return;
        }
    };
    assert_eq!(files.len(), resources.len());
    match Rules::read(&files, Reading::default()) {
        Ok((rules, _)) => Rls::new(decider(&[]), Settings::default()).install(rules),
        Err(refused) => {
            let refused = refused.to_string();
            let named = files.iter().any(|file| refused.contains(&file.name));
            assert!(named, "{refused}");
        }
    }
}

#[test]
fn responses_of_management_servers_are_read_or_refused_by_name() {
    attack("xds-responses", |input| {
        if let Ok(response) = DiscoveryResponse::decode(input) {
            take(&response);
        }
    });
    // Most edits of a response spoil its types, so that no resource of it is read.
    attack("xds-resources", |input| {
        let resource = Any {
            type_url: xds::TYPE_URL.to_owned(),
            value: input.to_vec().into(),
        };
        take(&DiscoveryResponse {
            type_url: xds::TYPE_URL.to_owned(),
            resources: vec![resource],
            ..DiscoveryResponse::default()
        });
    });
}

/// A rule is read, or the error repeats it.
#[test]
fn rules_of_keys_are_read_or_refused() {
    attack("key-rules", |input| {
        let text = String::from_utf8_lossy(input);
        if let Err(error) = KeyRules::parse(text.lines()) {
            let error = error.to_string();
            let named = text
                .lines()
                .any(|line| error.contains(&format!("{line:?}")));
            assert!(named, "{error}");
        }
    });
}

/// Returns a rate limit service of Envoy with a few rules.
fn rls() -> Rls {
    const RULES: &str = "\
domain: d
descriptors:
  - key: a
    descriptors:
      - key: b
        rate_limit: { unit: second, requests_per_unit: 10 }
  - key: w
    value: pre*
    rate_limit: { unit: hour, requests_per_unit: 10, quota_mode: true }
";
    let rls = Rls::new(decider(&[]), Settings::default());
    let file = RulesFile {
        name: "limits.yaml".into(),
        contents: Contents::Yaml(RULES.into()),
    };
    let (rules, _) = Rules::read(&[file], Reading::default()).unwrap();
    rls.install(rules);
    rls
}

/// The bytes of a request are no request, or one that is decided, or one that its caller got wrong.
#[test]
fn bytes_of_requests_of_envoy_are_decided_or_refused() {
    let (runtime, rls) = (runtime(), rls());
    attack("rls-requests", |input| {
        let Ok(request) = RateLimitRequest::decode(input) else {
            return;
        };
        let descriptors = request.descriptors.len();
        match runtime.block_on(rls.decide(&request, None)) {
            Ok(answer) => assert_eq!(answer.statuses.len(), descriptors),
            Err(refused) => assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}"),
        }
    });
}

/// A decision is JSON with the status of it, and a wrong request is the caller's fault.
#[test]
fn the_json_of_requests_of_envoy_is_decided_or_refused() {
    let (runtime, routes) = (runtime(), aliquot_faces::rls::http::routes(rls()));
    attack("rls-json", |input| {
        let request = Request::post("/json").body(Body::from(input.to_vec()));
        let (status, body) = runtime.block_on(async {
            let answer = routes.clone().oneshot(request.unwrap()).await.unwrap();
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            (parts.status.as_u16(), body)
        });
        match status {
            200 | 429 => assert!(serde_json::from_slice::<Value>(&body).is_ok(), "{body:?}"),
            other => assert_eq!(other, 400, "{body:?}"),
        }
    });
}

/// A deadline that cannot be read is none.
#[test]
fn deadlines_of_grpc_are_read_or_ignored() {
    let (runtime, rls) = (runtime(), rls());
    let asked = RateLimitRequest {
        domain: "d".into(),
        ..Default::default()
    };
    let expect = runtime.block_on(ask_within(&rls, &asked, None));
    attack("grpc-timeout", |input| {
        let Ok(timeout) = MetadataValue::try_from(input) else {
            return;
        };
        let answer = runtime.block_on(ask_within(&rls, &asked, Some(timeout)));
        assert_eq!(answer, expect, "{}", input.escape_ascii());
    });
}

/// Returns the code of the answer to a request with this `grpc-timeout`.
async fn ask_within(
    rls: &Rls,
    asked: &RateLimitRequest,
    timeout: Option<MetadataValue<Ascii>>,
) -> tonic::Code {
    let mut request = tonic::Request::new(asked.clone());
    if let Some(timeout) = timeout {
        request.metadata_mut().insert("grpc-timeout", timeout);
    }
    let answer = rls.should_rate_limit(request).await;
    answer.map_or_else(|status| status.code(), |_| tonic::Code::Ok)
}

/// A report makes no more actions than it has rows, and each names a bucket of it.
#[test]
fn reports_of_quotas_are_booked_or_passed_over() {
    attack("rlqs-reports", |input| {
        let Ok(report) = RateLimitQuotaUsageReports::decode(input) else {
            return;
        };
        let rows = report.bucket_quota_usages;
        let ids: Vec<_> = rows
            .iter()
            .map(|row| row.bucket_id.clone().unwrap_or_default())
            .collect();
        let mut book = Book::new(16);
        let stream = book.open();
        for row in rows {
            let key = |name: &BucketName| Place::Key(name.key(&report.domain));
            book.report(stream, &report.domain, row, Duration::ZERO, key);
        }
        book.plan(Duration::from_secs(1), true);
        let actions = book.message(stream, Duration::from_secs(1)).bucket_action;
        assert!(actions.len() <= ids.len());
        for action in actions {
            let id = action.bucket_id.unwrap_or_default();
            assert!(ids.contains(&id), "{id:?}");
        }
    });
}

/// A request of Envoy is decided, or refused as one that cannot be.
#[test]
fn requests_of_envoy_are_decided_or_refused() {
    let (runtime, rls) = (runtime(), rls());
    let text = prop_oneof![
        prop::sample::select(vec!["a", "b", "w", "pre", "prefix", "d", ""])
            .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..300),
    ];
    let entry = (text.clone(), text.clone());
    let descriptor = prop::collection::vec(entry, 0..5);
    let hits = prop_oneof![Just(0), Just(1), Just(u32::MAX), any::<u32>()];
    let descriptors = prop::collection::vec(descriptor, 0..5);
    let cut = any::<prop::sample::Index>();
    let request = (text, descriptors, hits, cut, any::<bool>());
    proptest!(|((domain, descriptors, hits, cut, whole) in request)| {
        let descriptors = descriptors.iter().map(|entries| {
            let entry = |(key, value): &(Vec<u8>, Vec<u8>)| {
                use aliquot_faces::rls::pb::rate_limit_descriptor::Entry;
                Entry { key: key.clone().into(), value: value.clone().into() }
            };
            aliquot_faces::rls::pb::RateLimitDescriptor {
                entries: entries.iter().map(entry).collect(),
                ..Default::default()
            }
        });
        let request = RateLimitRequest {
            domain: domain.into(),
            descriptors: descriptors.collect(),
            hits_addend: hits,
        };
        let mut bytes = request.encode_to_vec();
        if !whole {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        let Ok(request) = RateLimitRequest::decode(&bytes[..]) else {
            return Ok(());
        };
        if let Err(refused) = runtime.block_on(rls.decide(&request, None)) {
            prop_assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{}", refused);
        }
    });
}
