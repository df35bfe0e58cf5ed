use super::*;
use crate::clock::{Clock, HostClock};
use crate::demo::record::Recording;
use crate::demo::service::Status;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use http_body_util::BodyExt;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tower::ServiceExt;

/// A service whose limiter admits the first `tokens` requests.
struct TestService {
    app: Router,
    audit: Arc<Audit>,
    record: PathBuf,
    _dir: TempDir,
}

fn service(tokens: u64, faults: InjectedFaults) -> TestService {
    let dir = TempDir::new().unwrap();
    let record = dir.path().join("record");
    let file = File::create_new(&record).unwrap();
    let audit = Arc::new(Audit::new(Arc::new(HostClock), "demo".into(), file, faults));
    let left = Arc::new(AtomicU64::new(tokens));
    let limit = move |router: Router, audit: &Arc<Audit>| {
        let audit = Arc::clone(audit);
        router.layer(middleware::from_fn(move |request: Request, next: Next| {
            let (audit, left) = (Arc::clone(&audit), Arc::clone(&left));
            async move {
                let take = |n: u64| n.checked_sub(1);
                let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
                if taken.is_err() {
                    return StatusCode::TOO_MANY_REQUESTS.into_response();
                }
                let now = HostClock.now();
                audit.admitted(now, now);
                next.run(request).await
            }
        }))
    };
    let held = Holding {
        share: Some(12.5),
        ..Holding::default()
    };
    TestService {
        app: app(&audit, limit, Arc::new(move || held.clone())),
        audit,
        record,
        _dir: dir,
    }
}

impl TestService {
    async fn get(&self, path: &str) -> (StatusCode, Vec<u8>) {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let answer = self.app.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap();
        (status, body.to_bytes().to_vec())
    }

    async fn statuses(&self, paths: &[&str]) -> Vec<u16> {
        let mut statuses = Vec::new();
        for path in paths {
            statuses.push(self.get(path).await.0.as_u16());
        }
        statuses
    }

    async fn recording(&self) -> Recording {
        assert_eq!(self.get("/__flush").await.0, StatusCode::OK);
        Recording::read(&std::fs::read(&self.record).unwrap()).unwrap()
    }
}

#[tokio::test]
async fn every_decision_is_written_down_with_the_clock_around_it() {
    let service = service(3, InjectedFaults::default());
    let paths = ["/", "/tenant/7?cost=2", "/replay/1", "/", "/missing"];
    // A path without a key is not decided and not served.
    assert_eq!(service.statuses(&paths).await, [200, 200, 200, 429, 404]);
    let recording = service.recording().await;
    assert_eq!(recording.keys, ["demo", "tenant/7", "replay/1"]);
    let costs: Vec<u64> = recording.admitted.iter().map(|a| a.cost).collect();
    assert_eq!(costs, [1, 2, 1]);
    assert!(recording.admitted.iter().all(|a| a.is_plausible()));
    assert_eq!(recording.refused.len(), 1);
    let again = service.recording().await;
    assert_eq!(again, recording, "a flush writes nothing twice");
}

#[tokio::test]
async fn the_status_says_what_was_decided_and_what_is_held() {
    let service = service(2, InjectedFaults::default());
    service.statuses(&["/", "/tenant/1", "/"]).await;
    let (_, body) = service.get("/__status").await;
    let status: Status = serde_json::from_slice(&body).unwrap();
    let expect = Status {
        admitted: 2,
        refused: 1,
        shared: 1,
        held: Holding {
            share: Some(12.5),
            ..Holding::default()
        },
    };
    assert_eq!(status, expect);
}

#[tokio::test]
async fn planted_faults_are_made_so_often() {
    let faults = InjectedFaults {
        serve_refused: 2,
        forget: 1,
    };
    let service = service(1, faults);
    let paths = ["/", "/tenant/1", "/", "/", "/"];
    // One admission is not recorded. One tenant is refused. Two refused requests are served.
    assert_eq!(service.statuses(&paths).await, [200, 429, 200, 200, 429]);
    let recording = service.recording().await;
    assert_eq!((recording.admitted.len(), recording.refused.len()), (2, 2));
}

#[tokio::test]
async fn a_decision_without_a_request_is_not_written() {
    let service = service(1, InjectedFaults::default());
    let now = HostClock.now();
    service.audit.admitted(now, now);
    assert_eq!(service.recording().await.admitted, []);
}
