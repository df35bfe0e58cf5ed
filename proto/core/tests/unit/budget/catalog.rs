use super::*;

fn catalog(patterns: &[&str]) -> Catalog {
    let mut catalog = Catalog::default();
    for (id, pattern) in (0..).zip(patterns) {
        let pattern = KeyPattern::try_from(*pattern).unwrap();
        catalog.insert(&pattern, RuleId::new(id)).unwrap();
    }
    catalog
}

#[track_caller]
fn check(patterns: &[&str], key: &str, expect: Option<&str>) {
    let key = Key::try_from(key).unwrap();
    let rule = |expect| {
        let place = patterns.iter().position(|pattern| *pattern == expect);
        RuleId::new(place.unwrap() as u64)
    };
    assert_eq!(catalog(patterns).resolve(&key), expect.map(rule));
}

#[test]
fn the_first_differing_segment_that_is_literal_wins() {
    let rules = [
        "*/*/*",
        "tenant/*/reads",
        "tenant/7/*",
        "*/7/reads",
        "a",
        "a/*",
    ];
    check(&rules, "tenant/7/reads", Some("tenant/7/*"));
    check(&rules, "tenant/8/reads", Some("tenant/*/reads"));
    check(&rules, "tenant/7/writes", Some("tenant/7/*"));
    check(&rules, "tenant/8/writes", Some("*/*/*"));
    check(&rules, "shop/7/reads", Some("*/7/reads"));
    check(&rules, "a", Some("a"));
    check(&rules, "a/b", Some("a/*"));
    check(&rules, "a/b/c/d", None);
    check(&["a/*", "a/b", "*/b"], "a/b", Some("a/b"));
}

#[test]
fn a_duplicate_is_refused_and_changes_nothing() {
    let mut rules = catalog(&["a/*"]);
    let before = rules.clone();
    let pattern = KeyPattern::try_from("a/*").unwrap();
    let refused = DuplicateRule {
        rule: RuleId::new(0),
    };
    assert_eq!(rules.insert(&pattern, RuleId::new(9)), Err(refused));
    assert_eq!(rules, before);
}

#[test]
fn a_removed_rule_leaves_nothing_behind() {
    let mut rules = catalog(&["a/*/c", "a/b"]);
    let pattern = |text| KeyPattern::try_from(text).unwrap();
    assert_eq!(rules.remove(&pattern("a/*")), None);
    assert_eq!(rules.remove(&pattern("a/*/c")), Some(RuleId::new(0)));
    assert_eq!(rules.remove(&pattern("a/*/c")), None);
    assert_eq!(rules.len(), 1);
    assert_eq!(rules.remove(&pattern("a/b")), Some(RuleId::new(1)));
    assert_eq!(rules, Catalog::default());
    assert!(rules.is_empty());
}
