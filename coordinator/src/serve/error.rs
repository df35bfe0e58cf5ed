//! Reasons for which a node did not start, or stopped.

use crate::api::auth::AuthError;
use crate::api::tls::TlsError;
use crate::raft::{Halt, RaftError};
use crate::store::{DataDirError, StoreError};
use aliquot_client::BuildError;

/// Reason for which a node did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The node cannot listen on an address. Nothing was started.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// This node must not use the data directory. Nothing was started.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The store in the data directory cannot be used, or cannot be written any more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A certificate or key cannot be used. Nothing was started.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The tokens cannot be used. Nothing was started.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The client of the faces cannot be made.
    #[error("the client of the faces cannot be created: {0}")]
    Client(#[from] BuildError),
    /// The log cannot be opened.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// This version cannot read an entry or a snapshot of the log, or `skip_entry` does not fit the log.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// The rules of the rate limit service, or its certificate, cannot be used. Nothing was started.
    #[error("{0}")]
    Rules(String),
    /// The log has failed. Everything that was acknowledged is on the disk.
    #[error("this node stopped because its log has failed: {0}")]
    Failed(String),
}

impl ServeError {
    /// Returns true if starting the node again may help, without a change to its files.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::DataDir(error) => error.may_pass(),
            Self::Store(StoreError::Io { .. }) | Self::Listen(_) | Self::Failed(_) => true,
            Self::Raft(RaftError::Stopped) => true,
            Self::Store(_)
            | Self::Tls(_)
            | Self::Auth(_)
            | Self::Client(_)
            | Self::Raft(_)
            | Self::Halted(_)
            | Self::Rules(_) => false,
        }
    }
}

/// The node cannot listen on an address, or not serve it.
#[derive(Debug, thiserror::Error)]
#[error("{setting} = {address}: {reason}")]
pub struct ListenError {
    pub(super) setting: &'static str,
    pub(super) address: String,
    pub(super) reason: String,
}
