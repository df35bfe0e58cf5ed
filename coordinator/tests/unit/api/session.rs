//! Calls that are refused before a stream begins.

use super::*;
use crate::session::GateLimits;
use tokio::sync::mpsc;
use tonic::Code;

/// Calls a path of a service that accepts at most one stream, and returns the status with which it ends at once.
async fn refused(path: &str, encoding: Option<&str>, streams: usize) -> (Status, Response<Body>) {
    let (events, _inbox) = mpsc::channel(1);
    let limits = GateLimits {
        streams,
        ..GateLimits::default()
    };
    let mut request = Request::post(path);
    if let Some(encoding) = encoding {
        request = request.header("grpc-encoding", encoding);
    }
    let request = request.body(Body::empty()).unwrap();
    let response = SessionApi::new(Gate::new(events, limits))
        .call(request)
        .await;
    let response = response.unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc");
    let status = Status::from_header_map(response.headers());
    (status.unwrap_or_else(|| Status::ok("begun")), response)
}

const OPEN: &str = "http://node/aliquot.v1.Session/Open";

#[tokio::test]
async fn a_call_of_another_method_names_the_one_there_is() {
    let (status, _) = refused("http://node/aliquot.v1.Session/Close", None, 1).await;
    assert_eq!(status.code(), Code::Unimplemented);
    let text = "/aliquot.v1.Session/Close: aliquot.v1.Session has only the method Open";
    assert_eq!(status.message(), text);
    assert_eq!(refused(OPEN, None, 1).await.0.code(), Code::Ok);
}

#[tokio::test]
async fn compressed_messages_are_refused_with_what_is_accepted() {
    let (status, response) = refused(OPEN, Some("gzip"), 1).await;
    assert_eq!(status.code(), Code::Unimplemented);
    let text =
        "grpc-encoding = \"gzip\": must be identity, messages of sessions are not compressed";
    assert_eq!(status.message(), text);
    assert_eq!(response.headers()["grpc-accept-encoding"], "identity");
    assert_eq!(refused(OPEN, Some("identity"), 1).await.0.code(), Code::Ok);
}

#[tokio::test]
async fn a_full_node_refuses_the_call_itself() {
    let (status, _) = refused(OPEN, None, 0).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
}
