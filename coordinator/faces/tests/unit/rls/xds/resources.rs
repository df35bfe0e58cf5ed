//! Each field of a resource means what the same field of a file means.

use super::*;
use crate::rls::metadata;
use crate::rls::rules::{Reading, Rules, SameDomain};
use bytes::Bytes;

fn limit(unit: i32, requests_per_unit: u32) -> Option<RateLimitPolicy> {
    Some(RateLimitPolicy {
        unit,
        requests_per_unit,
        ..RateLimitPolicy::default()
    })
}

fn rule(key: &str, value: &str, rate_limit: Option<RateLimitPolicy>) -> RateLimitDescriptor {
    RateLimitDescriptor {
        key: key.into(),
        value: value.into(),
        rate_limit,
        ..RateLimitDescriptor::default()
    }
}

fn config(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
    RateLimitConfig {
        name: format!("of {domain}"),
        domain: domain.into(),
        descriptors,
    }
}

fn any(config: &RateLimitConfig) -> Any {
    Any {
        type_url: TYPE_URL.into(),
        value: config.encode_to_vec().into(),
    }
}

fn response(configs: &[RateLimitConfig]) -> DiscoveryResponse {
    DiscoveryResponse {
        resources: configs.iter().map(any).collect(),
        type_url: TYPE_URL.into(),
        ..DiscoveryResponse::default()
    }
}

fn loaded(configs: &[RateLimitConfig]) -> Result<(Rules, Vec<String>), String> {
    let files = read(&response(configs))?;
    Rules::read(&files, Reading::default()).map_err(|error| error.to_string())
}

/// Everything about the rules but their places.
fn shown(rules: &Rules) -> Vec<String> {
    let mut lines = Vec::new();
    rules.for_each(&mut |it| {
        let (path, name, replaces, metadata) = (&it.path, &it.name, &it.replaces, &it.metadata);
        let draft = it
            .draft()
            .map(|draft| (draft.key, draft.rate, draft.burst, draft.quota));
        let summary = it.summary();
        lines.push(format!(
            "{path}: {summary} {name:?} {replaces:?} {metadata:?} {draft:?}"
        ));
    });
    lines
}

/// Checks that descriptors mean what a file with the same fields means.
#[track_caller]
fn check(descriptors: Vec<RateLimitDescriptor>, yaml: &str) {
    let (rules, warnings) = loaded(&[config("shop", descriptors)]).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let file = RulesFile {
        name: "a.yaml".into(),
        contents: Contents::Yaml(format!("domain: shop\ndescriptors:\n{yaml}")),
    };
    let (expect, warnings) = Rules::read(&[file], Reading::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(shown(&rules), shown(&expect));
    assert!(!shown(&rules).is_empty());
}

#[test]
fn a_resource_means_what_a_file_means() {
    check(
        vec![rule("user", "", limit(2, 100))],
        "- { key: user, rate_limit: { unit: minute, requests_per_unit: 100 } }",
    );
    let units = ["second", "minute", "hour", "day", "month", "year", "week"];
    for (number, unit) in (1..).zip(units) {
        check(
            vec![rule("user", "alice", limit(number, 100))],
            &format!(
                "- {{ key: user, value: alice, rate_limit: {{ unit: {unit}, requests_per_unit: 100 }} }}"
            ),
        );
    }
    // No request at all is legal, and not a field that was forgotten.
    check(
        vec![rule("user", "banned", limit(1, 0))],
        "- { key: user, value: banned, rate_limit: { unit: second, requests_per_unit: 0 } }",
    );
    let unlimited = RateLimitPolicy {
        unlimited: true,
        ..RateLimitPolicy::default()
    };
    check(
        vec![rule("internal", "", Some(unlimited))],
        "- { key: internal, rate_limit: { unlimited: true } }",
    );
    check(
        vec![rule("path", "/api/*", limit(1, 5))],
        "- { key: path, value: /api/*, rate_limit: { unit: second, requests_per_unit: 5 } }",
    );
    // Texts stay texts.
    check(
        vec![
            rule("code", "007", limit(1, 5)),
            rule("code", "true", limit(1, 6)),
        ],
        "- { key: code, value: '007', rate_limit: { unit: second, requests_per_unit: 5 } }\n\
         - { key: code, value: 'true', rate_limit: { unit: second, requests_per_unit: 6 } }",
    );
}

#[test]
fn modes_names_and_depths_mean_what_they_mean_in_a_file() {
    let with = |change: fn(&mut RateLimitDescriptor)| {
        let mut rule = rule("user", "", limit(1, 5));
        change(&mut rule);
        vec![rule]
    };
    let line = |field: &str| {
        format!("- {{ key: user, {field}, rate_limit: {{ unit: second, requests_per_unit: 5 }} }}")
    };
    check(with(|it| it.shadow_mode = true), &line("shadow_mode: true"));
    check(with(|it| it.quota_mode = true), &line("quota_mode: true"));
    let fields = json!({ "model": "large", "tags": { "x": 1.5, "y": [true, null] } });
    let Value::Object(fields) = fields else {
        panic!("{fields:?}");
    };
    let mut described = rule("user", "", limit(1, 5));
    described.metadata = metadata::object(fields).encode_to_vec().into();
    check(
        vec![described],
        &line("metadata: { model: large, tags: { x: 1.5, y: [true, null] } }"),
    );
    let mut named = rule("b", "", limit(1, 5));
    if let Some(limit) = &mut named.rate_limit {
        limit.name = "b".into();
        limit.replaces = vec![RateLimitReplace { name: "a".into() }];
    }
    check(
        vec![named],
        "- { key: b, rate_limit: { unit: second, requests_per_unit: 5, name: b, replaces: [{ name: a }] } }",
    );
    let mut outer = rule("tier", "gold", None);
    outer.descriptors = vec![rule("user", "", limit(1, 5))];
    check(
        vec![outer],
        "- { key: tier, value: gold, descriptors: [{ key: user, rate_limit: { unit: second, requests_per_unit: 5 } }] }",
    );
}

#[test]
fn detailed_metrics_count_each_value() {
    let mut detailed = rule("user", "", limit(1, 5));
    detailed.detailed_metric = true;
    for (descriptor, counter) in [
        (rule("user", "", limit(1, 5)), "shop.user"),
        (detailed, "shop.user_alice"),
    ] {
        let (rules, _) = loaded(&[config("shop", vec![descriptor])]).unwrap();
        let entry = crate::rls::rules::Entry {
            key: b"user",
            value: b"alice",
        };
        let stats = crate::rls::stats::Stats::default();
        let found = rules.find(b"shop", &[entry]).unwrap();
        assert!(found.hits(&stats, &[entry]).is_some());
        let text = stats.text();
        assert!(text.contains(&format!("{counter}.")), "{text}");
    }
}

#[test]
fn a_wrong_resource_is_named_with_its_field() {
    #[track_caller]
    fn check(configs: &[RateLimitConfig], expect: &str) {
        assert_eq!(loaded(configs).unwrap_err(), expect);
    }
    check(
        &[config("shop", vec![rule("user", "", limit(0, 5))])],
        r#"resource "of shop", descriptor "shop.user": rate_limit.unit = "": must be second, minute, hour, day, week, month or year"#,
    );
    check(
        &[config("shop", vec![rule("user", "", limit(9, 5))])],
        r#"resource "of shop", descriptor "shop.user": rate_limit.unit = "9": must be second, minute, hour, day, week, month or year"#,
    );
    check(
        &[config("shop", vec![rule("", "", limit(1, 5))])],
        r#"resource "of shop", descriptor "shop.": key = "": must be a text that is not empty"#,
    );
    check(
        &[config("", Vec::new())],
        r#"resource "of ", the resource: domain = "": must be a name that is not empty"#,
    );
    check(
        &[config("a", Vec::new()), config("a", Vec::new())],
        r#"resource "of a", the resource: domain = "a": must be written once: it is written at resource "of a" already"#,
    );
    let mut described = rule("user", "", limit(1, 5));
    described.metadata = Bytes::from_static(b"\xff");
    let problem = loaded(&[config("shop", vec![described])]).unwrap_err();
    let begins = r#"resource "of shop", descriptor "user": metadata cannot be read: "#;
    assert!(problem.starts_with(begins), "{problem}");
}

#[test]
fn what_is_no_resource_is_refused() {
    let mut response = response(&[config("shop", Vec::new())]);
    response.resources[0].value = Bytes::from_static(b"\xff");
    let problem = read(&response).unwrap_err();
    assert!(
        problem.starts_with("resources[0] cannot be read: "),
        "{problem}"
    );
    response.resources[0].type_url = "x".into();
    let problem = read(&response).unwrap_err();
    assert_eq!(
        problem,
        format!("resources[0].type_url = \"x\": must be {TYPE_URL:?}")
    );
    response.type_url = "y".into();
    let problem = read(&response).unwrap_err();
    assert_eq!(problem, format!("type_url = \"y\": must be {TYPE_URL:?}"));
}

#[test]
fn a_response_without_resources_has_no_rules() {
    let (rules, _) = loaded(&[]).unwrap();
    assert!(rules.is_empty());
}

#[test]
fn domains_of_several_resources_merge_if_they_may() {
    let configs = [
        config("shop", vec![rule("a", "", limit(1, 5))]),
        config("shop", vec![rule("b", "", limit(1, 5))]),
    ];
    let files = read(&response(&configs)).unwrap();
    let reading = Reading {
        same_domain: SameDomain::Merged,
        ..Reading::default()
    };
    let (rules, _) = Rules::read(&files, reading).unwrap();
    assert_eq!(shown(&rules).len(), 2);
}

#[test]
fn the_order_of_resources_makes_no_difference() {
    let (a, b) = (config("a", Vec::new()), config("b", Vec::new()));
    let read = |configs: &[RateLimitConfig]| read(&response(configs)).unwrap();
    assert_eq!(read(&[a.clone(), b.clone()]), read(&[b, a]));
}
