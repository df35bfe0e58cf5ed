use super::*;

#[track_caller]
fn check(rules: &[&str], face: Face, key: &str, expect: Result<&str, &str>) {
    let rules = KeyRules::parse(rules.iter().copied()).expect("valid rules");
    let mapped = rules.budget_key(face, key.as_bytes());
    let mapped = mapped
        .map(|mapped| mapped.key)
        .map_err(|error| error.to_string());
    let expect = expect.map(str::to_owned).map_err(str::to_owned);
    assert_eq!(mapped, expect, "{key:?}");
}

#[test]
fn a_face_without_rules_uses_the_key_as_it_is() {
    check(&[], Face::Http, "tenant/7", Ok("tenant/7"));
    check(&["redis:a -> b"], Face::Http, "tenant/7", Ok("tenant/7"));
    let none = "no rule of the face redis matches the key";
    check(&["redis:a -> b"], Face::Redis, "tenant/7", Err(none));
    check(&["any:a -> b"], Face::Redis, "tenant/7", Err(none));
}

#[test]
fn the_most_specific_rule_applies() {
    let rules = [
        "any:* -> all/*",
        "redis:* -> redis/*",
        "redis:rate: * -> never",
        "redis:rate:* -> api/*",
        "redis:rate:admin -> admin",
        "redis:rate:a* -> a/*",
        "redis:ratf* -> f",
    ];
    check(&rules, Face::Redis, "rate:admin", Ok("admin"));
    check(&rules, Face::Redis, "rate:admin2", Ok("a/dmin2"));
    check(&rules, Face::Redis, "rate:user", Ok("api/user"));
    check(&rules, Face::Redis, "rat", Ok("redis/rat"));
    check(&rules, Face::Redis, "rate", Ok("redis/rate"));
    check(&rules, Face::Redis, "s", Ok("redis/s"));
    check(&rules, Face::Http, "rate:admin", Ok("all/rate:admin"));
}

/// Two keys never become one, and a key never leaves its place in the budget's key.
#[test]
fn bytes_that_no_key_has_are_escaped() {
    for (key, expect) in [
        ("a b", "a%20b"),
        ("a%20b", "a%2520b"),
        ("*", "%2A"),
        ("a//b", "a/%2Fb"),
        ("/a/", "%2Fa%2F"),
        ("ü", "%C3%BC"),
    ] {
        check(&[], Face::Redis, key, Ok(expect));
    }
    check(&["redis:* -> x/*"], Face::Redis, "a*", Ok("x/a%2A"));
    let refused = "the key must be visible ASCII in segments separated by \"/\", with \"*\" only as a whole \
                   segment of a template ('*' stands at byte 1)";
    check(&[], Face::Http, "a*", Err(refused));
    let rules = KeyRules::default();
    let broken = rules
        .budget_key(Face::Redis, &[b'a', 0xff])
        .expect("escaped");
    assert_eq!(broken.key, "a%FF");
}

#[test]
fn a_wrong_rule_is_named() {
    let error = |rule: &str| match KeyRules::parse(["http:a -> b", rule]) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{rule} is taken"),
    };
    for rule in [
        "",
        "x -> y",
        "ftp:x -> y",
        "http: -> y",
        "http:a*b -> y",
        "http:a* -> */*",
    ] {
        assert!(
            error(rule).contains("must be FACE:PATTERN -> KEY"),
            "{rule}"
        );
    }
    assert!(error("http:x -> y/*").contains("its pattern does not end in"));
    assert!(error("http:x -> /y").contains("empty segment"));
    assert!(error("http:a -> c").contains("as another rule"));
}
