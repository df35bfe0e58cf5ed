use super::*;

#[track_caller]
fn check(pattern: &str, matching: &[&str], others: &[&str]) {
    let it = Pattern::of(pattern).unwrap();
    for value in matching {
        assert!(it.matches(value.as_bytes()), "{pattern} {value}");
    }
    for value in others {
        assert!(!it.matches(value.as_bytes()), "{pattern} {value}");
    }
}

#[test]
fn a_star_matches_any_bytes_also_none() {
    assert_eq!(Pattern::of("plain"), None);
    check("*", &["", "a", "*"], &[]);
    check("v*", &["v", "v1", "v*"], &["", "u1"]);
    check("*.png", &[".png", "a.png", ".png.png"], &["a.pngx", "png"]);
    check(
        "/api/*/users",
        &["/api//users", "/api/7/users"],
        &["/api/users", "/api/7/users/1"],
    );
    check("a*bc*d", &["abcd", "axbcxbcd"], &["abd", "acbd", "bcd"]);
    check("ab*ba", &["abba", "ab-ba"], &["aba", "ab"]);
    check("a**b", &["ab", "axb"], &["a", "b"]);
}
