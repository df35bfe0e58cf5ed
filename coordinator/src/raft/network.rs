//! Calls that Raft makes to other nodes.
//!
//! Appends are unary calls, one at a time for each follower. openraft sleeps for its backoff before it
//! opens the next call. A dead follower therefore costs one refused connection per backoff or
//! heartbeat, and not a busy loop.

use super::connect::{ConnectError, Links};
use super::match_index_guard::MatchIndexGuard;
use super::runtime::HostInstant;
use super::types::{
    LogId, Snapshot, Types, Vote, entry_out, index_out, log_id_in, log_id_out, vote_in, vote_out,
};
use super::unresponsive_peers::UnresponsivePeers;
use crate::timer;
use aliquot_wire::limits::APPEND_BYTES_MAX;
use aliquot_wire::pb::raft_client::RaftClient;
use aliquot_wire::raft as wire;
use aliquot_wire::{Wire, WireError};
use bytes::Bytes;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Instant};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;

/// First and longest pause between calls to a follower that cannot be reached.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_millis(400);

/// Maximum time that a follower has to flush entries.
const ENTRIES_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) type CallError = RPCError<Types>;

fn unreachable(what: impl ToString) -> CallError {
    Unreachable::from_string(what).into()
}

/// Creates the links to other nodes.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) cluster: String,
    pub(super) node: u64,
    pub(super) links: Arc<Links>,
    pub(super) match_index_guard: Arc<MatchIndexGuard>,
    pub(super) unresponsive: Arc<UnresponsivePeers>,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Link {
        self.link(target, self.links.to(&node.addr))
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &BasicNode) -> Link {
        self.link(target, self.links.apart(&node.addr))
    }
}

impl Network {
    fn link(&self, target: u64, channel: Result<Channel, ConnectError>) -> Link {
        Link {
            header: wire::Header {
                cluster: self.cluster.clone(),
                target,
                sender: self.node,
            },
            match_index_guard: Arc::clone(&self.match_index_guard),
            unresponsive: Arc::clone(&self.unresponsive),
            client: channel.map(|channel| {
                let client = RaftClient::new(channel);
                client.max_decoding_message_size(APPEND_BYTES_MAX)
            }),
        }
    }
}

/// Calls to one other node.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Names the node that each call is meant for. Another node may have taken over the address by now.
    pub(super) header: wire::Header,
    match_index_guard: Arc<MatchIndexGuard>,
    unresponsive: Arc<UnresponsivePeers>,
    client: Result<RaftClient<Channel>, ConnectError>,
}

impl Link {
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

    /// Handles a follower's answer that the entry before the sent ones is missing.
    fn conflict(
        &self,
        term: u64,
        missing: Option<LogId>,
    ) -> Result<AppendEntriesResponse<Types>, CallError> {
        let node = self.header.target;
        // Without a previous entry, there is nothing to conflict with, and openraft would panic.
        let missing = missing.ok_or_else(|| unreachable("a conflict with no entry"))?;
        if !self.match_index_guard.lost(node, term, missing) {
            return Ok(AppendEntriesResponse::Conflict);
        }
        let index = index_out(missing.index);
        let what =
            format!("node {node} has lost entry {index}: it must come back under another id");
        tracing::error!("{what}");
        Err(unreachable(what))
    }

    async fn ask(
        &mut self,
        request: VoteRequest<Types>,
        ttl: Duration,
        pre: bool,
    ) -> Result<VoteResponse<Types>, CallError> {
        let ballot = wire::Ballot {
            header: self.header.clone(),
            vote: vote_out(&request.vote),
            last: request.last_log_id.as_ref().map(log_id_out),
            transfer: request.leadership_transfer,
        };
        let (mut client, ballot) = (self.client()?, ballot.to_message());
        let call = async move {
            match pre {
                true => client.pre_vote(ballot).await,
                false => client.vote(ballot).await,
            }
        };
        let answer: wire::BallotAnswer = self.answer(RPCTypes::Vote, ttl, call).await?;
        let last = answer.last.map(log_id_in);
        Ok(VoteResponse::new(
            vote_in(answer.vote),
            last,
            answer.granted,
        ))
    }
}

impl RaftNetworkV2<Types> for Link {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, CallError> {
        let append = wire::Append {
            header: self.header.clone(),
            vote: vote_out(&request.vote),
            previous: request.prev_log_id.as_ref().map(log_id_out),
            committed: request.leader_commit.as_ref().map(log_id_out),
            entries: request.entries.iter().map(entry_out).collect(),
        };
        let (mut client, append) = (self.client()?, append.to_message());
        let target = self.header.target;
        if !self.unresponsive.may_call(target, HostInstant::now()) {
            return Err(unreachable("it has left calls unanswered for a while"));
        }
        let call = async move { client.append(append).await };
        // Entries need time to be sent and flushed. With the timeout of a heartbeat, a slow follower
        // would be sent the same entries again and again.
        let ttl = match request.entries.is_empty() {
            true => option.soft_ttl(),
            false => option.soft_ttl().max(ENTRIES_TIMEOUT),
        };
        let outcome = self.answer(RPCTypes::AppendEntries, ttl, call).await;
        match &outcome {
            Ok(_) => self.unresponsive.answered(target),
            Err(RPCError::Timeout(_)) => self.unresponsive.unanswered(target, HostInstant::now()),
            Err(_) => {}
        }
        let outcome = outcome?;
        let (node, term) = (self.header.target, request.vote.leader_id.term);
        let acknowledge = |upto| self.match_index_guard.acknowledge(node, term, upto);
        Ok(match outcome {
            wire::AppendOutcome::Accepted => {
                let last = request.entries.last().map(|entry| entry.log_id);
                acknowledge(last.or(request.prev_log_id));
                AppendEntriesResponse::Success
            }
            wire::AppendOutcome::Partial(upto) => {
                let upto = upto.map(log_id_in);
                acknowledge(upto);
                AppendEntriesResponse::PartialSuccess(upto)
            }
            wire::AppendOutcome::Conflict => self.conflict(term, request.prev_log_id)?,
            wire::AppendOutcome::Higher(vote) => AppendEntriesResponse::HigherVote(vote_in(vote)),
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, CallError> {
        self.ask(request, option.soft_ttl(), false).await
    }

    // openraft's default implementation grants without asking the peer.
    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, CallError> {
        self.ask(request, option.soft_ttl(), true).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = super::snapshot::send(self, vote, snapshot, option) => Ok(sent?),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, CallError> {
        let (expected_vote, expected) = (*request.from_leader(), request.last_log_id().copied());
        let transfer = wire::Transfer {
            header: self.header.clone(),
            vote: vote_out(&expected_vote),
            heir: *request.to_node_id(),
            last: expected.as_ref().map(log_id_out),
        };
        let (mut client, transfer) = (self.client()?, transfer.to_message());
        let call = async move { client.transfer_leader(transfer).await };
        let ttl = option.soft_ttl();
        let outcome = self.answer(RPCTypes::TransferLeader, ttl, call).await?;
        Ok(match outcome {
            wire::TransferOutcome::Accepted => Ok(()),
            wire::TransferOutcome::Higher(actual) => Err(TransferLeaderError::VoteChanged {
                expected: expected_vote,
                actual: vote_in(actual),
            }),
            wire::TransferOutcome::Behind(actual) => Err(TransferLeaderError::LogNotFlushed {
                expected,
                actual: actual.map(log_id_in),
            }),
        })
    }

    fn backoff(&self) -> Option<Backoff> {
        let doubled = |pause: &Duration| Some(pause.saturating_mul(2).min(BACKOFF_MAX));
        Some(Backoff::new(std::iter::successors(
            Some(BACKOFF_FIRST),
            doubled,
        )))
    }
}
