//! Reads the query of a request: the status of refusals, and the deadline of a request without a body.

use super::answer::{Body, RefusalStatus, wrong};
use super::body::FieldError;
use super::bounds::WITHIN_MS;
use http::{Response, StatusCode, Uri};
use std::time::Duration;

/// Queries that every request may have.
const STATUS: &str =
    "status=200 or status=429, never=200, never=422 or never=429, or one of each with & between";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Query {
    status: Option<bool>,
    never: Option<StatusCode>,
    within: Option<Duration>,
}

/// Reads `?status=` and `?never=` of a request whose body has all else.
pub(super) fn status_of(uri: &Uri) -> Result<RefusalStatus, Box<Response<Body>>> {
    let query = Query::of(uri).filter(|query| query.within.is_none());
    query
        .map(Query::refusals)
        .ok_or_else(|| unknown(uri, STATUS.to_owned()))
}

/// Reads `?status=` and `?never=` of a request without a body, and its deadline `?within_ms=`.
pub(super) fn status_and_deadline(
    uri: &Uri,
) -> Result<(RefusalStatus, Duration), Box<Response<Body>>> {
    let (usual, most) = WITHIN_MS;
    let query = Query::of(uri)
        .ok_or_else(|| unknown(uri, format!("within_ms=1 to within_ms={most}, {STATUS}")))?;
    let within = query.within.unwrap_or(Duration::from_millis(usual));
    Ok((query.refusals(), within))
}

impl Query {
    /// Reads a query. Returns `None` if a part of it is not known, or is there twice.
    fn of(uri: &Uri) -> Option<Self> {
        let mut read = Self::default();
        let query = uri.query().unwrap_or_default();
        for part in query.split('&').filter(|_| !query.is_empty()) {
            let is_twice = match part.split_once('=')? {
                ("status", "200") => read.status.replace(false).is_some(),
                ("status", "429") => read.status.replace(true).is_some(),
                ("never", "200") => read.never.replace(StatusCode::OK).is_some(),
                ("never", "422") => {
                    let status = StatusCode::UNPROCESSABLE_ENTITY;
                    read.never.replace(status).is_some()
                }
                ("never", "429") => read.never.replace(StatusCode::TOO_MANY_REQUESTS).is_some(),
                ("within_ms", millis) => read.within.replace(deadline(millis)?).is_some(),
                _ => return None,
            };
            if is_twice {
                return None;
            }
        }
        Some(read)
    }

    fn refusals(self) -> RefusalStatus {
        RefusalStatus {
            is_own: self.status.unwrap_or(false),
            never: self.never,
        }
    }
}

fn deadline(millis: &str) -> Option<Duration> {
    let is_number = millis.bytes().all(|byte| byte.is_ascii_digit());
    let millis = millis.parse().ok().filter(|_| is_number)?;
    (1..=WITHIN_MS.1)
        .contains(&millis)
        .then(|| Duration::from_millis(millis))
}

fn unknown(uri: &Uri, allowed: String) -> Box<Response<Body>> {
    wrong(&FieldError {
        status: StatusCode::BAD_REQUEST,
        field: "the query".to_owned(),
        value: Some(uri.query().unwrap_or_default().into()),
        allowed,
    })
}

#[cfg(test)]
#[path = "../../tests/unit/http/query.rs"]
mod tests;
