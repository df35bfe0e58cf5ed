//! Reads the wait that a server asks for.

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use std::time::{Duration, UNIX_EPOCH};

/// Returns how long an answer asks the client to wait; `None` if it does not, or if the value cannot be read.
///
/// - For an answer that refuses (403, 413, 429, 503 or a redirection) this is `Retry-After`, in seconds or as
///   an HTTP date ([RFC 9110, section 10.2.3](https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3)). A date
///   is compared with `wall_ms`, in milliseconds since the Unix epoch; a date in the past gives zero, and a
///   second 60 (a leap second) is the one after 59. Seconds may have decimal places, which the standard does
///   not know and some servers send. Of several fields the longest wait counts.
/// - For a gRPC call that failed before it began this is `grpc-retry-pushback-ms`
///   ([gRFC A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md)), or else `Retry-After`.
///
/// ```
/// use aliquot_client::http::retry_after;
/// use http::{HeaderMap, HeaderValue, StatusCode};
/// use std::time::Duration;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("retry-after", HeaderValue::from_static("120"));
/// let wait = retry_after(StatusCode::TOO_MANY_REQUESTS, &headers, 0);
/// assert_eq!(wait, Some(Duration::from_secs(120)));
/// headers.insert("retry-after", HeaderValue::from_static("Thu, 01 Jan 1970 00:00:30 GMT"));
/// let wait = retry_after(StatusCode::SERVICE_UNAVAILABLE, &headers, 10_000);
/// assert_eq!(wait, Some(Duration::from_secs(20)));
/// assert_eq!(retry_after(StatusCode::OK, &headers, 0), None);
/// ```
#[must_use]
pub fn retry_after(status: StatusCode, headers: &HeaderMap, wall_ms: i64) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let failed = text("grpc-status").is_some_and(|status| status != "0");
    let pushback = text("grpc-retry-pushback-ms").filter(|_| failed);
    if let Some(ms) = pushback.and_then(|ms| ms.parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let refused = matches!(
        status,
        StatusCode::FORBIDDEN
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
    );
    if !refused && !status.is_redirection() && !failed {
        return None;
    }
    let fields = headers.get_all(RETRY_AFTER).iter();
    let text = fields.filter_map(|field| field.to_str().ok());
    text.filter_map(|text| wait(text.trim(), wall_ms)).max()
}

/// Reads one field.
fn wait(text: &str, wall_ms: i64) -> Option<Duration> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return seconds(text);
    }
    let at = date(text)?;
    let now = Duration::from_millis(u64::try_from(wall_ms).unwrap_or(0));
    Some(at.saturating_sub(now))
}

/// Reads seconds, with or without decimal places; rounded up to nanoseconds.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(places) {
        return None;
    }
    // Too many digits for a number are a long time.
    let whole = Duration::from_secs(whole.parse().unwrap_or(u64::MAX));
    let (nanos, beyond) = places.split_at(places.len().min(9));
    let nanos: u32 = format!("{nanos:0<9}").parse().ok()?;
    let more = u32::from(beyond.bytes().any(|byte| byte != b'0'));
    let nanos = Duration::from_nanos(u64::from(nanos) + u64::from(more));
    Some(whole.saturating_add(nanos))
}

/// Reads an HTTP date, as the time since the Unix epoch. A second 60 is the one after 59.
fn date(text: &str) -> Option<Duration> {
    let parse = |text: &str| {
        let at = httpdate::parse_http_date(text).ok()?;
        at.duration_since(UNIX_EPOCH).ok()
    };
    let leap = || {
        let before = text.replacen(":60 ", ":59 ", 1);
        (before != text)
            .then(|| parse(&before))?
            .map(|at| at + Duration::from_secs(1))
    };
    parse(text).or_else(leap)
}
