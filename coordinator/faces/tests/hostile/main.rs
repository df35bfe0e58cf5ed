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

use aliquot_client::{KeyRefused, Limit, Limiter};
use aliquot_faces::decider::{Limiters, Options};
use aliquot_faces::resp::{Caller, Server};
use aliquot_faces::rls::Rls;
use aliquot_faces::rls::pb::RateLimitRequest;
use aliquot_faces::rls::rules::{Contents, Reading, Rules, RulesFile};
use aliquot_faces::rls::settings::Settings;
use aliquot_faces::{Decider, KeyRules, Scope, http as http_face};
use axum::body::Body;
use edit::{Corpus, edited};
use http::Request;
use http_body_util::BodyExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};
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
    let service = http_face::service(decider(&[]));
    attack("http", |input| {
        let Some(request) = request(input) else {
            return;
        };
        let answer = runtime.block_on(async {
            let answer = service.clone().oneshot(request).await.unwrap();
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

/// A request of Envoy is decided, or refused as one that cannot be.
#[test]
fn requests_of_envoy_are_decided_or_refused() {
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
    let runtime = runtime();
    let rls = Rls::new(decider(&[]), Settings::default());
    let file = RulesFile {
        name: "limits.yaml".into(),
        contents: Contents::Yaml(RULES.into()),
    };
    let (rules, _) = Rules::read(&[file], Reading::default()).unwrap();
    rls.install(rules);
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
