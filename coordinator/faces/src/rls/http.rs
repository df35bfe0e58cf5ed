//! The HTTP ports of envoyproxy/ratelimit: health and JSON, debugging, metrics.

use super::pb::rate_limit_descriptor::{Entry, RateLimitOverride};
use super::pb::rate_limit_response::{Code, DescriptorStatus};
use super::pb::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse, UInt64Value};
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

async fn health(rls: State<Rls>) -> (StatusCode, &'static str) {
    match rls.is_healthy() {
        true => (StatusCode::OK, "OK"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
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
    hits_addend: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskedDescriptor {
    entries: Vec<AskedEntry>,
    limit: Option<AskedLimit>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number>,
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
    requests_per_unit: u32,
    unit: String,
}

/// A number of 64 bits, which JSON of protobuf writes as a text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

impl Number {
    fn value(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or(u64::MAX),
        }
    }
}

impl Asked {
    fn message(self) -> RateLimitRequest {
        let descriptors = self.descriptors.into_iter();
        RateLimitRequest {
            domain: self.domain.into(),
            descriptors: descriptors.map(AskedDescriptor::message).collect(),
            hits_addend: self.hits_addend,
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
            requests_per_unit: limit.requests_per_unit,
            unit: Unit::named(&limit.unit).map_or(0, Unit::number),
            unit_multiplier: None,
        };
        let hits = |number: Number| UInt64Value {
            value: number.value(),
        };
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
