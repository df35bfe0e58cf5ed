//! Calls that Raft makes to other nodes.
//!
//! Appends are unary calls, one at a time for each follower. openraft sleeps for its backoff before it
//! opens the next call. A dead follower therefore costs one refused connection per backoff or
//! heartbeat, and not a busy loop.

use super::calls::{CallError, Calls, unreachable};
use super::connect::{ConnectError, Links};
use super::earlier_calls::EarlierCalls;
use super::match_index_guard::MatchIndexGuard;
use super::runtime::HostInstant;
use super::snapshot;
use super::types::{
    LogId, Snapshot, Types, Vote, entry_out, index_out, log_id_in, log_id_out, vote_in, vote_out,
};
use super::unresponsive_peers::UnresponsivePeers;
use aliquot_wire::Wire;
use aliquot_wire::raft as wire;
use bytes::Bytes;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError};
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

/// Creates the links to other nodes.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) cluster: String,
    pub(super) node: u64,
    pub(super) links: Arc<Links>,
    pub(super) match_index_guard: Arc<MatchIndexGuard>,
    pub(super) earlier_calls: Arc<EarlierCalls>,
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
        let header = wire::Header {
            cluster: self.cluster.clone(),
            target,
            sender: self.node,
        };
        Link {
            calls: Calls::new(header, channel),
            match_index_guard: Arc::clone(&self.match_index_guard),
            earlier_calls: Arc::clone(&self.earlier_calls),
            unresponsive: Arc::clone(&self.unresponsive),
        }
    }
}

/// The link to one other node.
#[derive(Clone, Debug)]
pub(super) struct Link {
    calls: Calls,
    match_index_guard: Arc<MatchIndexGuard>,
    earlier_calls: Arc<EarlierCalls>,
    unresponsive: Arc<UnresponsivePeers>,
}

impl Link {
    /// Handles a follower's answer that the entry before the sent ones is missing.
    fn conflict(
        &self,
        term: u64,
        missing: Option<LogId>,
    ) -> Result<AppendEntriesResponse<Types>, CallError> {
        let node = self.calls.header.target;
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
            header: self.calls.header.clone(),
            vote: vote_out(&request.vote),
            last: request.last_log_id.as_ref().map(log_id_out),
            transfer: request.leadership_transfer,
        };
        let (mut client, ballot) = (self.calls.client()?, ballot.to_message());
        let call = async move {
            match pre {
                true => client.pre_vote(ballot).await,
                false => client.vote(ballot).await,
            }
        };
        let answer: wire::BallotAnswer = self.calls.answer(RPCTypes::Vote, ttl, call).await?;
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
            header: self.calls.header.clone(),
            vote: vote_out(&request.vote),
            previous: request.prev_log_id.as_ref().map(log_id_out),
            committed: request.leader_commit.as_ref().map(log_id_out),
            entries: request.entries.iter().map(entry_out).collect(),
        };
        let (mut client, append) = (self.calls.client()?, append.to_message());
        let target = self.calls.header.target;
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
        let answer: Result<wire::AppendAnswer, _> =
            self.calls.answer(RPCTypes::AppendEntries, ttl, call).await;
        match &answer {
            Ok(_) => self.unresponsive.answered(target),
            Err(RPCError::Timeout(_)) => self.unresponsive.unanswered(target, HostInstant::now()),
            Err(_) => {}
        }
        let wire::AppendAnswer { outcome, quiet } = answer?;
        let (node, term) = (self.calls.header.target, request.vote.leader_id.term);
        if !matches!(outcome, wire::AppendOutcome::Higher(_)) {
            self.earlier_calls.answered(node, term, quiet);
        }
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
            sent = snapshot::send(&self.calls, vote, snapshot, option) => Ok(sent?),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, CallError> {
        let (expected_vote, expected) = (*request.from_leader(), request.last_log_id().copied());
        let transfer = wire::Transfer {
            header: self.calls.header.clone(),
            vote: vote_out(&expected_vote),
            heir: *request.to_node_id(),
            last: expected.as_ref().map(log_id_out),
        };
        let (mut client, transfer) = (self.calls.client()?, transfer.to_message());
        let call = async move { client.transfer_leader(transfer).await };
        let ttl = option.soft_ttl();
        let outcome = self
            .calls
            .answer(RPCTypes::TransferLeader, ttl, call)
            .await?;
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
