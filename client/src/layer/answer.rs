//! Answers to refused requests.

use crate::error::KeyRefused;
use crate::limiter::Snapshot;
use crate::refused::{Reason, Refused};
use aliquot_core::share::Kind;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::time::Duration;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// <https://github.com/grpc/proposal/blob/master/A6-client-retries.md>.
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Header fields that describe the limit in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fields {
    /// No fields; `Retry-After` is still sent.
    None,
    /// `RateLimit` and `RateLimit-Policy` of
    /// [draft-ietf-httpapi-ratelimit-headers](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/).
    #[default]
    Standard,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, the last in seconds from now.
    /// Many clients know them, but no standard defines them.
    Legacy,
    /// The fields of [`Fields::Standard`] and [`Fields::Legacy`].
    Both,
}

/// gRPC's codes, <https://grpc.io/docs/guides/status-codes/>.
#[derive(Clone, Copy)]
enum Grpc {
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unavailable = 14,
}

/// Makes the bodies of refusals: [`Plain`] or [`Problems`].
pub trait Answers<R> {
    /// Returns the body and its content type; `problem` makes the problem in JSON.
    fn body(problem: impl FnOnce() -> String) -> (R, Option<HeaderValue>);

    /// Returns an empty body.
    fn empty() -> R;
}

/// Refusals without a body.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// Refusals with a problem in JSON ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) as their body.
#[derive(Clone, Copy, Debug)]
pub struct Problems;

impl<R: Default> Answers<R> for Plain {
    fn body(_: impl FnOnce() -> String) -> (R, Option<HeaderValue>) {
        (R::default(), None)
    }

    fn empty() -> R {
        R::default()
    }
}

impl<R: From<String>> Answers<R> for Problems {
    fn body(problem: impl FnOnce() -> String) -> (R, Option<HeaderValue>) {
        let kind = HeaderValue::from_static("application/problem+json");
        (R::from(problem()), Some(kind))
    }

    fn empty() -> R {
        R::from(String::new())
    }
}

/// Content of a refusal, for HTTP and for gRPC.
struct Problem<'a> {
    status: StatusCode,
    grpc: Grpc,
    word: &'static str,
    detail: String,
    /// Name of the limit, if there are several.
    layer: Option<&'a str>,
    wait: Option<Duration>,
}

/// Answers a refused request: with an HTTP answer, or with a gRPC answer without a message.
pub(super) fn refuse<A: Answers<R>, R>(
    parts: &Parts,
    layer: Option<&str>,
    refused: Refused,
) -> Response<R> {
    let (status, grpc) = match refused.reason {
        Reason::Closed | Reason::Frozen | Reason::Broken | Reason::Shed => {
            (StatusCode::SERVICE_UNAVAILABLE, Grpc::Unavailable)
        }
        _ => (StatusCode::TOO_MANY_REQUESTS, Grpc::ResourceExhausted),
    };
    let problem = Problem {
        status,
        grpc,
        word: refused.reason.word(),
        detail: refused.reason.to_string(),
        layer,
        wait: refused.retry_after,
    };
    problem.answer::<A, R>(parts)
}

/// Answers a request whose key is invalid, or for which there are too many keys.
pub(super) fn no_key<A: Answers<R>, R>(parts: &Parts, refused: &KeyRefused) -> Response<R> {
    let (status, grpc, word) = match refused {
        KeyRefused::Invalid { .. } => (
            StatusCode::BAD_REQUEST,
            Grpc::InvalidArgument,
            "invalid_key",
        ),
        KeyRefused::TooMany { .. } => (
            StatusCode::TOO_MANY_REQUESTS,
            Grpc::ResourceExhausted,
            "too_many_keys",
        ),
        KeyRefused::Closed => (
            StatusCode::SERVICE_UNAVAILABLE,
            Grpc::Unavailable,
            Reason::Closed.word(),
        ),
    };
    // Text from the request is not echoed.
    let detail = match refused {
        KeyRefused::Invalid { error, .. } => format!("the key {error}"),
        KeyRefused::TooMany { .. } | KeyRefused::Closed => refused.to_string(),
    };
    let problem = Problem {
        status,
        grpc,
        word,
        detail,
        layer: None,
        wait: None,
    };
    problem.answer::<A, R>(parts)
}

impl Problem<'_> {
    fn answer<A: Answers<R>, R>(&self, parts: &Parts) -> Response<R> {
        let content = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let mut response;
        if content.is_some_and(|content| content.starts_with(b"application/grpc")) {
            // Trailers only: the whole answer is in its header.
            response = Response::new(A::empty());
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(GRPC_STATUS, HeaderValue::from(self.grpc as u16));
            headers.insert(GRPC_MESSAGE, HeaderValue::from_static(self.word));
            if let Some(wait) = self.wait {
                // Readers of this field use 31 bits.
                let ms = i32::try_from(ms_up(wait)).unwrap_or(i32::MAX);
                headers.insert(GRPC_PUSHBACK, HeaderValue::from(ms));
            }
        } else {
            let (body, kind) = A::body(|| self.json());
            response = Response::new(body);
            *response.status_mut() = self.status;
            if let Some(kind) = kind {
                response.headers_mut().insert(CONTENT_TYPE, kind);
            }
        }
        if let Some(wait) = self.wait {
            let wait = HeaderValue::from(seconds_up(wait).max(1));
            response.headers_mut().insert(RETRY_AFTER, wait);
        }
        response
    }

    /// Writes RFC 9457 JSON, with the problem types that the draft of the `RateLimit` fields registers. Our
    /// own members: a word for the reason, the name of the limit if there are several, and the wait in
    /// milliseconds.
    fn json(&self) -> String {
        let (kind, title) = match self.status {
            StatusCode::TOO_MANY_REQUESTS => (
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Request cannot be satisfied as assigned quota has been exceeded",
            ),
            StatusCode::SERVICE_UNAVAILABLE => (
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                "Request cannot be satisfied due to temporary server capacity constraints",
            ),
            _ => ("about:blank", "Bad Request"),
        };
        let wait = self.wait.map(ms_up);
        let wait = wait.map(|ms| format!(",\"retry_after_ms\":{ms}"));
        let layer = self
            .layer
            .map(|layer| format!(",\"layer\":{}", quoted(layer)));
        format!(
            "{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{},\"detail\":{},\"reason\":\"{}\"{}{}}}",
            self.status.as_u16(),
            quoted(&self.detail),
            self.word,
            layer.unwrap_or_default(),
            wait.unwrap_or_default(),
        )
    }
}

/// Quotes a text for JSON (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

impl Fields {
    /// Writes the `RateLimit` fields, as structured fields (RFC 9651), with the part of this process.
    ///
    /// `q` is the burst, and `w` the seconds in which the rate makes it, rounded up. `r` is the number of
    /// tokens now, and `t` the seconds until the bucket is full. `name` must be visible ASCII without quotes.
    /// The legacy fields carry `q`, `r` and `t`.
    pub(super) fn write(self, headers: &mut HeaderMap, name: &str, held: &Snapshot) {
        let (standard, legacy) = match self {
            Self::None => return,
            Self::Standard => (true, false),
            Self::Legacy => (false, true),
            Self::Both => (true, true),
        };
        let mut insert = |name, text: String| {
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        };
        let (burst, level) = (held.burst, held.level.min(held.burst));
        let makes = held.kind == Kind::Rate && held.rate > 0;
        let window = makes.then(|| burst.div_ceil(held.rate).max(1));
        let full = makes.then(|| (burst - level).div_ceil(held.rate));
        if standard {
            let window = window
                .map(|window| format!(";w={window}"))
                .unwrap_or_default();
            let full = full.map(|full| format!(";t={full}")).unwrap_or_default();
            insert(RATE_LIMIT_POLICY, format!("\"{name}\";q={burst}{window}"));
            insert(RATE_LIMIT, format!("\"{name}\";r={level}{full}"));
        }
        if legacy {
            insert(X_LIMIT, burst.to_string());
            insert(X_REMAINING, level.to_string());
            if let Some(full) = full {
                insert(X_RESET, full.to_string());
            }
        }
    }
}

const fn ms_up(wait: Duration) -> u128 {
    wait.as_nanos().div_ceil(1_000_000)
}

fn seconds_up(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[test]
fn a_wait_that_grpc_has_no_number_for_is_the_longest_that_it_has() {
    let grpc = http::Request::builder().header(CONTENT_TYPE, "application/grpc");
    let (parts, ()) = grpc.body(()).expect("a request").into_parts();
    let said = |retry_after| {
        let refused = Refused {
            reason: Reason::Throttled,
            retry_after,
        };
        let answer: Response<String> = refuse::<Problems, _>(&parts, None, refused);
        let said = answer.headers().get(GRPC_PUSHBACK)?.to_str().ok();
        said.map(str::to_owned)
    };
    let said = |wait| said(wait).unwrap_or_default();
    assert_eq!(said(Some(Duration::from_nanos(1))), "1");
    assert_eq!(said(Some(Duration::from_secs(1 << 22))), "2147483647");
    assert_eq!(said(None), "");
}
