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
mod tests {
    use super::*;
    use aliquot_client::{KeyRefused, Limit, Limiter};
    use aliquot_faces::decider::{Limiters, OnExpire, Options, Reserve};
    use aliquot_faces::{Face, Scope};
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use std::time::Duration;
    use tower::ServiceExt;

    /// Limits of this process, with or without a session.
    struct Local(bool);

    impl Limiters for Local {
        fn limiter(&self, _: &str) -> Result<Limiter, KeyRefused> {
            Ok(Limiter::local(Limit::per_sec(10), 10).unwrap())
        }

        fn has_session(&self) -> bool {
            self.0
        }
    }

    async fn ask(has_session: bool, path: &str) -> (u16, String) {
        let decider = Decider::of(Local(has_session), Options::default());
        for cost in [4, 11] {
            let reserve = Reserve {
                scope: Scope::ALL,
                parts: vec![("a".into(), cost)],
                ttl: Duration::from_secs(60),
                on_expire: OnExpire::Keep,
                within: Duration::from_millis(20),
                id: None,
            };
            let reserved = decider.of_face(Face::Redis).reserve(&reserve).await;
            assert_eq!(reserved.unwrap().id.is_some(), cost == 4);
        }
        let (_stop, stopping) = watch::channel(false);
        let agent = Agent {
            faces: FaceFigures {
                decider: Some(decider),
                rlqs: None,
            },
            ports: Vec::new(),
            stopping,
        };
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = agent_router(agent).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn an_agent_is_ready_with_a_lease_and_healthy_without() {
        for (has_session, path, status) in [
            (true, "/readyz", 200),
            (false, "/readyz", 503),
            (false, "/healthz", 200),
        ] {
            let (found, body) = ask(has_session, path).await;
            assert_eq!(found, status, "{path}: {body}");
        }
    }

    #[tokio::test]
    async fn decisions_are_counted_by_face_and_outcome() {
        let (_, text) = ask(true, "/metrics").await;
        for line in [
            "aliquot_agent_ready 1",
            "aliquot_face_decisions_total{face=\"redis\",outcome=\"allowed\"} 1",
            "aliquot_face_decisions_total{face=\"redis\",outcome=\"never\"} 1",
            "aliquot_face_decisions_total{face=\"http\",outcome=\"allowed\"} 0",
            "aliquot_face_keys 1",
            "aliquot_reservations 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
        assert!(!text.contains("rlqs"), "{text}");
    }
}
