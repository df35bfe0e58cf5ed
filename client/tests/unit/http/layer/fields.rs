use super::*;

#[test]
fn a_structured_field_has_no_integer_of_more_than_fifteen_digits() {
    let mut headers = HeaderMap::new();
    let both = LimitFields {
        fields: Fields::Both,
        ..LimitFields::default()
    };
    let info = LimitInfo {
        limit: 1 << 56,
        window: Some(86_400),
        remaining: 1_000_000_000_000_000,
        reset: None,
    };
    both.describe(&mut headers, "limit", &info, &crate::clock::HostClock);
    let value = |name: HeaderName| headers[name].to_str().expect("ASCII").to_owned();
    assert_eq!(
        value(RATE_LIMIT_POLICY),
        "\"limit\";q=999999999999999;w=86400"
    );
    assert_eq!(value(RATE_LIMIT), "\"limit\";r=999999999999999");
    assert_eq!(value(X_LIMIT), "72057594037927936");
    assert_eq!(value(X_REMAINING), "1000000000000000");
}
