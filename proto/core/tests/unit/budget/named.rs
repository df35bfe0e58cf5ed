use super::*;

#[track_caller]
fn check(text: &str, expect: Option<(u64, Span, u64)>) {
    let read = NamedLimit::try_from(text).ok();
    let read = read.map(|limit| (limit.rate().tokens(), limit.rate().per(), limit.burst()));
    assert_eq!(read, expect, "{text}");
}

#[test]
fn a_limit_has_one_spelling() {
    let minute = Span::from_secs(60);
    check("30-per-1m-burst-15", Some((30, minute, 15)));
    check("1-per-90s-burst-1", Some((1, Span::from_secs(90), 1)));
    check(
        "5-per-1500us-burst-7",
        Some((5, Span::from_nanos(1_500_000), 7)),
    );
    for wrong in [
        "",
        "30-per-60s-burst-15",
        "30-per-1m0s-burst-15",
        "030-per-1m-burst-15",
        "+30-per-1m-burst-15",
        "30-per-1m-burst-015",
        "30-per-1m-burst-15-burst-15",
        "30-per-1m",
        "30-per-m-burst-15",
        "0-per-1m-burst-15",
        "30-per-1m-burst-0",
        "1-per-11d-burst-1",
        "30-per-1m-burst-99999999999999999999",
        "1-per-10d-burst-72057594037927936",
    ] {
        check(wrong, None);
    }
}

#[test]
fn a_limit_that_is_no_budget_is_refused_with_its_field() {
    let second = Span::from_secs(1);
    let field = |limit: Result<NamedLimit, FieldError>| limit.map_err(|error| error.field);
    assert_eq!(field(NamedLimit::per(0, second, 1)), Err("rate".into()));
    assert_eq!(field(NamedLimit::per(1, second, 0)), Err("burst".into()));
    assert_eq!(
        field(NamedLimit::per(2_000_000_000_000, second, 1)),
        Err("rate".into())
    );
    assert_eq!(
        field(NamedLimit::per(1, second, 1 << 57)),
        Err("burst".into())
    );
}
