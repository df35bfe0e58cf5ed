use super::*;

#[track_caller]
fn check_pattern(text: &str, expect: Option<KeyError>) {
    assert_eq!(KeyPattern::try_from(text).err(), expect, "{text:?}");
    // Without a star, it is a key if it is a pattern.
    if !text.contains('*') {
        assert_eq!(Key::try_from(text).err(), expect, "{text:?}");
        assert_eq!(Key::check(text).err(), expect, "{text:?}");
    }
}

#[test]
fn patterns_outside_the_limits_are_refused_with_the_place() {
    let star = |at| Some(KeyError::Character { at, character: '*' });
    check_pattern("checkout/charge", None);
    check_pattern("tenant/*/reads", None);
    check_pattern("*", None);
    check_pattern("", Some(KeyError::Empty));
    check_pattern("/a", Some(KeyError::EmptySegment { segment: 1 }));
    check_pattern("a//b", Some(KeyError::EmptySegment { segment: 2 }));
    check_pattern("a/b/", Some(KeyError::EmptySegment { segment: 3 }));
    check_pattern("a/b*", star(3));
    check_pattern("**", star(0));
    check_pattern(
        "a b",
        Some(KeyError::Character {
            at: 1,
            character: ' ',
        }),
    );
    check_pattern(
        "é",
        Some(KeyError::Character {
            at: 0,
            character: 'é',
        }),
    );
    check_pattern("*/*/*/*", None);
    check_pattern(
        "*/*/*/*/*",
        Some(KeyError::TooManyWildcards { wildcards: 5 }),
    );
    check_pattern(&"a".repeat(256), None);
    check_pattern(&"a".repeat(257), Some(KeyError::TooLong { bytes: 257 }));
    check_pattern(
        &"a/".repeat(16),
        Some(KeyError::TooManySegments { segments: 17 }),
    );
}

#[test]
fn a_key_has_no_star_at_all() {
    assert!(Key::try_from("tenant/7/reads").is_ok());
    let refused = KeyError::Character {
        at: 7,
        character: '*',
    };
    assert_eq!(Key::try_from("tenant/*/reads"), Err(refused));
}

#[test]
fn a_star_stands_for_exactly_one_segment() {
    let pattern = KeyPattern::try_from("tenant/*/reads").unwrap();
    let matches = |key| pattern.matches(&Key::try_from(key).unwrap());
    assert!(matches("tenant/7/reads"));
    assert!(!matches("tenant/reads"));
    assert!(!matches("tenant/7/8/reads"));
    assert!(!matches("tenant/7/writes"));
    assert!(!matches("tenant/7/reads/x"));
}
