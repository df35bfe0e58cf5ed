//! Answers in JSON, and their header fields.

use super::body::FieldError;
use crate::decider::{Answer, Outcome};
use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Status of a refusal: the answer itself is what the caller asked for, unless it wants the status that it will pass
/// on to its own caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RefusalStatus {
    /// 200, as for an admission.
    #[default]
    Ok,
    /// 429 for a refusal, 503 if there is no decision, and 500 if no budget can answer: that is no excess of the
    /// caller.
    TooManyRequests,
}

impl RefusalStatus {
    fn of(self, outcome: Outcome) -> StatusCode {
        match (self, outcome) {
            (Self::Ok, _) | (_, Outcome::Allowed) => StatusCode::OK,
            (Self::TooManyRequests, Outcome::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
            (Self::TooManyRequests, Outcome::NoBudget) => StatusCode::INTERNAL_SERVER_ERROR,
            (Self::TooManyRequests, _) => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// An answer as it is in JSON.
#[derive(Debug, Serialize)]
pub(super) struct AnswerBody<'a> {
    allowed: bool,
    excess: Option<ExcessBody>,
    key: &'a str,
    limit: Option<u64>,
    outcome: &'static str,
    reason: Option<&'static str>,
    remaining: Option<u64>,
    reset_after_s: f64,
    retry_after_s: Option<f64>,
    window_s: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ExcessBody {
    burst: u64,
    cost: u64,
}

/// Returns an answer as it is in JSON.
pub(super) fn of_answer<'a>(key: &'a str, answer: &Answer) -> AnswerBody<'a> {
    let excess = answer.excess.map(|excess| ExcessBody {
        burst: excess.burst(),
        cost: excess.cost(),
    });
    AnswerBody {
        allowed: answer.outcome == Outcome::Allowed,
        excess,
        key,
        limit: answer.limit,
        outcome: answer.outcome.name(),
        reason: answer.reason.map(|reason| reason.as_str()),
        remaining: answer.remaining,
        reset_after_s: answer.reset_after.as_secs_f64(),
        retry_after_s: answer.retry_after.map(|wait| wait.as_secs_f64()),
        window_s: answer.window.map(|window| window.as_secs()),
    }
}

/// Makes the response to one question.
pub(super) fn one(body: &AnswerBody<'_>, answer: &Answer, status: RefusalStatus) -> Response<Body> {
    let mut response = json_response(status.of(answer.outcome), body);
    describe(response.headers_mut(), answer);
    response
}

/// Makes the response to several questions: its status and header fields are those of the refusal with the longest
/// wait. If all are allowed, the fields tell the limit that has least left.
pub(super) fn several(body: &Value, answers: &[Answer], status: RefusalStatus) -> Response<Body> {
    let refused = answers
        .iter()
        .filter(|answer| answer.outcome != Outcome::Allowed);
    let worst = refused.max_by_key(|answer| answer.retry_after.unwrap_or(Duration::MAX));
    let code = worst.map_or(StatusCode::OK, |answer| status.of(answer.outcome));
    let mut response = json_response(code, body);
    let known = answers.iter().filter(|answer| answer.remaining.is_some());
    let least = known.min_by_key(|answer| answer.remaining);
    if let Some(answer) = worst.or(least) {
        describe(response.headers_mut(), answer);
    }
    response
}

/// Makes the response to a request with a wrong field.
pub(super) fn wrong(error: &FieldError) -> Box<Response<Body>> {
    let body = json!({
        "type": "about:blank",
        "title": error.status.canonical_reason(),
        "status": error.status.as_u16(),
        "detail": error.to_string(),
        "field": error.field,
        "value": error.value,
        "allowed": error.allowed,
    });
    problem(error.status, &body)
}

/// Makes a response with another error.
pub(super) fn failed(status: StatusCode, detail: &str) -> Box<Response<Body>> {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail,
    });
    problem(status, &body)
}

fn problem(status: StatusCode, body: &Value) -> Box<Response<Body>> {
    let mut response = json_response(status, body);
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Box::new(response)
}

/// Makes a response with a body in JSON.
pub(super) fn json_response(status: StatusCode, body: &impl Serialize) -> Response<Body> {
    // Only a map whose keys are no text cannot be written, and there is none.
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Adds the fields of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After` to a refusal. `Retry-After` is not
/// earlier than `t`, as the draft demands.
fn describe(headers: &mut HeaderMap, answer: &Answer) {
    if let Some(wait) = answer.retry_after {
        retry_after(headers, wait);
    }
    // A budget of another kind is no limit of this question.
    let limit = answer.limit.filter(|_| answer.outcome != Outcome::NoBudget);
    let Some(limit) = limit else {
        return;
    };
    let window = answer
        .window
        .map_or_else(String::new, |w| format!(";w={}", w.as_secs()));
    let policy = format!("\"limit\";q={limit}{window}");
    put(headers, RATE_LIMIT_POLICY, policy);
    let Some(remaining) = answer
        .remaining
        .filter(|_| answer.outcome != Outcome::Never)
    else {
        return;
    };
    let reset = answer
        .retry_after
        .unwrap_or(answer.reset_after)
        .min(answer.reset_after);
    let t = whole_seconds(reset);
    let state = format!("\"limit\";r={remaining};t={t}");
    put(headers, RATE_LIMIT, state);
}

fn retry_after(headers: &mut HeaderMap, wait: Duration) {
    let seconds = whole_seconds(wait).max(1);
    headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

/// Rounds up.
fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}
