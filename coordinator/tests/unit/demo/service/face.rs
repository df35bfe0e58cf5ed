use super::*;
use crate::clock::{Clock, HostClock};
use ::http::StatusCode;
use axum::Router;
use axum::routing::post;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Starts an HTTP face that gives each request the same status.
async fn http_face(status: StatusCode) -> SocketAddr {
    let app = Router::new().route("/v1/check", post(move || async move { status }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Starts a Redis face that gives each command the same reply.
async fn redis_face(reply: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 512];
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                    stream.write_all(reply.as_bytes()).await.unwrap();
                }
            });
        }
    });
    address
}

fn faces(via: Via, addresses: &[SocketAddr]) -> Faces {
    let named = (1..).zip(addresses);
    let named = named.map(|(number, address)| (format!("face-{number}"), *address));
    Faces::new(via, &named.collect::<Vec<_>>(), Arc::new(HostClock)).unwrap()
}

/// Returns an address at which no process listens.
fn closed() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

#[tokio::test]
async fn a_face_that_leaves_requests_undecided_is_left() {
    let unavailable = http_face(StatusCode::SERVICE_UNAVAILABLE).await;
    let all = [closed(), unavailable, http_face(StatusCode::OK).await];
    let faces = faces(Via::Http, &all);
    assert_eq!(faces.current().as_deref(), Some("face-1"));
    // One undecided request is no reason to leave a face, and several in a row are.
    for _ in 0..5 {
        assert_eq!(faces.ask("demo", 1).await, None);
    }
    let (failed, last) = faces.failed();
    assert!(last.unwrap().starts_with("face-2: 503"));
    assert_eq!((failed, faces.current().as_deref()), (6, Some("face-3")));
    let before = HostClock.now();
    let decision = faces.ask("demo", 1).await.unwrap();
    assert!(decision.admitted);
    assert!(before <= decision.asked && decision.asked < decision.heard);
    assert_eq!(faces.failed().0, 6, "the one that answered is kept");
}

#[tokio::test]
async fn a_face_that_cannot_be_reached_costs_no_request() {
    let faces = faces(Via::Agent, &[closed(), http_face(StatusCode::OK).await]);
    assert!(faces.ask("demo", 1).await.unwrap().admitted);
    assert_eq!(faces.current().as_deref(), Some("face-2"));
}

#[tokio::test]
async fn without_a_face_that_decides_there_is_no_decision() {
    for via in [Via::Http, Via::Grpc, Via::Resp, Via::Rls, Via::Agent] {
        let faces = faces(via, &[closed(), closed()]);
        assert_eq!(faces.ask("demo", 1).await, None, "{via:?}");
        assert_eq!(faces.failed().0, 2, "{via:?}");
        let line = Line::new(via, closed()).unwrap();
        let failure = line.admits("demo", 1).await.unwrap_err();
        assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
    }
    assert!(Faces::new(Via::Client, &[("x".into(), closed())], Arc::new(HostClock)).is_err());
}

#[tokio::test]
async fn refusals_are_decisions_and_errors_are_none() {
    let admitted = |decision: Option<Decision>| decision.map(|decision| decision.admitted);
    let refuses = faces(Via::Http, &[http_face(StatusCode::TOO_MANY_REQUESTS).await]);
    assert_eq!(admitted(refuses.ask("demo", 1).await), Some(false));
    for (reply, expect) in [
        ("*5\r\n:0\r\n:200\r\n:199\r\n:-1\r\n:1\r\n", Some(true)),
        ("*5\r\n:1\r\n:200\r\n:0\r\n:1\r\n:1\r\n", Some(false)),
        ("-ERR no lease\r\n", None),
        ("+OK\r\n", None),
    ] {
        let faces = faces(Via::Resp, &[redis_face(reply).await]);
        for _ in 0..2 {
            assert_eq!(admitted(faces.ask("tenant/1", 3).await), expect, "{reply}");
        }
    }
}
