//! The service where clients come for their allotments.

use crate::session::{Gate, Outgoing, Remote};
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::session_server::{Session, SessionServer};
use tonic::{Extensions, Request, Response, Status, Streaming};

/// Whom a certificate or a token proved the caller to be; whoever checks these
/// leaves it among the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerName(pub String);

/// Lets clients' streams in through a gate.
#[derive(Clone, Debug)]
pub struct SessionFace {
    gate: Gate,
}

impl SessionFace {
    /// The face of a gate.
    #[must_use]
    pub const fn new(gate: Gate) -> Self {
        Self { gate }
    }

    /// The service, for the port of the clients. Keep-alive, and how many
    /// streams a connection may have
    /// ([`STREAMS_PER_CONNECTION_MAX`](crate::session::STREAMS_PER_CONNECTION_MAX)),
    /// are the server's.
    #[must_use]
    pub fn into_service(self) -> SessionServer<Self> {
        SessionServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

#[tonic::async_trait]
impl Session for SessionFace {
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
