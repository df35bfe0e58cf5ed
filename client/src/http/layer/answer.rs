//! Answers to refused requests.

use super::fields::insert_retry_after;
use super::options::{Options, is_misconfigured};
use super::outcome::{Refusal, field_name};
use crate::bucket::described::LimitInfo;
use crate::limiter::key_refused::KeyRefused;
use crate::limiter::refused::Reason;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::time::Duration;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// <https://github.com/grpc/proposal/blob/master/A6-client-retries.md>.
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// gRPC's codes, <https://grpc.io/docs/guides/status-codes/>.
#[derive(Clone, Copy)]
enum Grpc {
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Internal = 13,
    Unavailable = 14,
}

/// Makes the bodies of refusals: [`Plain`] or [`Problems`]. The methods of a layer choose between the two, so no
/// other type needs to implement this trait.
pub trait RefusalBody<R> {
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

impl<R: Default> RefusalBody<R> for Plain {
    fn body(_: impl FnOnce() -> String) -> (R, Option<HeaderValue>) {
        (R::default(), None)
    }

    fn empty() -> R {
        R::default()
    }
}

impl<R: From<String>> RefusalBody<R> for Problems {
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

impl Refusal<'_> {
    /// Answers the request: with an HTTP answer, or with a gRPC answer without a message.
    pub(super) fn answer<A: RefusalBody<R>, R>(
        &self,
        parts: &Parts,
        options: &Options,
    ) -> Response<R> {
        let reason = self.refused.reason;
        let is_never = self.refused.is_never();
        let (status, grpc) = match reason {
            // None of these is an excess of the caller.
            Reason::Closed
            | Reason::Frozen
            | Reason::Broken
            | Reason::Shed
            | Reason::Cold
            | Reason::Lapsed
            | Reason::Undecided => (StatusCode::SERVICE_UNAVAILABLE, Grpc::Unavailable),
            _ if is_misconfigured(reason) => (StatusCode::INTERNAL_SERVER_ERROR, Grpc::Internal),
            _ if is_never => (options.never, Grpc::ResourceExhausted),
            _ => (StatusCode::TOO_MANY_REQUESTS, Grpc::ResourceExhausted),
        };
        // More of the budget may be moved here, even if it did not come this time.
        let later = (reason == Reason::ExceedsBurst).then_some(Duration::from_secs(1));
        let wait = match is_never || is_misconfigured(reason) {
            true => None,
            false => self.refused.retry_after.or(later),
        };
        let problem = Problem {
            status,
            grpc,
            word: reason.as_str(),
            detail: self.refused.cause(),
            layer: self.name,
            wait: wait.map(|wait| options.fields.spread(wait)),
        };
        let mut response = problem.answer::<A, R>(parts);
        let name = field_name(self.name);
        match self.info {
            // A limit that is not set up for the request tells it nothing.
            Some(_) if is_misconfigured(reason) => {}
            Some(held) if is_never => options.fields.policy(response.headers_mut(), name, &held),
            Some(held) => {
                // `Retry-After` must not be earlier than the end of the window.
                let reset = held
                    .reset
                    .map(|reset| wait.map_or(reset, |wait| reset.min(wait)));
                let held = LimitInfo { reset, ..held };
                options.describe(response.headers_mut(), name, &held);
            }
            None => {}
        }
        response
    }
}

/// Answers a request that has no key for a limit.
pub(super) fn missing_key<A: RefusalBody<R>, R>(parts: &Parts, layer: Option<&str>) -> Response<R> {
    let problem = Problem {
        status: StatusCode::BAD_REQUEST,
        grpc: Grpc::InvalidArgument,
        word: "no_key",
        detail: "the request does not say what it is counted under".into(),
        layer,
        wait: None,
    };
    problem.answer::<A, R>(parts)
}

/// Answers a request whose key is invalid, or for which there are too many keys.
pub(super) fn no_key<A: RefusalBody<R>, R>(parts: &Parts, refused: &KeyRefused) -> Response<R> {
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
            Reason::Closed.as_str(),
        ),
    };
    // Text from the request is not echoed.
    let detail = match refused {
        KeyRefused::Invalid { reason, .. } => format!("the key {reason}"),
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
    fn answer<A: RefusalBody<R>, R>(&self, parts: &Parts) -> Response<R> {
        let mut response;
        if let Some(content) = grpc_type(&parts.headers) {
            // Trailers only: the whole answer is in its header.
            response = Response::new(A::empty());
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, content);
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
            insert_retry_after(response.headers_mut(), wait);
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
            status => (
                "about:blank",
                status.canonical_reason().unwrap_or("Request refused"),
            ),
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

/// Returns the content type to answer a gRPC call with: that of the call, without its parameters. `None` if the
/// request is no gRPC call. Media types are the same in upper and lower case.
fn grpc_type(headers: &HeaderMap) -> Option<HeaderValue> {
    let content = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = content.split(';').next()?.trim().to_ascii_lowercase();
    let (name, format) = kind.split_once('+').unwrap_or((&kind, ""));
    match name {
        "application/grpc" => Some(HeaderValue::from_static("application/grpc")),
        // Its readers go by the format.
        "application/grpc-web" | "application/grpc-web-text" if format.is_empty() => {
            HeaderValue::from_str(name).ok()
        }
        "application/grpc-web" | "application/grpc-web-text" => HeaderValue::from_str(&kind).ok(),
        _ => None,
    }
}

const fn ms_up(wait: Duration) -> u128 {
    wait.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
#[path = "../../../tests/unit/http/layer/answer.rs"]
mod tests;
