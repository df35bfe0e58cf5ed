//! The service where clients open sessions.

use crate::session::{Gate, Outgoing, Remote};
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::session_server::{Session, SessionServer};
use tonic::{Extensions, Request, Response, Status, Streaming};

/// Name of the caller that a certificate or a token proved. The layer that checks these puts it into
/// the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerName(pub String);

/// Passes clients' streams to a gate.
#[derive(Clone, Debug)]
pub struct SessionApi {
    gate: Gate,
}

impl SessionApi {
    /// Creates the service of a gate.
    #[must_use]
    pub const fn new(gate: Gate) -> Self {
        Self { gate }
    }

    /// Returns the gRPC service for the client port. Keep-alive and the maximum number of streams of a
    /// connection ([`STREAMS_PER_CONNECTION_MAX`](crate::session::STREAMS_PER_CONNECTION_MAX)) are set
    /// on the server.
    #[must_use]
    pub fn into_service(self) -> SessionServer<Self> {
        SessionServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

#[tonic::async_trait]
impl Session for SessionApi {
    type OpenStream = Outgoing;

    async fn open(
        &self,
        request: Request<Streaming<pb::ClientMessage>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let address = request.remote_addr().map(|address| address.to_string());
        let remote = Remote {
            address: address.unwrap_or_default(),
            name: caller(request.extensions()),
        };
        let outgoing = self.gate.serve(request.into_inner(), remote)?;
        Ok(Response::new(outgoing))
    }
}

fn caller(extensions: &Extensions) -> String {
    let name = extensions.get::<CallerName>();
    name.map(|CallerName(name)| name.clone())
        .unwrap_or_default()
}
