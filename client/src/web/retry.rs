//! Reads the wait that a server asks for.

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use std::time::{Duration, UNIX_EPOCH};

/// Returns how long an answer asks the client to wait; `None` if it does not, or if the value cannot be read.
///
/// - For an answer that refuses (429, 503 or a redirection) this is `Retry-After`, in seconds or as an HTTP
///   date ([RFC 9110, section 10.2.3](https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3)). A date is
///   compared with `wall_ms`, in milliseconds since the Unix epoch; a date in the past gives zero.
/// - For a gRPC call that failed before it began this is `grpc-retry-pushback-ms`
///   ([gRFC A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md)), or else `Retry-After`.
///
/// ```
/// use aliquot_client::web::retry_after;
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
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    if !refused && !status.is_redirection() && !failed {
        return None;
    }
    let said = text(RETRY_AFTER.as_str())?.trim();
    if !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits for a number are a long time.
        return Some(Duration::from_secs(said.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(said).ok()?;
    let at = at.duration_since(UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(u64::try_from(wall_ms).unwrap_or(0));
    Some(at.saturating_sub(now))
}
