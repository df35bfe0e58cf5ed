//! Values of a wrong type or range are told with file, line, field, value and what is allowed.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_budgets::{Unreadable, read, validate};
use std::fs;

/// Returns the errors of a file, without its directory.
fn problems(name: &str, text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(name);
    fs::write(&file, text).unwrap();
    let found = read(&[file.display().to_string()]);
    let error: Unreadable = match found.and_then(|found| validate(&found)) {
        Ok(budgets) => panic!("{text}\nis read as {budgets:?}"),
        Err(error) => error,
    };
    let dir = format!("{}/", dir.path().display());
    let problems = error.problems().iter();
    problems.map(|problem| problem.replace(&dir, "")).collect()
}

const WHOLE: &str = "a whole number from 0 to 72057594037927936";
const RATE: &str = "a rate of 0/s, or from 1 per 10 days to 1T/s, such as \"1000/s\", \"1.5k/s\" or \"1 per 10 days\"";
const BURST: &str = "a whole number of tokens, 0 to 2^56; only with `rate`";

/// Each value stands in line 4, as it is written.
#[test]
fn a_wrong_burst_is_told_as_it_is_written_with_its_line() {
    let yaml = [
        (".nan", ".nan", WHOLE),
        (".inf", ".inf", WHOLE),
        ("-.inf", "-.inf", WHOLE),
        ("1e3", "1e3", WHOLE),
        ("1.5", "1.5", WHOLE),
        ("1.50", "1.50", WHOLE),
        ("-5", "-5", WHOLE),
        ("12345678901234567890", "12345678901234567890", WHOLE),
        ("99999999999999999999", "99999999999999999999", WHOLE),
        ("-99999999999999999999", "-99999999999999999999", WHOLE),
        ("72057594037927937", "72057594037927937", WHOLE),
        ("true", "true", WHOLE),
        ("yes", "yes", WHOLE),
        ("'true'", "true", WHOLE),
        ("'1.5'", "1.5", WHOLE),
        ("[1]", "[1]", BURST),
        ("{a: 1}", "{\"a\":1}", BURST),
    ];
    for (value, quoted, allowed) in yaml {
        let text = format!("# A comment.\nkey: a\nrate: 10/s\nburst: {value}\n");
        let reported = format!("burst.yaml:4, budget \"a\": burst = {quoted:?}: must be {allowed}");
        assert_eq!(problems("burst.yaml", &text), [reported], "{value}");
    }
    let toml = [
        ("nan", "nan", WHOLE),
        ("inf", "inf", WHOLE),
        ("-inf", "-inf", WHOLE),
        ("1e3", "1e3", WHOLE),
        ("1.5", "1.5", WHOLE),
        ("-5", "-5", WHOLE),
        ("true", "true", WHOLE),
        ("[1]", "[1]", BURST),
    ];
    for (value, quoted, allowed) in toml {
        let text = format!("# A comment.\nkey = \"a\"\nrate = \"10/s\"\nburst = {value}\n");
        let reported = format!("burst.toml:4, budget \"a\": burst = {quoted:?}: must be {allowed}");
        assert_eq!(problems("burst.toml", &text), [reported], "{value}");
    }
}

#[test]
fn a_wrong_rate_is_told_as_it_is_written_with_its_line() {
    for value in [".inf", ".nan", "1e3", "1.5", "10", "true"] {
        let text = format!("key: a\n\nrate: {value}\n");
        let reported = format!("rate.yaml:3, budget \"a\": rate = {value:?}: must be {RATE}");
        assert_eq!(problems("rate.yaml", &text), [reported], "{value}");
    }
}

/// The line is that of the value, not that of the budget or of the list that it stands in.
#[test]
fn a_wrong_value_within_a_field_is_reported_with_its_own_line() {
    let text = "\
- key: a
  rate: 10/s
- key: b
  rate: 10/s
  floor:
    rate: 1/s
    burst: 1.5
  weights:
    - match: { service: checkout }
      weight: 2
    - match: { service: search }
      weight: .inf
      band: true
  on_lease_expiry:
    local:
      rate: 1e3
";
    let places = problems("inner.yaml", text);
    let fields: Vec<(&str, &str)> = places
        .iter()
        .filter_map(|problem| problem.split_once(", budget \"b\": "))
        .map(|(place, error)| (place, error.split(": must be").next().unwrap_or_default()))
        .collect();
    for expect in [
        ("inner.yaml:7", "floor.burst = \"1.5\""),
        ("inner.yaml:12", "weights[1].weight = \".inf\""),
        ("inner.yaml:13", "weights[1].band = \"true\""),
        ("inner.yaml:16", "on_lease_expiry.local.rate = \"1e3\""),
    ] {
        assert!(fields.contains(&expect), "{expect:?} is not in {fields:#?}");
    }
}

/// Each document and each alias has its own place, and the value is that which the alias stands for.
#[test]
fn documents_and_aliases_keep_lines_and_values() {
    let text = "\
# ä has two bytes.
key: a
rate: 1.5e3
---
- key: b
  rate: &default 1.5e3
- key: c
  rate: *default
";
    let expect = ["two.yaml:3", "two.yaml:6", "two.yaml:8"];
    let reported = problems("two.yaml", text);
    assert_eq!(reported.len(), 3, "{reported:?}");
    for (reported, place) in reported.iter().zip(expect) {
        assert!(reported.starts_with(place), "{reported}");
        assert!(reported.contains("rate = \"1.5e3\": must be"), "{reported}");
    }
}

#[test]
fn other_shapes_are_told_with_field_value_and_what_is_allowed() {
    for (text, reported) in [
        (
            "key: a\nrate: 1/s\nweights: 3\n",
            "odd.yaml:3, budget \"a\": weights = \"3\": must be a list of `{ match: { label: glob }, weight: 1 to \
             1000000, band: 0 to 9 }`",
        ),
        (
            "key: a\nrate: 1/s\nfloor: { rte: 1/s }\n",
            "odd.yaml:3, budget \"a\": floor = \"{\\\"rte\\\":\\\"1/s\\\"}\": must be `{ rate, burst }` with `rate`, \
             `{ permits }` with `concurrency`; not with `quota`; unknown field `rte`, expected one of `rate`, `burst`, \
             `permits`",
        ),
        (
            "key: a\nrate: 1/s\nbrst: .nan\n",
            "odd.yaml:3, budget \"a\": there is no field `brst`; did you mean `burst`?",
        ),
        (
            "- 1.5\n",
            "odd.yaml:1 must be a table of fields such as `key` and `rate`, not 1.5",
        ),
    ] {
        assert_eq!(problems("odd.yaml", text), [reported], "{text}");
    }
}

/// YAML reads some texts as numbers, or as true or false.
#[test]
fn a_key_that_is_no_text_or_is_missing_is_reported_with_what_is_allowed() {
    let allowed = "must be a key, or a template with `*` for whole segments";
    let quotes = ", as a text: in quotes if it is read as a number, or as true or false";
    for key in ["y", "yes", "true", "5", "1.50"] {
        let text = format!("# A comment.\nkey: {key}\nrate: 10/s\n");
        let reported = format!("key.yaml:2: key = {key:?}: {allowed}{quotes}");
        assert_eq!(problems("key.yaml", &text), [reported], "{key}");
    }
    let missing = |line: u32| format!("key.yaml:{line}: key is missing: {allowed}");
    assert_eq!(problems("key.yaml", "\nrate: 10/s\n"), [missing(2)]);
    assert_eq!(problems("key.yaml", "key:\nrate: 10/s\n"), [missing(1)]);
    let two = "- { key: a, rate: 1/s }\n- { rate: 1/s }\n";
    assert_eq!(problems("key.yaml", two), [missing(2)]);
    let reported = problems("key.toml", "[[budgets]]\nkey = true\nrate = \"1/s\"\n");
    assert_eq!(
        reported,
        [format!("key.toml:2: key = \"true\": {allowed}{quotes}")]
    );
    let reported = problems("key.toml", "[[budgets]]\nrate = \"1/s\"\n");
    assert_eq!(reported, [format!("key.toml:1: key is missing: {allowed}")]);
}
