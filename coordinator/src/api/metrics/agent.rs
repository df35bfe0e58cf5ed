//! Metrics and probes of an agent.

use super::{FaceFigures, TEXT, encode, encode_process, probe};
use crate::api::connections::Connections;
use aliquot_faces::Decider;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use std::fmt;
use tokio::sync::watch;

/// Sources of an agent's figures, which are read when the metrics are.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Faces, with their decider.
    pub faces: FaceFigures,
    /// Connections of the ports.
    pub ports: Vec<Connections>,
    /// True once the agent stops.
    pub stopping: watch::Receiver<bool>,
}

/// Returns a router for the metrics port of an agent. It serves `/metrics`, `/healthz` (the process lives) and
/// `/readyz` (it can decide).
pub fn agent_router(agent: Agent) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(agent)
}

async fn metrics(State(agent): State<Agent>) -> Response {
    ([(header::CONTENT_TYPE, TEXT)], encode(agent)).into_response()
}

async fn healthz() -> Response {
    probe(None)
}

async fn readyz(State(agent): State<Agent>) -> Response {
    probe(agent.not_ready().map(str::to_owned))
}

impl Agent {
    /// Returns the reason for which it has no shares, or `None` if it may have some.
    fn not_ready(&self) -> Option<&'static str> {
        let has_session = self
            .faces
            .decider
            .as_ref()
            .is_some_and(Decider::has_session);
        match (*self.stopping.borrow(), has_session) {
            (true, _) => Some("stopping"),
            (false, false) => Some("no lease of a node"),
            (false, true) => None,
        }
    }
}

impl Collector for Agent {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 if the agent has a lease of a node";
        let mut ready = encoder.encode_descriptor("agent_ready", help, None, MetricType::Gauge)?;
        ready.encode_gauge(&u64::from(self.not_ready().is_none()))?;
        encode_process(&self.ports, &self.faces, &mut encoder)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/api/metrics/agent.rs"]
mod tests;
