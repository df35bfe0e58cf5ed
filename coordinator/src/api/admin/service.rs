//! The state of the service, and how its requests read the state of the cluster.

use crate::api::backend::{Backend, Unavailable, View, WriteError, query};
use std::sync::Arc;
use tonic::Status;

/// The service for operators of a node.
#[derive(Clone, Debug)]
pub struct AdminService {
    pub(super) backend: Arc<dyn Backend>,
}

impl AdminService {
    /// Creates the service of the node behind `backend`.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    /// Reads what this node happens to have applied.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        f: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        query(&*self.backend, f).await.map_err(unavailable)
    }

    /// Reads the committed state, and not only what this node happens to have applied.
    pub(super) async fn query_fenced<T: Send + 'static>(
        &self,
        f: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.backend.fence().await.map_err(not_written)?;
        self.query(f).await
    }
}

fn unavailable(error: Unavailable) -> Status {
    Status::unavailable(error.to_string())
}

/// Returns the status of a write that failed, or that may have.
pub(super) fn not_written(error: WriteError) -> Status {
    let message = error.to_string();
    match error {
        WriteError::NoLeader { .. } | WriteError::Removed => Status::unavailable(message),
        WriteError::Unknown { .. } => Status::unknown(message),
        WriteError::Refused { .. } => Status::failed_precondition(message),
    }
}
