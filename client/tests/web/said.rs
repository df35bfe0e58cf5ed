//! Parsing of the times at which servers ask for a retry.

use super::headers;
use aliquot_client::http::retry_after;
use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use std::time::{Duration, UNIX_EPOCH};

proptest! {
    #[test]
    fn a_date_is_as_good_as_a_number(now in 0..4_000_000_000_u64, wait in 0..1_000_000_u64) {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now + wait));
        let wall_ms = i64::try_from(now * 1_000).expect("in range");
        let wait_of = |text: &str| retry_after(StatusCode::SERVICE_UNAVAILABLE, &headers("retry-after", &[text]), wall_ms);
        prop_assert_eq!(wait_of(&date), Some(Duration::from_secs(wait)));
        prop_assert_eq!(wait_of(&wait.to_string()), Some(Duration::from_secs(wait)));
    }

    #[test]
    fn whatever_a_server_says_is_read_or_not(text in "\\PC{0,40}") {
        if let Ok(value) = HeaderValue::from_str(&text) {
            let headers: HeaderMap = [(http::header::RETRY_AFTER, value)].into_iter().collect();
            let _ = retry_after(StatusCode::TOO_MANY_REQUESTS, &headers, i64::MIN);
        }
    }
}

#[track_caller]
fn check(status: StatusCode, lines: &[(&'static str, &str)], expect: Option<u64>) {
    let headers = lines
        .iter()
        .flat_map(|&(name, line)| headers(name, &[line]))
        .filter_map(|(name, value)| Some((name?, value)))
        .collect();
    let wait = retry_after(status, &headers, 1_000_000);
    assert_eq!(wait, expect.map(Duration::from_millis), "{lines:?}");
}

/// Servers write more than the standard allows, on more answers than it names.
#[test]
fn unusual_waits_are_read() {
    let busy = StatusCode::TOO_MANY_REQUESTS;
    for status in [403, 413, 429, 503] {
        let status = StatusCode::from_u16(status).expect("a status");
        check(status, &[("retry-after", "7")], Some(7_000));
    }
    check(busy, &[("retry-after", "1.5")], Some(1_500));
    check(busy, &[("retry-after", "120.0")], Some(120_000));
    // Of several fields the longest wait counts, in any order.
    let (short, long) = (("retry-after", "60"), ("retry-after", "120"));
    check(busy, &[short, long], Some(120_000));
    check(busy, &[long, short, ("retry-after", "soon")], Some(120_000));
    // A leap second: 60 is the one after 59.
    check(
        busy,
        &[("retry-after", "Thu, 01 Jan 1970 00:16:60 GMT")],
        Some(20_000),
    );
}

#[test]
fn waits_of_servers_are_read() {
    let (ok, busy) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    check(busy, &[("retry-after", "7")], Some(7_000));
    check(busy, &[("retry-after", " 7 ")], Some(7_000));
    check(
        StatusCode::MOVED_PERMANENTLY,
        &[("retry-after", "7")],
        Some(7_000),
    );
    check(
        StatusCode::INTERNAL_SERVER_ERROR,
        &[("retry-after", "7")],
        None,
    );
    check(
        busy,
        &[("retry-after", "Thu, 01 Jan 1970 00:16:41 GMT")],
        Some(1_000),
    );
    check(
        busy,
        &[("retry-after", "Thursday, 01-Jan-70 00:16:41 GMT")],
        Some(1_000),
    );
    check(
        busy,
        &[("retry-after", "Thu Jan  1 00:16:41 1970")],
        Some(1_000),
    );
    check(
        busy,
        &[("retry-after", "Thu, 01 Jan 1970 00:00:01 GMT")],
        Some(0),
    );
    for rubbish in ["", "-1", "1.", ".5", "1.5.2", "1e3", "1,5", "soon", "+3"] {
        check(busy, &[("retry-after", rubbish)], None);
    }
    check(
        ok,
        &[("grpc-status", "8"), ("retry-after", "3")],
        Some(3_000),
    );
    check(
        ok,
        &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "250")],
        Some(250),
    );
    check(
        ok,
        &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")],
        None,
    );
    check(
        ok,
        &[("grpc-status", "0"), ("grpc-retry-pushback-ms", "250")],
        None,
    );
    let endless = headers("retry-after", &["99999999999999999999999"]);
    assert!(retry_after(busy, &endless, 0).is_some_and(|wait| wait.as_secs() == u64::MAX));
}
