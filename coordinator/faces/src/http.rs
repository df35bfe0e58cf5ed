//! HTTP face: JSON over HTTP/1.1 and HTTP/2.
//!
//! | request | effect |
//! |---|---|
//! | `POST /v1/check` | decides one cost of one key |
//! | `POST /v1/check:batch` | decides several, each by itself or all together |
//! | `POST /v1/reserve` | charges estimated costs, all or none, or takes a permit |
//! | `POST /v1/settle` | settles a reservation for the actual costs |
//! | `POST /v1/release` | gives a reservation up |
//! | `GET /v1/budgets/{key}` | returns the state of a key, and takes nothing |
//! | `GET /v1/openapi.json` | describes all of this (OpenAPI 3.1) |
//!
//! A refusal is an answer like any other: status 200 with `allowed: false`. With `?status=429` it has status 429, or
//! 503 if there is no decision. With `?never=422` a cost that waiting does not help has a status of its own. A key that the caller may not ask for has status 403. Bodies must be `application/json`, which a page in a browser cannot send to another
//! origin unasked.

mod answer;
mod body;
mod bounds;
mod number;
mod openapi;
mod query;

use crate::decider::{
    Ask, Cost, Decider, OnExpire, Outcome, ReservationError, Reserve, SettledPart,
};
use crate::rules::{Face, KeyProblem, Mapped};
use crate::scope::Scope;
use aliquot_client::http::LimitFields;
pub use answer::Body;
use answer::{
    AnswerBody, AnswersBody, Form, ReservedBody, SettledBody, SettledPartBody, TimedAnswer, failed,
    json_response, of_answer, one, several, wrong,
};
use body::{FieldError, Fields};
use bounds::{BATCH, CHECK, PART, RELEASE, RESERVE, SETTLE};
pub use bounds::{BATCH_MAX, BODY_BYTES_MAX, PARTS_MAX};
pub(crate) use bounds::{TTL_S, WITHIN_MS, is_id};
use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, FutureExt, ready};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use number::Exact;
pub use number::{EXACT_MAX, exact, keep_exact};
use query::{status_and_deadline, status_of};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time for a body to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// Body of a request.
pub trait RequestBody: HttpBody<Data = Bytes, Error: Send> + Send + Unpin + 'static {}

impl<B: HttpBody<Data = Bytes, Error: Send> + Send + Unpin + 'static> RequestBody for B {}

/// A response, or one about an error.
type Reply = Result<Response<Body>, Box<Response<Body>>>;

/// The face, with the decider and the form of header fields that describe a limit.
#[derive(Debug)]
struct HttpFace {
    decider: Arc<Decider>,
    fields: LimitFields,
}

/// Answers a request, with `fields` that describe the limit. The face's port must have checked the caller.
///
/// The paths are few and fixed, and a general router allocates several times for each request.
pub fn answer<B: RequestBody>(
    decider: &Arc<Decider>,
    fields: LimitFields,
    request: Request<B>,
) -> impl Future<Output = Response<Body>> + Send + use<B> {
    let is_head = request.method() == Method::HEAD;
    let is_post = request.method() == Method::POST;
    let decider = Arc::clone(decider);
    let routed = routed(HttpFace { decider, fields }, request);
    routed.map(move |reply| {
        let mut response = join(reply);
        if !is_post {
            // No cache stores the answer to a `POST` that does not say for how long it is fresh (RFC 9110, §9.3.3).
            let headers = response.headers_mut();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        match is_head {
            true => without_body(response),
            false => response,
        }
    })
}

/// Takes the body out of the answer to a `HEAD`, and states its length. Over HTTP/2 the body would be sent.
pub fn without_body(mut response: Response<Body>) -> Response<Body> {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.size_hint().exact() {
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// Answers a check by itself. Other requests are rare, and their futures are in a box: that of a check would be as large
/// as they are.
fn routed(
    face: HttpFace,
    request: Request<impl RequestBody>,
) -> impl Future<Output = Reply> + Send {
    match Route::of(request.uri().path()) {
        Some(Route::Check) if request.method() == Method::POST => {
            Either::Left(checked(face, request))
        }
        route => Either::Right(Box::pin(other(face, route, request))),
    }
}

async fn other(face: HttpFace, route: Option<Route>, request: Request<impl RequestBody>) -> Reply {
    let Some(route) = route else {
        let detail = "there is no such path; /v1/openapi.json describes all paths";
        return Err(failed(StatusCode::NOT_FOUND, detail));
    };
    if !route.takes(request.method()) {
        return Ok(wrong_method(route));
    }
    match route {
        Route::Check => checked(face, request).await,
        Route::CheckBatch => batch_checked(face, request).await,
        Route::Reserve => reserved(face, request).await,
        Route::Settle => settled(face, request).await,
        Route::Release => released(face, request).await,
        Route::Budget => looked_at(face, request).await,
        Route::OpenApi => Ok(described()),
    }
}

impl HttpFace {
    /// Returns the form of the answer that a request with a body asks for.
    fn form(&self, uri: &Uri) -> Result<Form, Box<Response<Body>>> {
        let status = status_of(uri)?;
        let fields = self.fields;
        Ok(Form { status, fields })
    }
}

/// A path of the face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Check,
    CheckBatch,
    Reserve,
    Settle,
    Release,
    Budget,
    OpenApi,
}

impl Route {
    const BUDGETS: &str = "/v1/budgets/";

    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/check" => Self::Check,
            "/v1/check:batch" => Self::CheckBatch,
            "/v1/reserve" => Self::Reserve,
            "/v1/settle" => Self::Settle,
            "/v1/release" => Self::Release,
            "/v1/openapi.json" => Self::OpenApi,
            path => {
                let key = path.strip_prefix(Self::BUDGETS)?;
                return (!key.is_empty()).then_some(Self::Budget);
            }
        })
    }

    /// Returns true if requests on this path read, and change nothing.
    const fn reads(self) -> bool {
        matches!(self, Self::Budget | Self::OpenApi)
    }

    fn takes(self, method: &Method) -> bool {
        match self.reads() {
            true => method == Method::GET || method == Method::HEAD,
            false => method == Method::POST,
        }
    }
}

fn wrong_method(route: Route) -> Response<Body> {
    let detail = "this path does not support this method; /v1/openapi.json describes all methods";
    let mut response = *failed(StatusCode::METHOD_NOT_ALLOWED, detail);
    let methods = if route.reads() { "GET,HEAD" } else { "POST" };
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, methods);
    response
}

/// Returns the keys that the caller of a request may use.
fn scope_of<B>(request: &Request<B>) -> Scope {
    request.extensions().get().cloned().unwrap_or_default()
}

/// The caller of a request, and the keys that it may use.
struct Caller<'a> {
    decider: &'a Decider,
    scope: Scope,
}

impl<'a> Caller<'a> {
    fn of<B>(decider: &'a Decider, request: &Request<B>) -> Self {
        Self {
            decider,
            scope: scope_of(request),
        }
    }

    fn budget_key(&self, key: &str) -> Result<Mapped<'a>, FieldError> {
        let mapped = self
            .decider
            .budget_key(Face::Http, &self.scope, key.as_bytes());
        mapped.map_err(|problem| FieldError {
            status: match problem {
                KeyProblem::Outside { .. } => StatusCode::FORBIDDEN,
                _ => StatusCode::BAD_REQUEST,
            },
            field: "key".to_owned(),
            value: Some(key.into()),
            allowed: format!("mapped to a budget: {problem}"),
        })
    }
}

/// One question of a request, as read.
struct Check<'a> {
    /// Key as the caller wrote it.
    key: Cow<'a, str>,
    ask: Ask,
}

/// The body of a check as nearly all callers write it. It is read without the tree of its values, which is needed only
/// to tell what is wrong, or to read numbers in other forms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainCheck<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(default = "PlainCheck::usual_cost")]
    cost: u64,
    #[serde(default = "PlainCheck::usual_wait")]
    within_ms: u64,
}

impl PlainCheck<'_> {
    const fn usual_cost() -> u64 {
        1
    }

    const fn usual_wait() -> u64 {
        WITHIN_MS.0
    }
}

impl<'a> PlainCheck<'a> {
    /// Reads a body. Returns `None` if it must be read as a tree.
    fn read(body: &'a [u8]) -> Option<Self> {
        let (_, most) = WITHIN_MS;
        let read: Self = serde_json::from_slice(body).ok()?;
        (1..=most).contains(&read.within_ms).then_some(read)
    }

    fn question(self, caller: &Caller<'_>) -> Result<Check<'a>, Box<Response<Body>>> {
        let mapped = caller.budget_key(&self.key);
        let mapped = mapped.map_err(|error| wrong(&error))?;
        let ask = Ask {
            key: mapped.key,
            cost: cost_of(self.cost),
            within: Duration::from_millis(self.within_ms),
        };
        Ok(Check { key: self.key, ask })
    }
}

/// Returns the cost of a check that names this number of tokens. With zero it takes nothing.
const fn cost_of(tokens: u64) -> Cost {
    match tokens {
        0 => Cost::Peek,
        n => Cost::Take(n),
    }
}

/// Answers a check. Only its body is awaited, so its future does not contain the request.
fn checked(
    face: HttpFace,
    request: Request<impl RequestBody>,
) -> impl Future<Output = Reply> + Send {
    let begun = face.form(request.uri()).and_then(|form| {
        let scope = scope_of(&request);
        Ok((form, scope, json_body(request)?))
    });
    match begun {
        Ok((form, scope, body)) => Either::Left(checked_with(face.decider, form, scope, body)),
        Err(response) => Either::Right(ready(Err(response))),
    }
}

async fn checked_with(
    decider: Arc<Decider>,
    form: Form,
    scope: Scope,
    body: impl RequestBody,
) -> Reply {
    let body = collected(body).await?;
    let decider = &*decider;
    let caller = Caller { decider, scope };
    let question = match PlainCheck::read(&body) {
        Some(plain) => plain.question(&caller)?,
        None => {
            let mut fields = fields(&body, &CHECK)?;
            let within = within(&mut fields)?;
            let question = question(&caller, &mut fields, within)?;
            fields.end().map_err(|error| wrong(&error))?;
            question
        }
    };
    let answer = decider.decide(&question.ask).await;
    Ok(one(&question.key, &form.timed(answer), form))
}

async fn batch_checked(face: HttpFace, request: Request<impl RequestBody>) -> Reply {
    let form = face.form(request.uri())?;
    let caller = Caller::of(&face.decider, &request);
    let mut fields = read(request, &BATCH).await?;
    let within = within(&mut fields)?;
    let together = fields.flag("all").map_err(|error| wrong(&error))?;
    let list = fields
        .objects("checks", BATCH_MAX, &PART)
        .map_err(|error| wrong(&error))?;
    fields.end().map_err(|error| wrong(&error))?;
    let mut questions = Vec::with_capacity(list.len());
    for mut fields in list {
        questions.push(question(&caller, &mut fields, within)?);
        fields.end().map_err(|error| wrong(&error))?;
    }
    let (keys, asks): (Vec<_>, Vec<_>) = questions
        .into_iter()
        .map(|q| (q.key.into_owned(), q.ask))
        .unzip();
    let answers = match together {
        true => face.decider.decide_all(&asks).await,
        false => face.decider.decide_each(&asks).await,
    };
    let answers = form.timed_all(answers);
    let body = AnswersBody {
        allowed: all_allowed(&answers),
        answers: listed(&keys, &answers),
    };
    Ok(several(&body, &answers, form))
}

async fn reserved(face: HttpFace, request: Request<impl RequestBody>) -> Reply {
    let form = face.form(request.uri())?;
    let caller = Caller::of(&face.decider, &request);
    let mut fields = read(request, &RESERVE).await?;
    let within = within(&mut fields)?;
    let (keys, reserve) = reservation(&caller, &mut fields, within)?;
    fields.end().map_err(|error| wrong(&error))?;
    let reserved = face
        .decider
        .reserve(&reserve)
        .await
        .map_err(|error| unusable(&error))?;
    let answers = form.timed_all(reserved.answers);
    let body = ReservedBody {
        allowed: reserved.id.is_some(),
        answers: listed(&keys, &answers),
        id: reserved.id.as_deref(),
        ttl_s: reserve.ttl.as_secs(),
    };
    Ok(several(&body, &answers, form))
}

async fn settled(face: HttpFace, request: Request<impl RequestBody>) -> Reply {
    let caller = Caller::of(&face.decider, &request);
    let mut fields = read(request, &SETTLE).await?;
    let read = (|| -> Result<_, FieldError> {
        let id = id_of(&mut fields)?;
        let costs = match fields.has("cost") {
            true => vec![fields.tokens("cost", 0)?],
            false => fields.tokens_list("costs", PARTS_MAX)?,
        };
        fields.end()?;
        Ok((id, costs))
    })();
    let (id, costs) = read.map_err(|error| wrong(&error))?;
    let parts = face
        .decider
        .settle(&caller.scope, &id, &costs)
        .map_err(|error| unusable(&error))?;
    Ok(settlement(&id, &parts))
}

async fn released(face: HttpFace, request: Request<impl RequestBody>) -> Reply {
    let caller = Caller::of(&face.decider, &request);
    let mut fields = read(request, &RELEASE).await?;
    let id = id_of(&mut fields).map_err(|error| wrong(&error))?;
    fields.end().map_err(|error| wrong(&error))?;
    let parts = face
        .decider
        .release(&caller.scope, &id)
        .map_err(|error| unusable(&error))?;
    Ok(settlement(&id, &parts))
}

async fn looked_at(face: HttpFace, request: Request<impl RequestBody>) -> Reply {
    let caller = Caller::of(&face.decider, &request);
    let uri = request.uri();
    let (status, within) = status_and_deadline(uri)?;
    let fields = face.fields;
    let form = Form { status, fields };
    let path = uri.path();
    let key = decoded(path.strip_prefix(Route::BUDGETS).unwrap_or(path));
    let mapped = caller.budget_key(&key).map_err(|error| wrong(&error))?;
    let ask = Ask {
        key: mapped.key,
        cost: Cost::Peek,
        within,
    };
    let answer = caller.decider.decide(&ask).await;
    Ok(one(&key, &form.timed(answer), form))
}

fn described() -> Response<Body> {
    let mut response = json_response(StatusCode::OK, &());
    *response.body_mut() = Body::from(openapi::description());
    response
}

fn join(reply: Reply) -> Response<Body> {
    reply.unwrap_or_else(|response| *response)
}

/// Reads the fields of a body, all of which must be known.
async fn read(
    request: Request<impl RequestBody>,
    known: &[&str],
) -> Result<Fields, Box<Response<Body>>> {
    fields(&collected(json_body(request)?).await?, known)
}

/// Reads the fields of a body that has arrived.
fn fields(body: &[u8], known: &[&str]) -> Result<Fields, Box<Response<Body>>> {
    let value = serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body must be JSON: {error}");
        failed(StatusCode::BAD_REQUEST, &detail)
    })?;
    Fields::of(value, "", known).map_err(|error| wrong(&error))
}

/// Returns the body of a request, which must be JSON.
fn json_body<B>(request: Request<B>) -> Result<B, Box<Response<Body>>> {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(request.into_body()),
        false => {
            let detail = format!("content-type = {kind:?}: must be application/json");
            Err(failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, &detail))
        }
    }
}

/// Waits for a body.
///
/// Nearly all bodies are there as a whole. They need no timer, and the future of a request has no room for one.
async fn collected(mut body: impl RequestBody) -> Result<Bytes, Box<Response<Body>>> {
    let first = body.frame().now_or_never();
    match first {
        Some(Some(Ok(part))) if is_whole(&part, &body) => Ok(part.into_data().unwrap_or_default()),
        first => {
            let arrived = Box::pin(timeout(BODY_WITHIN, parts(first, body))).await;
            arrived.unwrap_or_else(|_| {
                let detail = format!("the body must arrive within {BODY_WITHIN:?}");
                Err(failed(StatusCode::REQUEST_TIMEOUT, &detail))
            })
        }
    }
}

/// Returns true if a body has no other part.
fn is_whole(part: &Frame<Bytes>, body: &impl RequestBody) -> bool {
    let fits = part
        .data_ref()
        .is_some_and(|data| data.len() <= BODY_BYTES_MAX);
    fits && body.is_end_stream()
}

/// Waits for the parts of a body that come after the first one, or for all of them.
async fn parts<B: RequestBody>(
    first: Option<Option<Result<Frame<Bytes>, B::Error>>>,
    mut body: B,
) -> Result<Bytes, Box<Response<Body>>> {
    let mut whole = BytesMut::new();
    let mut next = match first {
        Some(first) => first,
        None => body.frame().await,
    };
    while let Some(part) = next {
        let data = part.map(|part| part.into_data().unwrap_or_default());
        match data {
            Ok(data) if whole.len() + data.len() <= BODY_BYTES_MAX => whole.extend(data),
            _ => {
                let detail =
                    format!("the body must be complete, with at most {BODY_BYTES_MAX} bytes");
                return Err(failed(StatusCode::PAYLOAD_TOO_LARGE, &detail));
            }
        }
        next = body.frame().await;
    }
    Ok(whole.freeze())
}

fn within(fields: &mut Fields) -> Result<Duration, Box<Response<Body>>> {
    let (usual, most) = WITHIN_MS;
    let within = fields.count("within_ms", 1..=most, usual);
    within
        .map(Duration::from_millis)
        .map_err(|error| wrong(&error))
}

/// Reads a key and its cost.
fn question(
    caller: &Caller<'_>,
    fields: &mut Fields,
    within: Duration,
) -> Result<Check<'static>, Box<Response<Body>>> {
    let read = (|| -> Result<_, FieldError> {
        let (key, to) = key_of(caller, fields)?;
        let ask = Ask {
            key: to,
            cost: cost_of(fields.tokens("cost", 0)?),
            within,
        };
        Ok(Check {
            key: key.into(),
            ask,
        })
    })();
    read.map_err(|error| wrong(&error))
}

/// Reads a key. Returns it with the budget's key.
fn key_of(caller: &Caller<'_>, fields: &mut Fields) -> Result<(String, String), FieldError> {
    let key = fields.text("key", "a text, such as \"tenant/42/reads\"")?;
    let mapped = caller.budget_key(&key).map_err(|error| FieldError {
        field: fields.name("key"),
        ..error
    })?;
    Ok((key, mapped.key))
}

/// Replaces `%XX` in a path by the byte that it stands for. An incomplete one stays as it is.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        // A sign is no digit, though a number may begin with it.
        let digits = after.get(..2).filter(|it| !it.starts_with('+'));
        match digits.map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(b'%');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads a request for a reservation: one key, or a list of them. Returns the keys as the caller wrote them.
fn reservation(
    caller: &Caller<'_>,
    fields: &mut Fields,
    within: Duration,
) -> Result<(Vec<String>, Reserve), Box<Response<Body>>> {
    let part = |fields: &mut Fields| {
        let (key, to) = key_of(caller, fields)?;
        let cost = fields.tokens("cost", 1)?;
        Ok::<_, FieldError>((key, (to, cost)))
    };
    let read = (|| -> Result<_, FieldError> {
        let mut parts = Vec::new();
        match fields.has("key") {
            true => parts.push(part(fields)?),
            false => {
                for mut fields in fields.objects("parts", PARTS_MAX, &PART)? {
                    parts.push(part(&mut fields)?);
                    fields.end()?;
                }
            }
        }
        let (usual, most) = TTL_S;
        let ttl = Duration::from_secs(fields.count("ttl_s", 1..=most, usual)?);
        let legal = |text: &str| matches!(text, "keep" | "put_back");
        let on_expire = fields.text_if("on_expire", "\"keep\" or \"put_back\"", legal)?;
        let on_expire = match on_expire.as_deref() {
            Some("put_back") => OnExpire::PutBack,
            _ => OnExpire::Keep,
        };
        let id = fields.text_if("id", ID, is_id)?;
        let (keys, parts) = parts.into_iter().unzip();
        let reserve = Reserve {
            scope: caller.scope.clone(),
            parts,
            ttl,
            on_expire,
            within,
            id,
        };
        Ok((keys, reserve))
    })();
    read.map_err(|error| wrong(&error))
}

/// Names of reservations that are allowed.
const ID: &str = "a text of 1 to 128 visible ASCII characters";

fn id_of(fields: &mut Fields) -> Result<String, FieldError> {
    let id = fields.text_if("id", ID, is_id)?;
    id.ok_or_else(|| fields.missing("id", ID))
}

fn unusable(error: &ReservationError) -> Box<Response<Body>> {
    let status = match error {
        ReservationError::Unknown => StatusCode::NOT_FOUND,
        ReservationError::Other | ReservationError::Costs { .. } => StatusCode::CONFLICT,
        _ => StatusCode::BAD_REQUEST,
    };
    failed(status, &error.to_string())
}

fn settlement(id: &str, parts: &[SettledPart]) -> Response<Body> {
    let parts = parts.iter().map(|part| SettledPartBody {
        key: &part.key,
        restored: Exact(part.restored),
        taken: Exact(part.taken),
    });
    let body = SettledBody {
        id,
        parts: parts.collect(),
    };
    json_response(StatusCode::OK, &body)
}

fn all_allowed(answers: &[TimedAnswer]) -> bool {
    answers
        .iter()
        .all(|timed| timed.answer.outcome == Outcome::Allowed)
}

/// Lists answers with their keys. A reservation that was refused has answers up to the refusal.
fn listed<'a>(keys: &'a [String], answers: &'a [TimedAnswer]) -> Vec<AnswerBody<'a>> {
    let pairs = keys.iter().zip(answers);
    pairs.map(|(key, answer)| of_answer(key, answer)).collect()
}

#[cfg(test)]
#[path = "../tests/unit/http.rs"]
mod tests;
