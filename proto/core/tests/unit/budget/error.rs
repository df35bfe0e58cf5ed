use super::*;

#[test]
fn distances_are_levenshteins() {
    for (left, right, edits) in [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("denny", "deny", 1),
        ("Deny", "deny", 0),
        ("flaw", "lawn", 2),
    ] {
        assert_eq!(distance(left, right), edits, "{left} {right}");
    }
}

#[test]
fn a_misspelt_word_is_answered_with_the_nearest() {
    let names = ["deny", "floor", "keep", "open"];
    let all = r#"one of "deny", "floor", "keep", "open""#;
    assert_eq!(
        choice("flor", names.into_iter()),
        format!(r#"{all}; did you mean "floor"?"#)
    );
    assert_eq!(choice("whatever", names.into_iter()), all);
    assert_eq!(choice(&"d".repeat(9_999), names.into_iter()), all);
}

#[test]
fn an_error_quotes_at_most_eighty_characters() {
    let error = FieldError::new("key", &"é".repeat(1_000), "short");
    assert_eq!(error.value.chars().count(), 81);
    let error = FieldError::new("burst", "-3", "a whole number");
    assert_eq!(error.to_string(), r#"burst = "-3": must be a whole number"#);
}
