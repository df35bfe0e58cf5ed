//! Calls of Raft to one other node: their timeouts and errors.

use super::connect::ConnectError;
use super::types::Types;
use crate::timer;
use aliquot_wire::limits::APPEND_BYTES_MAX;
use aliquot_wire::pb::raft_client::RaftClient;
use aliquot_wire::raft as wire;
use aliquot_wire::{Wire, WireError};
use openraft::errors::{RPCError, Timeout, Unreachable};
use openraft::network::RPCTypes;
use std::future::Future;
use std::time::Duration;
use tonic::transport::Channel;

/// Error of a call.
pub(super) type CallError = RPCError<Types>;

/// Returns the error after which openraft backs off.
pub(super) fn unreachable(what: impl ToString) -> CallError {
    Unreachable::from_string(what).into()
}

/// Calls to one other node.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    /// Names the node that each call is meant for. Another node may have taken over the address by now.
    pub(super) header: wire::Header,
    client: Result<RaftClient<Channel>, ConnectError>,
}

impl Calls {
    pub(super) fn new(header: wire::Header, channel: Result<Channel, ConnectError>) -> Self {
        let client = channel.map(|channel| {
            let client = RaftClient::new(channel);
            client.max_decoding_message_size(APPEND_BYTES_MAX)
        });
        Self { header, client }
    }

    pub(super) fn client(&self) -> Result<RaftClient<Channel>, CallError> {
        let client = self.client.clone();
        client.map_err(unreachable)
    }

    /// Waits for an answer for at most `ttl`.
    ///
    /// Errors of the transport are returned as `Unreachable`, after which openraft backs off. After a
    /// `NetworkError` it would retry at once.
    pub(super) async fn answer<T, F>(
        &self,
        action: RPCTypes,
        ttl: Duration,
        call: F,
    ) -> Result<T, CallError>
    where
        T: Wire,
        F: Future<Output = Result<tonic::Response<T::Message>, tonic::Status>>,
    {
        let timeout = || Timeout {
            action,
            id: self.header.sender,
            target: self.header.target,
            timeout: ttl,
        };
        let answer = timer::timeout(ttl, call).await;
        let answer = answer.map_err(|_| timeout())?;
        let answer = answer.map_err(Unreachable::from_string)?;
        let value = T::from_message(answer.into_inner());
        value.map_err(|error: WireError| unreachable(error))
    }
}
