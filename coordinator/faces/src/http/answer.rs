//! Answers in JSON, and their header fields.

use super::body::FieldError;
use super::number::{Exact, keep_exact};
use crate::decider::{Answer, Outcome};
use aliquot_client::clock::HostClock;
use aliquot_client::http::LimitFields;
use aliquot_client::limiter::LimitInfo;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Body of an answer.
pub type Body = Full<Bytes>;

/// Name of the limit in header fields: a question has one.
const LIMIT_NAME: &str = "limit";

/// Bytes for which a body of one answer has room.
const BODY_BYTES: usize = 256;

/// Form of an answer: its status, and the header fields that describe the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) status: RefusalStatus,
    pub(super) fields: LimitFields,
}

/// An answer, and the wait that the response states. `Retry-After` and the body have the same wait, so that callers that were
/// refused together come back apart, whichever they read.
#[derive(Clone, Debug)]
pub(super) struct TimedAnswer {
    pub(super) answer: Answer,
    /// Shortest wait before a retry, with a random part of the jitter on top.
    retry_after: Option<Duration>,
}

impl Form {
    /// Chooses the wait that the response to an answer states.
    pub(super) fn timed(self, answer: Answer) -> TimedAnswer {
        let retry_after = answer.retry_after.map(|wait| self.fields.spread(wait));
        TimedAnswer {
            answer,
            retry_after,
        }
    }

    /// Chooses the waits of several answers, each by itself.
    pub(super) fn timed_all(self, answers: Vec<Answer>) -> Vec<TimedAnswer> {
        let answers = answers.into_iter();
        answers.map(|answer| self.timed(answer)).collect()
    }
}

/// Status of a refusal: the answer itself is what the caller asked for, unless it wants the status that it will pass
/// on to its own caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RefusalStatus {
    /// `?status=429`: 429 for a refusal, 503 if there is no decision, and 500 if no budget can answer, which is no
    /// excess of the caller. Otherwise 200, as for an admission.
    pub(super) is_own: bool,
    /// `?never=`: the status of a cost that waiting does not help, if it is not that of other refusals.
    pub(super) never: Option<StatusCode>,
}

impl RefusalStatus {
    fn of(self, outcome: Outcome) -> StatusCode {
        match (outcome, self.never) {
            (Outcome::Allowed, _) => StatusCode::OK,
            (Outcome::Never, Some(never)) => never,
            _ if !self.is_own => StatusCode::OK,
            (Outcome::Unavailable, _) => StatusCode::SERVICE_UNAVAILABLE,
            (Outcome::NoBudget, _) => StatusCode::INTERNAL_SERVER_ERROR,
            (Outcome::OverLimit | Outcome::Never, _) => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// An answer as it is in JSON.
#[derive(Debug, Serialize)]
pub(super) struct AnswerBody<'a> {
    allowed: bool,
    excess: Option<ExcessBody>,
    key: &'a str,
    limit: Option<Exact>,
    outcome: &'static str,
    reason: Option<&'static str>,
    remaining: Option<Exact>,
    reset_after_s: f64,
    retry_after_s: Option<f64>,
    window_s: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ExcessBody {
    burst: Exact,
    cost: Exact,
}

/// Returns an answer as it is in JSON.
pub(super) fn of_answer<'a>(key: &'a str, timed: &TimedAnswer) -> AnswerBody<'a> {
    let answer = &timed.answer;
    let excess = answer.excess.map(|excess| ExcessBody {
        burst: Exact(excess.burst()),
        cost: Exact(excess.cost()),
    });
    AnswerBody {
        allowed: answer.outcome == Outcome::Allowed,
        excess,
        key,
        limit: answer.limit.map(Exact),
        outcome: answer.outcome.name(),
        reason: answer.reason.map(|reason| reason.as_str()),
        remaining: answer.remaining.map(Exact),
        reset_after_s: answer.reset_after.as_secs_f64(),
        retry_after_s: timed.retry_after.map(|wait| wait.as_secs_f64()),
        window_s: answer.window.map(|window| window.as_secs()),
    }
}

/// Makes the response to one question.
pub(super) fn one(key: &str, timed: &TimedAnswer, form: Form) -> Response<Body> {
    let status = form.status.of(timed.answer.outcome);
    let mut response = json_response(status, &of_answer(key, timed));
    describe(response.headers_mut(), timed, form.fields);
    response
}

/// Makes the response to several questions: its status and header fields are those of the refusal with the longest
/// wait. If all are allowed, the fields describe the limit with the fewest tokens left.
pub(super) fn several(body: &Value, answers: &[TimedAnswer], form: Form) -> Response<Body> {
    let refused = answers
        .iter()
        .filter(|timed| timed.answer.outcome != Outcome::Allowed);
    let worst = refused.max_by_key(|timed| timed.retry_after.unwrap_or(Duration::MAX));
    let code = worst.map_or(StatusCode::OK, |timed| form.status.of(timed.answer.outcome));
    let mut response = json_response(code, body);
    let known = answers.iter();
    let known = known.filter(|timed| timed.answer.remaining.is_some());
    let least = known.min_by_key(|timed| timed.answer.remaining);
    if let Some(timed) = worst.or(least) {
        describe(response.headers_mut(), timed, form.fields);
    }
    response
}

/// Makes the response to a request with a wrong field.
pub(super) fn wrong(error: &FieldError) -> Box<Response<Body>> {
    let mut value = error.value.clone();
    value.iter_mut().for_each(keep_exact);
    let body = json!({
        "type": "about:blank",
        "title": error.status.canonical_reason(),
        "status": error.status.as_u16(),
        "detail": error.to_string(),
        "field": error.field,
        "value": value,
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
    let mut text = Vec::with_capacity(BODY_BYTES);
    let _ = serde_json::to_writer(&mut text, body);
    // Room that is left over would be kept count of in one more allocation.
    let mut response = Response::new(Body::from(Bytes::from(text.into_boxed_slice())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Adds the fields that describe the limit, and `Retry-After` to a refusal. `Retry-After` is not earlier than `t`, as the
/// draft demands.
fn describe(headers: &mut HeaderMap, timed: &TimedAnswer, fields: LimitFields) {
    let answer = &timed.answer;
    if let Some(wait) = timed.retry_after {
        // The wait has its random part already.
        let exact = LimitFields {
            jitter: Duration::ZERO,
            ..fields
        };
        exact.retry_after(headers, wait);
    }
    // A budget of another kind is no limit of this question.
    let limit = answer.limit.filter(|_| answer.outcome != Outcome::NoBudget);
    let Some(limit) = limit else {
        return;
    };
    let reset = answer
        .retry_after
        .unwrap_or(answer.reset_after)
        .min(answer.reset_after);
    let info = LimitInfo {
        limit,
        window: answer.window.map(|window| window.as_secs()),
        remaining: answer.remaining.unwrap_or_default(),
        reset: Some(reset),
    };
    match answer.remaining.is_some() && answer.outcome != Outcome::Never {
        true => fields.describe(headers, LIMIT_NAME, &info, &HostClock),
        false => fields.policy(headers, LIMIT_NAME, &info),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/http/answer.rs"]
mod tests;
