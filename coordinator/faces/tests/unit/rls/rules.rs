//! One row for each rule of matching, and one for each error.

use super::*;

fn files(texts: &[&str]) -> Vec<RulesFile> {
    let file = |(index, text): (usize, &&str)| RulesFile {
        name: format!("{index}.yaml"),
        contents: Contents::Yaml((*text).to_owned()),
    };
    texts.iter().enumerate().map(file).collect()
}

#[track_caller]
fn read(text: &str) -> Rules {
    let (rules, warnings) = Rules::read(&files(&[text]), Reading::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    rules
}

/// Finds the rule of a descriptor such as `user=alice,path=/a`, and returns its line and its key.
fn found(rules: &Rules, domain: &str, descriptor: &str) -> String {
    let entries: Vec<Entry<'_>> = descriptor
        .split(',')
        .filter_map(|entry| entry.split_once('='))
        .map(|(key, value)| Entry {
            key: key.as_bytes(),
            value: value.as_bytes(),
        })
        .collect();
    match rules.find(domain.as_bytes(), &entries) {
        None => "-".into(),
        Some(rule) => {
            let line = rule.place.rsplit(':').next().unwrap_or_default();
            let limit = rule
                .limit
                .map(|it| format!(" {}/{}", it.requests, it.unit.name()));
            let limit = limit.unwrap_or_else(|| " unlimited".into());
            format!("{line}{limit} {}", rule.key(&entries))
        }
    }
}

const SHOP: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: user
    value: alice
    rate_limit: { unit: SECOND, requests_per_unit: 100 }
  - key: user
    value: a*
    rate_limit: { unit: minute, requests_per_unit: 7 }
  - key: user
    value: al*
    rate_limit: { unit: minute, requests_per_unit: 8 }
  - key: user
    value: banned
    rate_limit: { unit: second, requests_per_unit: 0 }
  - key: path
    value: /api/*/users
    share_threshold: true
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: path
    value: /img/*.png
    rate_limit: { unit: day, requests_per_unit: 4 }
  - key: internal
    rate_limit: { unlimited: true }
  - key: allowed
  - key: code
    value: 007
    rate_limit: { unit: week, requests_per_unit: 3 }
  - key: code
    value: true
    rate_limit: { unit: month, requests_per_unit: 100 }
  - key: code
    value: 1.50
    rate_limit: { unit: year, requests_per_unit: 100 }
  - key: tier
    value: gold
    rate_limit: { unit: second, requests_per_unit: 1 }
    descriptors:
      - key: user
        rate_limit: { unit: second, requests_per_unit: 2 }
      - key: user
        value: alice
        descriptors:
          - key: path
            rate_limit: { unit: second, requests_per_unit: 3 }
  - key: tier
    descriptors:
      - key: user
        rate_limit: { unit: second, requests_per_unit: 4 }
      - key: only
        rate_limit: { unit: second, requests_per_unit: 6 }
";

#[test]
fn a_descriptor_finds_its_rule() {
    let rules = read(SHOP);
    let rows = [
        // A key alone matches any value, each of which has its own limit.
        ("shop", "user=bob", "3 10/second rls/shop/user/bob"),
        ("shop", "user=", "3 10/second rls/shop/user/%"),
        // A key with its value goes before wildcards and before the key alone.
        ("shop", "user=alice", "5 100/second rls/shop/user=alice"),
        // The first wildcard of the file applies, and each match has its own limit.
        ("shop", "user=alan", "8 7/minute rls/shop/user~a%2A/alan"),
        // No request at all may be legal.
        ("shop", "user=banned", "14 0/second rls/shop/user=banned"),
        // Wildcards may stand anywhere; matches share a limit if the rule requires it.
        (
            "shop",
            "path=/api/7/users",
            "17 5/hour rls/shop/path~%2Fapi%2F%2A%2Fusers",
        ),
        ("shop", "path=/api/7/users/1", "-"),
        (
            "shop",
            "path=/img/x.png",
            "21 4/day rls/shop/path~%2Fimg%2F%2A.png/%2Fimg%2Fx.png",
        ),
        ("shop", "internal=x", "24 unlimited rls/shop/internal/x"),
        ("shop", "allowed=x", "-"),
        // A value is the text that is written.
        ("shop", "code=007", "27 3/week rls/shop/code=007"),
        ("shop", "code=7", "-"),
        ("shop", "code=true", "30 100/month rls/shop/code=true"),
        ("shop", "code=1.50", "33 100/year rls/shop/code=1.50"),
        // The depth of the rule is the number of entries, and their order counts.
        ("shop", "tier=gold", "36 1/second rls/shop/tier=gold"),
        ("shop", "tier=silver", "-"),
        (
            "shop",
            "tier=gold,user=bob",
            "40 2/second rls/shop/tier=gold/user/bob",
        ),
        ("shop", "user=bob,tier=gold", "-"),
        ("shop", "tier=gold,user=bob,path=/", "-"),
        // The most specific rule decides also if it has no limit at this depth, or nothing below it.
        ("shop", "tier=gold,user=alice", "-"),
        ("shop", "tier=gold,only=x", "-"),
        (
            "shop",
            "tier=silver,only=x",
            "51 6/second rls/shop/tier/only/silver,x",
        ),
        (
            "shop",
            "tier=gold,user=alice,path=/",
            "45 3/second rls/shop/tier=gold/user=alice/path/%2F",
        ),
        (
            "shop",
            "tier=silver,user=bob",
            "49 4/second rls/shop/tier/user/silver,bob",
        ),
        // Names are case-sensitive.
        ("shop", "User=bob", "-"),
        ("Shop", "user=bob", "-"),
        ("shop", "", "-"),
    ];
    let found = rows.map(|(domain, sent, _)| (domain, sent, found(&rules, domain, sent)));
    let expected = rows.map(|(domain, sent, expect)| (domain, sent, expect.to_owned()));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}

#[test]
fn values_that_are_not_utf_8_are_matched_byte_by_byte() {
    let rules = read(SHOP);
    let key = |value: &[u8]| {
        let entries = [Entry {
            key: b"user",
            value,
        }];
        rules.find(b"shop", &entries).map(|rule| rule.key(&entries))
    };
    assert_eq!(key(b"\xff\xfe").as_deref(), Some("rls/shop/user/%FF%FE"));
    assert_eq!(key(b"a\xff").as_deref(), Some("rls/shop/user~a%2A/a%FF"));
}

#[test]
fn flags_and_names_are_read() {
    let rules = read(
        "\
domain: d
descriptors:
  - key: a
    shadow_mode: true
    quota_mode: true
    detailed_metric: true
    metadata: { tier: [1, x] }
    rate_limit: { name: one, unit: second, requests_per_unit: 1, replaces: [{ name: two }, { name: 3 }] }
",
    );
    let mut all = Vec::new();
    rules.for_each(&mut |rule| all.push(Arc::clone(rule)));
    let [rule] = &all[..] else { panic!("{all:?}") };
    assert!(rule.shadow && rule.quota);
    assert_eq!((rule.name.as_str(), rule.path.as_str()), ("one", "d.a"));
    assert_eq!(rule.replaces, ["two", "3"]);
    assert_eq!(rule.metadata, Some(serde_json::json!({ "tier": [1, "x"] })));
    let empty = read("domain: d\ndescriptors:");
    assert!(empty.has_domain(b"d") && !empty.is_empty() && Rules::default().is_empty());
}

#[track_caller]
fn check_errors(texts: &[&str], expect: &[&str]) {
    let read = Rules::read(&files(texts), Reading::default());
    let problems = read.map(|_| ()).unwrap_err().problems;
    let all_named = problems.len() == expect.len()
        && problems
            .iter()
            .zip(expect)
            .all(|(problem, expect)| problem == expect);
    assert!(all_named, "{problems:#?}");
}

#[test]
fn every_error_is_reported_with_file_line_field_value_and_what_may_be() {
    check_errors(
        &["\
domain: d
descriptors:
  - key: ''
  - value: x
  - key: a*
  - key: a
    vale: x
  - key: a
    share_threshold: true
  - key: b
    shadow_mode: maybe
    rate_limit: { unit: fortnight, requests_per_unit: -1 }
  - key: c
    rate_limit: { unit: second, unlimited: true, replaces: { name: x } }
  - key: c
    rate_limit: 5
  - key: d
    descriptors: { key: e }
  - key: f
    rate_limit: { name: x, unit: day, requests_per_unit: 1.5, replaces: [{ name: x }] }
"],
        &[
            r#"0.yaml:3, descriptor "d.": key = "": must be a text that is not empty"#,
            r#"0.yaml:4, descriptor "d._x": key = "": must be a text that is not empty"#,
            r#"0.yaml:5, descriptor "d.a*": key = "a*": must be a text without `*`: only a value has wildcards"#,
            r#"0.yaml:7, descriptor "d.a": there is no field `vale`; did you mean `value`?"#,
            r#"0.yaml:9, descriptor "d.a": share_threshold = "yes": must be no, unless `value` has a `*`"#,
            r#"0.yaml:8, descriptor "d.a": key = "a": must be written once in a list; another descriptor has the same key and value"#,
            r#"0.yaml:11, descriptor "d.b": shadow_mode = "maybe": must be true or false"#,
            r#"0.yaml:12, descriptor "d.b": rate_limit.requests_per_unit = "-1": must be a whole number from 0 to 4294967295"#,
            r#"0.yaml:12, descriptor "d.b": rate_limit.unit = "fortnight": must be second, minute, hour, day, week, month or year"#,
            r#"0.yaml:14, descriptor "d.c": rate_limit.unit = "second": must be absent, because the descriptor is `unlimited`"#,
            r#"0.yaml:14, descriptor "d.c": rate_limit.replaces = "a table": must be a list of `name: NAME`"#,
            r#"0.yaml:16, descriptor "d.c": must be a table of unit, requests_per_unit, unlimited, name, replaces (it is "5")"#,
            r#"0.yaml:15, descriptor "d.c": key = "c": must be written once in a list; another descriptor has the same key and value"#,
            r#"0.yaml:18, descriptor "d.d": descriptors = "a table": must be a list"#,
            r#"0.yaml:20, descriptor "d.f": rate_limit.requests_per_unit = "1.5": must be a whole number from 0 to 4294967295"#,
            r#"0.yaml:20, descriptor "d.f": rate_limit.replaces = "x": must be the name of another descriptor's rate_limit"#,
        ],
    );
}

#[test]
fn a_domain_stands_in_one_file_unless_domains_are_merged() {
    let (one, two) = (
        "domain: d\ndescriptors:\n  - { key: a, rate_limit: { unit: day, requests_per_unit: 1 } }",
        "domain: d\ndescriptors:\n  - { key: b, rate_limit: { unit: day, requests_per_unit: 2 } }",
    );
    let again = "must be written once: it is written at 0.yaml:1 already";
    check_errors(
        &[one, two],
        &[&format!(r#"1.yaml:1, the file: domain = "d": {again}"#)],
    );
    check_errors(
        &["descriptors: []", "- a", "domain: d\n---\ndomain: e"],
        &[
            r#"0.yaml:1, the file: domain = "": must be a name that is not empty"#,
            r#"1.yaml:1, the file: must be a table of domain, descriptors (it is "a list")"#,
            "2.yaml holds 2 documents; it must hold one, with `domain` and `descriptors`",
        ],
    );
    let merged = Reading {
        same_domain: SameDomain::Merged,
        ..Reading::default()
    };
    let (rules, _) = Rules::read(&files(&[one, two]), merged).unwrap();
    assert_eq!(found(&rules, "d", "a=1"), "3 1/day rls/d/a/1");
    assert_eq!(found(&rules, "d", "b=1"), "3 2/day rls/d/b/1");
    let same = Rules::read(&files(&[one, one]), merged).unwrap_err();
    assert_eq!(same.problems.len(), 1, "{same}");
}

#[test]
fn fields_that_the_reference_server_ignores_are_warnings() {
    let text = "\
domain: d
descriptors:
  - key: a
    unlimited: true
    rate_limit: { unit: day }
";
    let (_, warnings) = Rules::read(&files(&[text]), Reading::default()).unwrap();
    let expect = [
        "0.yaml:4, descriptor \"d.a\": `unlimited` has no effect here; allowed fields are key, value, rate_limit, \
         descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, metadata",
        "0.yaml:5, descriptor \"d.a\": rate_limit.requests_per_unit is missing and counts as 0: nothing is admitted",
    ];
    assert_eq!(warnings, expect);
}

#[test]
fn a_rule_becomes_one_budget_or_a_template() {
    let rules = read(SHOP);
    let drafts = rules.drafts();
    let shown: Vec<String> = drafts
        .iter()
        .map(|draft| {
            let limit = draft.rate.as_ref().or(draft.quota.as_ref());
            format!(
                "{} {}",
                draft.key,
                limit.map_or_else(String::new, ToString::to_string)
            )
        })
        .collect();
    assert_eq!(
        shown.first().map(String::as_str),
        Some("rls/shop/code=007 3/7d")
    );
    assert!(
        shown.contains(&"rls/shop/tier/user/* 4/s".to_owned()),
        "{shown:#?}"
    );
    assert!(
        !shown
            .iter()
            .any(|it| it.contains("banned") || it.contains("internal"))
    );
    assert_eq!(drafts.len(), 14);
    for draft in drafts {
        draft.validate().unwrap();
    }
}

#[test]
fn a_quota_has_another_key_than_a_rate() {
    let counting = Counting::Calendar;
    let reading = Reading {
        counting,
        ..Reading::default()
    };
    let (rules, _) = Rules::read(&files(&[SHOP]), reading).unwrap();
    let row = |sent| found(&rules, "shop", sent);
    assert_eq!(row("user=bob"), "3 10/second rls/shop/user/bob");
    assert_eq!(
        row("user=alan"),
        "8 7/minute rls.minute/shop/user~a%2A/alan"
    );
    assert_eq!(row("code=true"), "30 100/month rls.month/shop/code=true");
    let keys: Vec<String> = rules.drafts().into_iter().map(|draft| draft.key).collect();
    assert!(
        keys.contains(&"rls.minute/shop/user~a%2A/*".to_owned()),
        "{keys:#?}"
    );
}

#[test]
fn templates_have_the_maximum_of_keys_and_other_budgets_none() {
    let reading = Reading {
        max_keys: Some(500),
        ..Reading::default()
    };
    let (rules, _) = Rules::read(&files(&[SHOP]), reading).unwrap();
    let mut of_templates = 0;
    for draft in rules.drafts() {
        let is_template = draft.key.contains('*');
        assert_eq!(draft.max_keys.is_some(), is_template, "{}", draft.key);
        of_templates += usize::from(is_template);
        let budget = draft.validate().unwrap();
        assert!(!is_template || budget.max_keys() == 500);
    }
    assert!(of_templates > 0);
}

#[test]
fn statistics_have_the_values_that_the_rules_name() {
    let rules = read(
        "\
domain: d
descriptors:
  - key: a
    value_to_metric: true
    descriptors:
      - key: b
        rate_limit: { unit: day, requests_per_unit: 1 }
      - key: c
        detailed_metric: true
        rate_limit: { unit: day, requests_per_unit: 1 }
  - key: a
    value: x*
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: a
    value: s*
    share_threshold: true
    detailed_metric: true
    rate_limit: { unit: day, requests_per_unit: 1 }
",
    );
    let stats = Stats::default();
    let rows = [
        (&[("a", "1"), ("b", "2")][..], "d.a_1.b"),
        (&[("a", "1"), ("c", "2")], "d.a_1.c_2"),
        (&[("a", "x1")], "d.a_x*"),
        (&[("a", "s1")], "d.a_s*"),
    ];
    for (sent, name) in rows {
        let entry = |(key, value): &(&'static str, &'static str)| Entry {
            key: key.as_bytes(),
            value: value.as_bytes(),
        };
        let entries: Vec<Entry<'_>> = sent.iter().map(entry).collect();
        let rule = rules.find(b"d", &entries).unwrap();
        rule.hits(&stats, &entries)
            .unwrap()
            .add(1, crate::rls::stats::HitOutcome::Within);
        let line = format!("rate_limit.{name}.total_hits: 1\n");
        assert!(stats.text().contains(&line), "{name}: {}", stats.text());
    }
}
