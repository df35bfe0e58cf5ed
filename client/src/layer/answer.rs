//! What a refused request is answered with.

use crate::error::KeyRefused;
use crate::limiter::{Snapshot, Standing};
use crate::refused::{Reason, Refused};
use aliquot_core::share::Kind;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::time::Duration;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// gRPC's codes, <https://grpc.io/docs/guides/status-codes/>.
#[derive(Clone, Copy)]
enum Grpc {
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unavailable = 14,
}

/// The answer to a request that was refused: HTTP's, or a gRPC answer without a message.
pub(super) fn refuse<R: Default>(parts: &Parts, held: &Snapshot, refused: Refused) -> Response<R> {
    let (status, grpc) = match refused.reason {
        Reason::Closed => (StatusCode::SERVICE_UNAVAILABLE, Grpc::Unavailable),
        _ => (StatusCode::TOO_MANY_REQUESTS, Grpc::ResourceExhausted),
    };
    let mut response = answer(parts, status, grpc, refused.reason.word());
    let headers = response.headers_mut();
    describe(headers, held);
    if let Some(wait) = refused.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds_up(wait).max(1)));
    }
    response
}

/// The answer to a request whose key is none, or one too many.
pub(super) fn no_key<R: Default>(parts: &Parts, refused: &KeyRefused) -> Response<R> {
    match refused {
        KeyRefused::Invalid { .. } => answer(
            parts,
            StatusCode::BAD_REQUEST,
            Grpc::InvalidArgument,
            "invalid_key",
        ),
        KeyRefused::TooMany { .. } => answer(
            parts,
            StatusCode::TOO_MANY_REQUESTS,
            Grpc::ResourceExhausted,
            "too_many_keys",
        ),
        KeyRefused::Closed => answer(
            parts,
            StatusCode::SERVICE_UNAVAILABLE,
            Grpc::Unavailable,
            Reason::Closed.word(),
        ),
    }
}

fn answer<R: Default>(
    parts: &Parts,
    status: StatusCode,
    grpc: Grpc,
    word: &'static str,
) -> Response<R> {
    let mut response = Response::new(R::default());
    let content = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if content.is_some_and(|content| content.starts_with(b"application/grpc")) {
        // Trailers only: all of the answer is in its header.
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(GRPC_STATUS, HeaderValue::from(grpc as u16));
        headers.insert(GRPC_MESSAGE, HeaderValue::from_static(word));
    } else {
        *response.status_mut() = status;
    }
    response
}

/// The `RateLimit` fields: structured fields (RFC 9651) with the part of this process.
///
/// `q` is the burst and `w` the seconds in which the rate makes it, rounded up;
/// `r` is what is there now and `t` the seconds until all of it is. Where there
/// is no limit to speak of, nothing is said.
pub(super) fn describe(headers: &mut HeaderMap, held: &Snapshot) {
    if !matches!(
        held.right,
        Standing::Leased | Standing::Floor | Standing::Forever
    ) || held.burst == 0
    {
        return;
    }
    let mut insert = |name, text: String| {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    let level = held.level.min(held.burst);
    if held.kind != Kind::Rate || held.rate == 0 {
        insert(RATE_LIMIT_POLICY, format!("\"share\";q={}", held.burst));
        insert(RATE_LIMIT, format!("\"share\";r={level}"));
        return;
    }
    let window = held.burst.div_ceil(held.rate).max(1);
    let full = (held.burst - level).div_ceil(held.rate);
    insert(
        RATE_LIMIT_POLICY,
        format!("\"share\";q={};w={window}", held.burst),
    );
    insert(RATE_LIMIT, format!("\"share\";r={level};t={full}"));
}

fn seconds_up(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
