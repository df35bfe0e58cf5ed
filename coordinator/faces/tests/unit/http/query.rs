use super::*;

/// Returns the deadline in milliseconds of a look with this query, if it is valid.
fn of_look(query: &str) -> Option<u128> {
    let uri: Uri = format!("/v1/budgets/a{query}").parse().expect("a path");
    let read = status_and_deadline(&uri);
    read.ok().map(|(_, within)| within.as_millis())
}

#[test]
fn a_look_may_have_a_deadline_and_other_requests_have_it_in_their_body() {
    for (query, expect) in [
        ("", Some(250)),
        ("?status=429", Some(250)),
        ("?within_ms=1", Some(1)),
        ("?never=422&within_ms=10000&status=429", Some(10_000)),
        ("?within_ms=0", None),
        ("?within_ms=10001", None),
        ("?within_ms=+5", None),
        ("?within_ms=", None),
        ("?within_ms", None),
        ("?within_ms=5&within_ms=5", None),
    ] {
        assert_eq!(of_look(query), expect, "{query}");
    }
    let uri = Uri::from_static("/v1/check?within_ms=5");
    assert!(status_of(&uri).is_err());
}
