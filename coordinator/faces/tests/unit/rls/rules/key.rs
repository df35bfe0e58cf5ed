use super::*;
use aliquot_core::budget::KeyPattern;

fn entries<'a>(all: &[(&'a str, &'a str)]) -> Vec<Entry<'a>> {
    let entry = |(key, value): &(&'a str, &'a str)| Entry {
        key: key.as_bytes(),
        value: value.as_bytes(),
    };
    all.iter().map(entry).collect()
}

#[track_caller]
fn check(rule: &[(&str, Fixed<'_>)], sent: &[(&str, &str)], pattern: &str, expect: &str) {
    let key = BudgetKey::new(None, "shop", rule);
    assert_eq!(key.pattern(), pattern);
    assert_eq!(key.of(&entries(sent)), expect);
    let (pattern, key) = (KeyPattern::try_from(pattern), Key::try_from(expect));
    assert!(pattern.unwrap().matches(&key.unwrap()));
}

#[test]
fn open_values_stand_in_the_last_segment() {
    use Fixed::{Any, Pattern, Shared, Value};
    let (static_, open) = ([("a", Value("1")), ("b", Value("x/y"))], [("a", Any)]);
    let sent = [("a", "1"), ("b", "x/y")];
    check(
        &static_,
        &sent,
        "rls/shop/a=1/b=x%2Fy",
        "rls/shop/a=1/b=x%2Fy",
    );
    check(
        &open,
        &[("a", "10.0.0.1")],
        "rls/shop/a/*",
        "rls/shop/a/10.0.0.1",
    );
    check(&open, &[("a", "")], "rls/shop/a/*", "rls/shop/a/%");
    let mixed = [("a", Any), ("b", Value("x")), ("c", Pattern("v*"))];
    let sent = [("a", "é"), ("b", "x"), ("c", "v1,2")];
    let (pattern, key) = (
        "rls/shop/a/b=x/c~v%2A/*",
        "rls/shop/a/b=x/c~v%2A/%C3%A9,v1%2C2",
    );
    check(&mixed, &sent, pattern, key);
    let shared = [("c", Shared("v*"))];
    check(
        &shared,
        &[("c", "v1")],
        "rls/shop/c~v%2A",
        "rls/shop/c~v%2A",
    );
}

#[test]
fn a_long_key_ends_in_a_digest_and_stays_a_key_of_its_own() {
    let long = "x".repeat(300);
    let key = BudgetKey::new(None, "shop", &[("a", Fixed::Any)]);
    let one = key.of(&entries(&[("a", &long)]));
    let other = key.of(&entries(&[("a", &format!("{long}y"))]));
    assert_ne!(one, other);
    assert!(one.starts_with("rls/shop/a/#"), "{one}");
    let deep: Vec<(&str, Fixed<'_>)> = vec![("a", Fixed::Any); 20];
    let deeper: Vec<(&str, Fixed<'_>)> = vec![("a", Fixed::Any); 21];
    let wide = [("a", Fixed::Value(long.as_str()))];
    for (rule, depth) in [(&deep[..], 20), (&deeper, 21), (&wide, 1)] {
        for domain in ["shop", &long] {
            let key = BudgetKey::new(Some(Unit::Minute), domain, rule);
            let pattern = KeyPattern::try_from(key.pattern()).unwrap();
            let sent = vec![("a", long.as_str()); depth];
            assert!(pattern.matches(&Key::try_from(key.of(&entries(&sent))).unwrap()));
        }
    }
    let pattern = |rule| BudgetKey::new(None, "shop", rule).pattern();
    assert_ne!(pattern(&deep), pattern(&deeper));
}

#[test]
fn an_override_has_a_key_for_all_entries() {
    let limit = |requests, unit, units| UnitLimit {
        requests,
        unit,
        units,
    };
    let sent = entries(&[("a", "1"), ("b", "")]);
    let key = |limit| Override::key(b"shop", &sent, limit);
    let minute = key(limit(30, Unit::Minute, 1));
    assert_eq!(minute, "rls/shop/@override/a=1,b=/30-per-1m-burst-30");
    assert!(key(limit(1, Unit::Second, 90)).ends_with("/1-per-90s-burst-1"));
    assert!(key(limit(1, Unit::Week, 1)).ends_with("/1-per-7d-burst-1"));
    let long = "x".repeat(400);
    let most = limit(u32::MAX, Unit::Second, u32::MAX);
    let key = Override::key(long.as_bytes(), &entries(&[("a", &long)]), most);
    assert!(Key::try_from(key).is_ok());
}
