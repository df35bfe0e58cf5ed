use super::*;

#[track_caller]
fn check(glob: &str, matching: &[&str], other: &[&str]) {
    for text in matching {
        assert!(glob_matches(glob, text), "{glob} {text}");
    }
    for text in other {
        assert!(!glob_matches(glob, text), "{glob} {text}");
    }
}

#[test]
fn a_star_stands_for_any_run_of_characters() {
    check("checkout", &["checkout"], &["checkout2", "check", ""]);
    check("*", &["", "anything"], &[]);
    check(
        "checkout-*",
        &["checkout-", "checkout-eu"],
        &["checkout", "my-checkout-eu"],
    );
    check("*-eu", &["a-eu", "-eu"], &["a-eu-1", "eu"]);
    check("a*a", &["aa", "aba"], &["a", "ab"]);
    check("a*b*c", &["abc", "a-b-b-c"], &["acb", "ac", "abcd"]);
    check("**", &["", "x"], &[]);
    check("*ab*ab", &["abab", "xabab"], &["ab", "abxa"]);
}

#[test]
fn every_label_named_must_match_and_be_there() {
    let labels = |pairs: &[(&str, &str)]| -> Labels {
        let pairs = pairs.iter();
        pairs
            .map(|&(name, text)| (name.into(), text.into()))
            .collect()
    };
    let rule = |pairs| WeightRule {
        labels: labels(pairs),
        weight: Weight::ONE,
        band: None,
    };
    let client = labels(&[("service", "checkout"), ("zone", "eu-1")]);
    assert!(rule(&[]).matches(&client));
    assert!(rule(&[("service", "check*")]).matches(&client));
    assert!(rule(&[("service", "*"), ("zone", "eu-*")]).matches(&client));
    assert!(!rule(&[("service", "*"), ("zone", "us-*")]).matches(&client));
    assert!(!rule(&[("cell", "*")]).matches(&client));
}
