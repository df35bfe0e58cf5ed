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
