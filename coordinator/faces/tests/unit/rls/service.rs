//! One row for each rule of how a request is decided. Every budget is 10 per second with a burst of 10.

use super::*;
use crate::decider::testing::{decider, flood, remaining};
use crate::rls::pb::rate_limit_descriptor::{Entry, RateLimitOverride};
use crate::rls::pb::{RateLimitDescriptor, UInt64Value};
use crate::rls::rules::{Contents, Reading, RulesFile};
use crate::rls::settings::Headers;
use aliquot_client::{ManualClock, Reason};

const RULES: &str = "\
domain: d
descriptors:
  - key: a
    rate_limit: { name: a, unit: second, requests_per_unit: 10 }
  - key: b
    rate_limit: { unit: second, requests_per_unit: 10, replaces: [{ name: a }] }
  - key: c
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: none
    rate_limit: { unit: minute, requests_per_unit: 0 }
  - key: free
    rate_limit: { unlimited: true }
  - key: shadow
    shadow_mode: true
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: q1
    quota_mode: true
    metadata: { model: large, tags: { x: 1 } }
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: q2
    quota_mode: true
    metadata: { model: small, tags: { y: [true, null] } }
    rate_limit: { unit: second, requests_per_unit: 10 }
";

struct Bench {
    rls: Rls,
    decider: Decider,
    clock: Arc<ManualClock>,
}

fn bench(settings: Settings) -> Bench {
    let (decider, clock) = decider(64);
    let rls = Rls::new(decider.clone(), settings);
    let file = RulesFile {
        name: "r.yaml".into(),
        contents: Contents::Yaml(RULES.into()),
    };
    let (rules, _) = Rules::read(&[file], Reading::default()).unwrap();
    rls.install(rules);
    Bench {
        rls,
        decider,
        clock,
    }
}

/// Returns a descriptor: `a` with a value of its own, and hits after a colon, which are given back after a minus.
fn descriptor(text: &str) -> RateLimitDescriptor {
    let (key, hits) = text.split_once(':').unwrap_or((text, ""));
    let back = hits.starts_with('-');
    let value = hits.trim_start_matches('-').parse().ok();
    RateLimitDescriptor {
        entries: vec![Entry {
            key: key.to_owned().into(),
            value: "1".into(),
        }],
        limit: None,
        hits_addend: value.map(|value| UInt64Value { value }),
        is_negative_hits: back,
    }
}

fn request(text: &str) -> RateLimitRequest {
    RateLimitRequest {
        domain: "d".into(),
        descriptors: text.split_whitespace().map(descriptor).collect(),
        hits_addend: 0,
    }
}

impl Bench {
    async fn ask(&self, text: &str) -> RateLimitResponse {
        let response = self.rls.decide(&request(text), None).await;
        response.unwrap()
    }

    /// Asks, and compares: `OVER ok:3 over` is a refusal of a request of which one descriptor has 3 left.
    #[track_caller]
    fn check<'a>(&'a self, text: &'a str, expect: &'a str) -> impl Future<Output = ()> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let response = self.ask(text).await;
            assert_eq!(shown(&response), expect, "{text} at {place}");
        }
    }

    async fn left(&self, key: &str) -> u64 {
        remaining(&self.decider, &format!("rls/d/{key}/1")).await
    }
}

fn shown(response: &RateLimitResponse) -> String {
    let overall = match response.overall_code() {
        Code::OverLimit => "OVER",
        Code::Ok => "OK",
        Code::Unknown => "?",
    };
    let status = |status: &crate::rls::pb::rate_limit_response::DescriptorStatus| match status
        .code()
    {
        Code::OverLimit => " over".to_owned(),
        Code::Unknown => " ?".to_owned(),
        Code::Ok if status.current_limit.is_none() && status.limit_remaining == 0 => " ok".into(),
        Code::Ok => format!(" ok:{}", status.limit_remaining),
    };
    let statuses: String = response.statuses.iter().map(status).collect();
    format!("{overall}{statuses}")
}

#[tokio::test]
async fn every_descriptor_is_decided_and_any_refusal_refuses() {
    let it = bench(Settings::default());
    it.check("a", "OK ok:9").await;
    // Without a rule nothing is limited, and statuses have the order of the descriptors.
    it.check("x a x", "OK ok ok:8 ok").await;
    it.check("a:8 c", "OK ok:0 ok:9").await;
    // A refused request spends nothing.
    it.check("c:5 a", "OVER ok:9 over").await;
    assert_eq!(it.left("c").await, 9);
    // The refused one may come first or last.
    it.check("a c:5", "OVER over ok:9").await;
    it.check("c:11", "OVER over").await;
    it.check("none", "OVER over").await;
    it.check("none c", "OVER over ok:9").await;
    it.check("free", "OK ok:4294967295").await;
    it.clock.advance(Duration::from_secs(1));
    it.check("a", "OK ok:9").await;
}

#[tokio::test]
async fn hits_of_a_descriptor_go_before_those_of_the_request() {
    let it = bench(Settings::default());
    let mut request = request("a c:0 b:2");
    request.hits_addend = 4;
    request.descriptors.remove(2);
    let response = it.rls.decide(&request, None).await.unwrap();
    assert_eq!(shown(&response), "OK ok:6 ok:10");
    // Hits that were taken are given back, and no more.
    it.check("a:-3", "OK ok:9").await;
    it.check("a:-3", "OK ok:9").await;
    it.check("c:-3", "OK ok:10").await;
    it.check("none:0", "OK ok:0").await;
}

#[tokio::test]
async fn a_rule_that_replaces_another_frees_it() {
    let it = bench(Settings::default());
    it.check("a b", "OK ok ok:9").await;
    assert_eq!(it.left("a").await, 10);
    it.check("a", "OK ok:9").await;
}

#[tokio::test]
async fn a_shadow_rule_counts_and_admits() {
    let it = bench(Settings::default());
    it.check("shadow:10", "OK ok:0").await;
    it.check("shadow", "OK ok:0").await;
    let stats = it.rls.stats().text();
    for line in [
        "shadow.shadow_mode: 1",
        "shadow.over_limit: 1",
        "shadow.total_hits: 11",
    ] {
        assert!(stats.contains(line), "{stats}");
    }
    let all = bench(Settings {
        shadow: true,
        ..Settings::default()
    });
    all.check("a:11", "OK over").await;
    assert!(all.rls.stats().text().contains("global_shadow_mode: 1"));
}

#[tokio::test]
async fn quotas_refuse_when_all_of_them_are_used_up() {
    let it = bench(Settings::default());
    it.check("q1:10 q2:4", "OK ok:0 ok:6").await;
    it.check("q1 q2 c", "OK over ok:5 ok:9").await;
    it.check("q2:5 c", "OK ok:0 ok:8").await;
    // The request is refused, and the other limits keep what it would have spent.
    it.check("q1 q2 c", "OVER over over ok:7").await;
    assert_eq!(it.left("c").await, 8);
    // If another limit refuses, quotas keep theirs.
    it.clock.advance(Duration::from_secs(1));
    it.check("q1 none", "OVER ok:10 over").await;
    assert_eq!(it.left("q1").await, 10);
    let all = bench(Settings {
        quota: true,
        ..Settings::default()
    });
    all.check("a:11 c", "OK over ok:9").await;
    all.check("a:11 c:11", "OVER over over").await;
}

#[tokio::test]
async fn hits_that_are_told_after_the_fact_are_owed() {
    let it = bench(Settings::default());
    // A check without hits, before the request; its cost comes when it is known.
    it.check("a:0", "OK ok:10").await;
    it.check("a:8", "OK ok:2").await;
    it.check("a:0", "OK ok:2").await;
    it.check("a:17", "OVER over").await;
    // 15 are owed: the next request waits until they are made, and one more.
    it.clock.advance(Duration::from_millis(1_500));
    it.check("a:0", "OVER over").await;
    it.clock.advance(Duration::from_millis(100));
    it.check("a:0", "OK ok:1").await;
    // Where there was no such check, a refusal spends nothing.
    it.check("c:17", "OVER over").await;
    it.check("c:10", "OK ok:0").await;
}

#[tokio::test]
async fn a_malformed_request_is_an_error_and_not_an_admission() {
    let it = bench(Settings::default());
    let check = async |request: &RateLimitRequest, expect: &str| {
        let error = it.rls.decide(request, None).await.unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (tonic::Code::InvalidArgument, expect)
        );
    };
    check(&request(""), "descriptors must not be empty").await;
    let mut nameless = request("a");
    nameless.domain = bytes::Bytes::new();
    check(&nameless, "domain must not be empty").await;
    let mut unitless = request("a");
    unitless.descriptors[0].limit = Some(RateLimitOverride::default());
    let message =
        "descriptors[0].limit must have a unit from 1 to 7, and a unit_multiplier of at least 1";
    check(&unitless, message).await;
    assert!(it.rls.stats().text().contains("should_rate_limit_error: 3"));
}

#[tokio::test]
async fn a_limit_that_comes_with_the_request_replaces_the_rule() {
    let it = bench(Settings::default());
    let mut own = request("a");
    own.descriptors[0].limit = Some(RateLimitOverride {
        requests_per_unit: 10,
        unit: 1,
        unit_multiplier: None,
    });
    let response = it.rls.decide(&own, None).await.unwrap();
    assert_eq!(shown(&response), "OK ok:9");
    assert_eq!(it.left("a").await, 10);
    own.descriptors[0].limit = Some(RateLimitOverride {
        requests_per_unit: 0,
        unit: 1,
        unit_multiplier: None,
    });
    let response = it.rls.decide(&own, None).await.unwrap();
    assert_eq!(shown(&response), "OVER over");
    own.domain = "unknown".into();
    let response = it.rls.decide(&own, None).await.unwrap();
    assert_eq!(shown(&response), "OK ok");
}

#[tokio::test]
async fn times_are_whole_seconds_rounded_up() {
    let it = bench(Settings::default());
    let reset = async |text| {
        let response = it.ask(text).await;
        let reset = response.statuses[0].duration_until_reset.unwrap();
        (reset.seconds, reset.nanos)
    };
    assert_eq!(reset("a:0").await, (0, 0));
    assert_eq!(reset("a").await, (1, 0));
    assert_eq!(reset("a:9").await, (1, 0));
    assert_eq!(reset("a").await, (1, 0));
    assert_eq!(reset("none").await, (60, 0));
}

#[tokio::test]
async fn headers_tell_the_limit_that_is_nearest() {
    let headers = Headers {
        limit: "l".into(),
        remaining: "m".into(),
        reset: "r".into(),
    };
    let it = bench(Settings {
        headers: Some(headers),
        ..Settings::default()
    });
    let headers = async |text| {
        let headers = it.ask(text).await.response_headers_to_add;
        let header = |it: &crate::rls::pb::HeaderValue| format!("{}={}", it.key, it.value);
        headers.iter().map(header).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(headers("x").await, "");
    assert_eq!(headers("a:5 c:8").await, "l=10 m=2 r=1");
    assert_eq!(headers("c none a").await, "l=0 m=0 r=60");
}

#[tokio::test]
async fn metadata_tells_which_quotas_admitted() {
    let it = bench(Settings {
        dynamic_metadata: true,
        ..Settings::default()
    });
    it.check("q1:10", "OK ok:0").await;
    let fields = async |text| {
        let metadata = it.ask(text).await.dynamic_metadata.unwrap();
        format!("{:?}", metadata.fields)
    };
    let only = fields("q1 q2:2").await;
    assert!(only.contains("small") && !only.contains("large"), "{only}");
    assert!(
        only.contains("q2=1") && only.contains("NumberValue(2.0)"),
        "{only}"
    );
    it.clock.advance(Duration::from_secs(1));
    let both = fields("q1 q2").await;
    let merged = both.contains("large") && both.contains("\"x\"") && both.contains("\"y\"");
    assert!(merged && !both.contains("small"), "{both}");
}

/// A case of a rule, with an answer of this outcome.
fn answered(rls: &Rls, text: &str, outcomes: &[Outcome]) -> Result<String, Problem> {
    let answer = |outcome: &Outcome| Answer {
        outcome: *outcome,
        reason: None,
        excess: None,
        limit: Some(10),
        window: None,
        remaining: Some(3),
        reset_after: Duration::ZERO,
        retry_after: None,
    };
    let within = Duration::from_millis(20);
    answered_by(rls, text, within, outcomes.iter().map(answer).collect())
}

fn answered_by(
    rls: &Rls,
    text: &str,
    within: Duration,
    answers: Vec<Answer>,
) -> Result<String, Problem> {
    let (request, settings) = (request(text), Settings::default());
    let entries = request::entries_of(&request);
    let rules = rls.rules();
    let cases = request::cases(&rules, &request, &entries, &settings, rls.stats(), within)?;
    let answers: Vec<_> = answers.into_iter().map(Some).collect();
    request::count(&cases, &answers);
    let response = request::response(&request, &cases, &answers, &settings)?;
    Ok(shown(&response))
}

#[tokio::test]
async fn without_a_decision_there_is_an_error_unless_another_limit_refuses() {
    use Outcome::{Allowed, NoBudget, OverLimit, Unavailable};
    let it = bench(Settings::default());
    let rows = [
        ("a c", [Allowed, Unavailable], None),
        ("a c", [NoBudget, Allowed], None),
        ("a c", [OverLimit, Unavailable], Some("OVER over ?")),
        ("a shadow", [Allowed, Unavailable], Some("OK ok:3 ok:0")),
        ("a q1", [Allowed, NoBudget], None),
    ];
    for (text, outcomes, expect) in rows {
        let shown = answered(&it.rls, text, &outcomes);
        assert_eq!(shown.as_deref().ok(), expect, "{text} {outcomes:?}");
    }
    let problem = answered(&it.rls, "a c", &[Allowed, NoBudget])
        .unwrap_err()
        .to_string();
    let expect = "descriptors[1] is not decided: there is no budget for it; the rules were not applied to the \
                  cluster; budget key \"rls/d/c/1\"";
    assert_eq!(problem, expect);
}

/// The home of a limit in central mode is being replaced, and the caller's client has a lease.
#[test]
fn a_known_limit_that_only_its_home_can_decide_is_over() {
    let it = bench(Settings::default());
    let of = |reason, limit, millis| {
        let answer = Answer {
            limit,
            ..Answer::without(Outcome::Unavailable, reason)
        };
        let within = Duration::from_millis(millis);
        answered_by(&it.rls, "a", within, vec![answer]).is_ok()
    };
    assert!(
        !of(Reason::Undecided, None, 250),
        "no node has told the limit"
    );
    assert!(
        !of(Reason::Undecided, Some(10), 249),
        "the home may be far away"
    );
    assert!(!of(Reason::Lapsed, Some(10), 250), "there is no lease");
    assert!(of(Reason::Undecided, Some(10), 250));
    let stats = it.rls.stats().text();
    assert!(stats.contains("a.over_limit: 1\n"), "{stats}");
}

/// Envoy looks first if a filter charges when its stream is done. Plain requests of others on the same rule go on.
#[tokio::test]
async fn a_look_charges_no_plain_request_that_is_refused() {
    let it = bench(Settings::default());
    it.check("a:0", "OK ok:10").await;
    it.check("a:10", "OK ok:0").await;
    for _ in 0..50 {
        it.check("a", "OVER over").await;
    }
    it.clock.advance(Duration::from_secs(1));
    assert_eq!(it.left("a").await, 10);
    // Hits that the descriptor brings itself were spent before.
    it.check("a:15", "OVER over").await;
    assert_eq!(it.left("a").await, 0);
}

#[tokio::test]
async fn a_request_has_a_maximum_of_descriptors() {
    let it = bench(Settings::default());
    let most = request::DESCRIPTORS_MAX;
    let ask = |count: usize| request(&"x ".repeat(count));
    assert!(it.rls.decide(&ask(most), None).await.is_ok());
    let error = it.rls.decide(&ask(most + 1), None).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    assert_eq!(error.message(), "descriptors are 129: must be at most 128");
}

#[tokio::test]
async fn a_service_without_rules_is_unhealthy_only_if_it_needs_some_and_one_that_stops_always() {
    let health = |needed, with_rules: bool| {
        let settings = Settings {
            healthy_with_rules: needed,
            ..Settings::default()
        };
        match with_rules {
            true => bench(settings).rls,
            false => Rls::new(decider(64).0, settings),
        }
    };
    assert_eq!(health(false, false).unhealthy(), None);
    assert_eq!(health(true, false).unhealthy(), Some("it has no rules"));
    let rls = health(true, true);
    assert_eq!(rls.unhealthy(), None);
    rls.stop();
    assert_eq!(rls.unhealthy(), Some("it is stopping"));
    let apart = Rls::new(
        crate::decider::testing::without_session(),
        Settings::default(),
    );
    assert_eq!(apart.unhealthy(), Some("it has no session with a node"));
}

#[test]
fn a_caller_waits_no_longer_than_ten_seconds() {
    let longest = |text: &str| {
        let mut asked = Request::new(request("a"));
        asked
            .metadata_mut()
            .insert("grpc-timeout", text.parse().unwrap());
        within_of(&asked)
    };
    assert_eq!(longest("20m"), Some(Duration::from_millis(15)));
    assert_eq!(longest("99999999H"), Some(WITHIN_MAX));
}

#[test]
fn timeouts_of_grpc_are_read() {
    let rows = [
        ("20m", Some(Duration::from_millis(20))),
        ("99999999u", Some(Duration::from_micros(99_999_999))),
        ("5S", Some(Duration::from_secs(5))),
        ("2M", Some(Duration::from_secs(120))),
        ("1H", Some(Duration::from_secs(3_600))),
        ("7n", Some(Duration::from_nanos(7))),
        ("", None),
        ("m", None),
        ("100000000u", None),
        ("5x", None),
        ("5é", None),
        ("-5m", None),
    ];
    for (text, expect) in rows {
        assert_eq!(timeout_of(text), expect, "{text}");
    }
}

#[tokio::test]
async fn a_hit_is_near_the_limit_if_it_leaves_less_than_a_fifth() {
    let it = bench(Settings::default());
    it.check("c:8", "OK ok:2").await;
    it.check("c:1", "OK ok:1").await;
    let stats = it.rls.stats().text();
    for line in ["c.near_limit: 1\n", "c.within_limit: 9\n"] {
        assert!(stats.contains(line), "{stats}");
    }
}

#[tokio::test]
async fn one_refund_after_the_other_puts_back_its_charge() {
    let it = bench(Settings::default());
    it.check("c:2", "OK ok:8").await;
    it.check("c:3", "OK ok:5").await;
    let _refunded = it.ask("c:-3").await;
    assert_eq!(it.left("c").await, 8);
    let _refunded = it.ask("c:-2").await;
    assert_eq!(it.left("c").await, 10);
}

#[tokio::test]
async fn a_refused_request_still_gives_back() {
    let it = bench(Settings::default());
    it.check("c:3", "OK ok:7").await;
    let _refused = it.ask("none c:-3").await;
    assert_eq!(it.left("c").await, 10);
}

#[tokio::test]
async fn a_flood_of_made_up_values_replaces_no_key_in_use() {
    let Bench { rls, decider, .. } = bench(Settings::default());
    let ask = async |value: String| {
        let mut asked = request("a");
        asked.descriptors[0].entries[0].value = value.into();
        let response = rls.decide(&asked, None).await;
        assert!(response.is_ok(), "{response:?}");
    };
    flood(&decider, "rls/d/a/real", ask).await;
}
