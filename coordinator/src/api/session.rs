//! The service where clients open sessions.

use super::framing::{MessageBody, Messages};
use crate::session::{Gate, Outgoing, Remote};
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::session_server::SERVICE_NAME;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::metadata::{GRPC_CONTENT_TYPE, MetadataMap, MetadataValue};
use tonic::server::NamedService;
use tonic::{Extensions, Status};
use tower::Service;

/// Name of the caller that a certificate or a token proved. The layer that checks these puts it into
/// the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerName(pub String);

/// Passes clients' streams to a gate: the gRPC service for the client port.
///
/// Keep-alive and the maximum number of streams of a connection
/// ([`STREAMS_PER_CONNECTION_MAX`](crate::session::STREAMS_PER_CONNECTION_MAX)) are set on the server.
#[derive(Clone, Debug)]
pub struct SessionApi {
    gate: Gate,
}

impl SessionApi {
    /// The only method of the service.
    const METHOD: &str = "Open";

    /// Creates the service of a gate.
    #[must_use]
    pub const fn new(gate: Gate) -> Self {
        Self { gate }
    }

    fn open(&self, request: Request<Body>) -> Result<Outgoing, Status> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().strip_prefix('/');
        if path.and_then(|path| path.split_once('/')) != Some((SERVICE_NAME, Self::METHOD)) {
            return Err(Status::unimplemented(format!(
                "{}: {SERVICE_NAME} has only the method {}",
                head.uri.path(),
                Self::METHOD
            )));
        }
        if let Some(encoding) = head.headers.get("grpc-encoding")
            && encoding != "identity"
        {
            let mut refused = Status::unimplemented(format!(
                "grpc-encoding = {encoding:?}: must be identity, messages of sessions are not compressed"
            ));
            let accepted = MetadataValue::from_static("identity");
            refused
                .metadata_mut()
                .insert("grpc-accept-encoding", accepted);
            return Err(refused);
        }
        let messages = Messages::<_, pb::ClientMessage>::new(body, MESSAGE_BYTES_MAX);
        Ok(self.gate.serve(messages, remote(head.extensions))?)
    }
}

impl NamedService for SessionApi {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<Request<Body>> for SessionApi {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let response = match self.open(request) {
            Ok(outgoing) => {
                let mut response = Response::new(Body::new(MessageBody::new(outgoing)));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
                response
            }
            Err(status) => status.into_http(),
        };
        ready(Ok(response))
    }
}

/// Returns the address and the proven name of a caller.
fn remote(extensions: Extensions) -> Remote {
    let name = extensions.get::<CallerName>();
    let name = name.map(|CallerName(name)| name.clone());
    let request = tonic::Request::from_parts(MetadataMap::new(), extensions, ());
    let address = request.remote_addr().map(|address| address.to_string());
    Remote {
        address: address.unwrap_or_default(),
        name: name.unwrap_or_default(),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/api/session.rs"]
mod tests;
