//! Requests to the HTTP face.

use crate::demo::service::failover::Failure;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

/// Connections to one HTTP face, which are kept for later requests.
#[derive(Debug)]
pub(super) struct Line {
    uri: Uri,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Line {
    pub(super) fn new(address: SocketAddr, connect_within: Duration) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_within));
        // The answer's status is the one to pass on.
        let uri = format!("http://{address}/v1/check?status=429").parse();
        Ok(Self {
            uri: uri.map_err(|error| format!("{address}: {error}"))?,
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    pub(super) async fn admits(&self, key: &str, cost: u64) -> Result<bool, Failure> {
        let body = json!({ "key": key, "cost": cost }).to_string();
        let request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body));
        let request = request.map_err(|error| Failure::Unreachable(error.to_string()))?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| unreachable(&error))?;
        let status = answer.status();
        // The body is read to its end, so that the connection can be used again.
        let body = answer.into_body().collect().await;
        let body = body.map_err(|error| unreachable(&error))?.to_bytes();
        match status {
            StatusCode::OK => Ok(true),
            StatusCode::TOO_MANY_REQUESTS => Ok(false),
            _ => {
                let why = format!("{status}: {}", String::from_utf8_lossy(&body));
                Err(Failure::Undecided(why))
            }
        }
    }
}

/// Returns the last cause of an error, which is the most specific one.
fn unreachable(error: &(dyn Error + 'static)) -> Failure {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    Failure::Unreachable(deepest.to_string())
}
