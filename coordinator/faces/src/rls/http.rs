//! The HTTP ports of envoyproxy/ratelimit: health and JSON, debugging, metrics.

use super::pb::rate_limit_descriptor::{Entry, RateLimitOverride};
use super::pb::rate_limit_response::{Code, DescriptorStatus};
use super::pb::{
    RateLimitDescriptor, RateLimitRequest, RateLimitResponse, UInt32Value, UInt64Value,
};
use super::rules::Unit;
use super::service::Rls;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::Code as Grpc;

/// Returns the routes of the HTTP port: `/healthcheck` and `/json`.
pub fn routes(rls: Rls) -> Router {
    Router::new()
        .route("/healthcheck", get(health))
        .route("/json", post(decide))
        .with_state(rls)
}

/// Returns the routes of the debug port: `/rlconfig` and `/stats`.
pub fn debug_routes(rls: Rls) -> Router {
    Router::new()
        .route(
            "/",
            get("/rlconfig: the rules in force\n/stats: counters\n"),
        )
        .route("/rlconfig", get(rules))
        .route("/stats", get(stats))
        .with_state(rls)
}

/// Returns the route of the metrics, at a path such as `/metrics`.
pub fn metrics_routes(rls: Rls, path: &str) -> Router {
    Router::new().route(path, get(metrics)).with_state(rls)
}

async fn rules(rls: State<Rls>) -> String {
    rls.rules().to_string()
}

async fn stats(rls: State<Rls>) -> String {
    rls.stats().text()
}

async fn metrics(rls: State<Rls>) -> Response {
    let text = [("content-type", "text/plain; version=0.0.4; charset=utf-8")];
    (text, rls.stats().prometheus()).into_response()
}

async fn health(rls: State<Rls>) -> Response {
    match rls.unhealthy() {
        None => (StatusCode::OK, "OK").into_response(),
        Some(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("unhealthy: {why}\n"),
        )
            .into_response(),
    }
}

async fn decide(rls: State<Rls>, body: Bytes) -> Response {
    let request: Asked = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    match rls.decide(&request.message(), None).await {
        Ok(response) => {
            let status = match response.overall_code() {
                Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::OK,
            };
            let json = [("content-type", "application/json")];
            (status, json, answer(&response).to_string()).into_response()
        }
        Err(error) => {
            let status = match error.code() {
                Grpc::InvalidArgument => StatusCode::BAD_REQUEST,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, format!("{}\n", error.message())).into_response()
        }
    }
}

/// A request in JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    domain: String,
    descriptors: Vec<AskedDescriptor>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Number<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskedDescriptor {
    entries: Vec<AskedEntry>,
    limit: Option<AskedLimit>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number<u64>>,
    #[serde(alias = "isNegativeHits")]
    is_negative_hits: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskedEntry {
    key: String,
    value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskedLimit {
    #[serde(alias = "requestsPerUnit")]
    requests_per_unit: Number<u32>,
    unit: String,
    #[serde(alias = "unitMultiplier")]
    unit_multiplier: Option<Number<u32>>,
}

/// A number, which JSON of protobuf may write as a text.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Written", bound = "T: TryFrom<u64>")]
struct Number<T>(T);

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Other(Value),
}

impl<T: TryFrom<u64>> TryFrom<Written> for Number<T> {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let number = match &written {
            Written::Number(number) => Some(*number),
            Written::Other(value) => value.as_str().and_then(|text| text.parse().ok()),
        };
        let fits = number.and_then(|number| T::try_from(number).ok());
        fits.map(Self).ok_or_else(|| {
            let value = match written {
                Written::Number(number) => number.into(),
                Written::Other(value) => value,
            };
            let bits = size_of::<T>() * 8;
            format!("{value}: must be a whole number of up to {bits} bits")
        })
    }
}

impl Asked {
    fn message(self) -> RateLimitRequest {
        let descriptors = self.descriptors.into_iter();
        RateLimitRequest {
            domain: self.domain.into(),
            descriptors: descriptors.map(AskedDescriptor::message).collect(),
            hits_addend: self.hits_addend.0,
        }
    }
}

impl AskedDescriptor {
    fn message(self) -> RateLimitDescriptor {
        let entry = |entry: AskedEntry| Entry {
            key: entry.key.into(),
            value: entry.value.into(),
        };
        let limit = |limit: AskedLimit| RateLimitOverride {
            requests_per_unit: limit.requests_per_unit.0,
            unit: Unit::named(&limit.unit).map_or(0, Unit::number),
            unit_multiplier: limit.unit_multiplier.map(|it| UInt32Value { value: it.0 }),
        };
        let hits = |number: Number<u64>| UInt64Value { value: number.0 };
        RateLimitDescriptor {
            entries: self.entries.into_iter().map(entry).collect(),
            limit: self.limit.map(limit),
            hits_addend: self.hits_addend.map(hits),
            is_negative_hits: self.is_negative_hits,
        }
    }
}

/// Returns the JSON of a response, as protobuf maps it.
fn answer(response: &RateLimitResponse) -> Value {
    let statuses: Vec<Value> = response.statuses.iter().map(status).collect();
    json!({ "overallCode": name(response.overall_code()), "statuses": statuses })
}

fn status(status: &DescriptorStatus) -> Value {
    let mut json = json!({ "code": name(status.code()) });
    if let Some(limit) = &status.current_limit {
        let unit = Unit::numbered(limit.unit).map_or("unknown", Unit::name);
        let mut own = json!({
            "requestsPerUnit": limit.requests_per_unit,
            "unit": unit.to_ascii_uppercase(),
        });
        if let Some(units) = &limit.unit_multiplier {
            own["unitMultiplier"] = units.value.into();
        }
        if !limit.name.is_empty() {
            own["name"] = limit.name.clone().into();
        }
        json["currentLimit"] = own;
    }
    if status.limit_remaining > 0 {
        json["limitRemaining"] = status.limit_remaining.into();
    }
    if let Some(reset) = &status.duration_until_reset {
        json["durationUntilReset"] = format!("{}s", reset.seconds).into();
    }
    json
}

const fn name(code: Code) -> &'static str {
    match code {
        Code::Unknown => "UNKNOWN",
        Code::Ok => "OK",
        Code::OverLimit => "OVER_LIMIT",
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rls/http.rs"]
mod tests;
