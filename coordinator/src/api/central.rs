//! The service to which peers forward their clients' central requests.

use crate::node::NodeHandle;
use aliquot_core::central::DecisionReply;
use aliquot_wire::Wire;
use aliquot_wire::central::{AskForward, ReleaseForward};
use aliquot_wire::pb;
use aliquot_wire::pb::central_server::{Central, CentralServer};
use tonic::{Request, Response, Status};

/// Passes requests to the node's actor.
#[derive(Clone, Debug)]
pub struct CentralApi {
    handle: NodeHandle,
}

impl CentralApi {
    /// Creates the service of this node.
    #[must_use]
    pub const fn new(handle: NodeHandle) -> Self {
        Self { handle }
    }

    /// Returns the gRPC service for the peer port.
    #[must_use]
    pub fn into_service(self) -> CentralServer<Self> {
        CentralServer::new(self)
    }
}

#[tonic::async_trait]
impl Central for CentralApi {
    async fn forward(
        &self,
        request: Request<pb::AskForward>,
    ) -> Result<Response<<DecisionReply as Wire>::Message>, Status> {
        let forward: AskForward = read(request)?;
        let reply = self.handle.ask(forward.ask()).await;
        let reply = reply.map_err(|stopped| Status::unavailable(stopped.to_string()))?;
        Ok(Response::new(reply.to_message()))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseForward>,
    ) -> Result<Response<pb::ReleaseTaken>, Status> {
        let forward: ReleaseForward = read(request)?;
        let released = self.handle.release(forward.release()).await;
        released.map_err(|stopped| Status::unavailable(stopped.to_string()))?;
        Ok(Response::new(pb::ReleaseTaken {}))
    }
}

fn read<T: Wire>(request: Request<T::Message>) -> Result<T, Status> {
    T::from_message(request.into_inner())
        .map_err(|error| Status::invalid_argument(error.to_string()))
}
