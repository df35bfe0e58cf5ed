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
use serde_json::Value;
use std::time::Duration;
use utoipa::ToSchema;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{Object, ObjectBuilder};

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

/// An answer as it is in JSON. Here and below, comments on fields are read by callers: they are in the description.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Answer, description = "Answer to one question.")]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody<'a> {
    allowed: bool,
    /// Of the outcome `never`: the cost, and the largest cost that is ever admitted.
    #[schema(required)]
    excess: Option<ExcessBody>,
    key: &'a str,
    /// Tokens per window of the whole budget.
    #[schema(required)]
    limit: Option<Exact>,
    #[schema(schema_with = outcomes)]
    outcome: &'static str,
    /// Reason of a refusal, as in metrics.
    #[schema(required)]
    reason: Option<&'static str>,
    /// Tokens that this node or agent can take now: what is left of its share, and not of the budget. It may be far
    /// below `limit` after one use, and more may come at once. Null if only the home of the budget knows.
    #[schema(required)]
    remaining: Option<Exact>,
    /// Time until nothing is used any more.
    #[schema(minimum = 0)]
    reset_after_s: f64,
    /// Shortest wait after which a retry may succeed, with a random part of http_jitter on top, as in Retry-After; null
    /// if waiting does not help.
    #[schema(required, minimum = 0)]
    retry_after_s: Option<f64>,
    /// The window in seconds; null if no time makes the tokens.
    #[schema(required)]
    window_s: Option<u64>,
}

/// Describes the names of outcomes.
fn outcomes() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Outcome::ALL.map(Outcome::name)))
        .build()
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Excess, description = "A cost that can never be served.")]
#[serde(deny_unknown_fields)]
struct ExcessBody {
    /// The burst of a rate, the tokens of a quota, or all permits.
    burst: Exact,
    cost: Exact,
}

/// Answers to several questions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Answers)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswersBody<'a> {
    /// True if all are allowed.
    pub(super) allowed: bool,
    pub(super) answers: Vec<AnswerBody<'a>>,
}

/// Answer to a request for a reservation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reserved)]
#[serde(deny_unknown_fields)]
pub(super) struct ReservedBody<'a> {
    pub(super) allowed: bool,
    /// Answers up to the first refusal.
    pub(super) answers: Vec<AnswerBody<'a>>,
    /// Name of the reservation; null if it was refused.
    #[schema(required)]
    pub(super) id: Option<&'a str>,
    /// Time of the reservation.
    pub(super) ttl_s: u64,
}

/// End of a reservation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settled)]
#[serde(deny_unknown_fields)]
pub(super) struct SettledBody<'a> {
    pub(super) id: &'a str,
    pub(super) parts: Vec<SettledPartBody<'a>>,
}

/// Settlement of one key of a reservation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettledPart)]
#[serde(deny_unknown_fields)]
pub(super) struct SettledPartBody<'a> {
    pub(super) key: &'a str,
    /// Tokens put back.
    pub(super) restored: Exact,
    /// Additional tokens taken.
    pub(super) taken: Exact,
}

/// An error by RFC 9457. The fields `field`, `value` and `allowed` are there if a field is wrong.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemBody {
    /// Values that are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    allowed: Option<String>,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    field: Option<String>,
    status: u16,
    #[schema(required)]
    title: Option<&'static str>,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The value as it was read; null if the field is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = any)]
    value: Option<Value>,
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
pub(super) fn several(
    body: &impl Serialize,
    answers: &[TimedAnswer],
    form: Form,
) -> Response<Body> {
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
    let body = ProblemBody {
        field: Some(error.field.clone()),
        value: Some(value.unwrap_or_default()),
        allowed: Some(error.allowed.clone()),
        ..ProblemBody::of(error.status, error.to_string())
    };
    problem(error.status, &body)
}

/// Makes a response with another error.
pub(super) fn failed(status: StatusCode, detail: &str) -> Box<Response<Body>> {
    problem(status, &ProblemBody::of(status, detail.to_owned()))
}

/// Describes a value of any kind.
fn any() -> Object {
    Object::with_type(SchemaType::AnyValue)
}

impl ProblemBody {
    fn of(status: StatusCode, detail: String) -> Self {
        Self {
            allowed: None,
            detail,
            field: None,
            status: status.as_u16(),
            title: status.canonical_reason(),
            kind: "about:blank",
            value: None,
        }
    }
}

fn problem(status: StatusCode, body: &ProblemBody) -> Box<Response<Body>> {
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
