//! Server for the Raft calls of other nodes.

use super::machine::Core;
use super::shared::Shared;
use super::snapshot::{Inbox, Taken, higher, install, progress};
use super::types::{Types, entry_in, log_id_in, log_id_out, vote_in, vote_out};
use aliquot_wire::raft as wire;
use aliquot_wire::{Wire, WireError, pb};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    VoteRequest, VoteResponse,
};
use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonic::{Request, Response, Status};

/// The service that is mounted on the peer port.
#[derive(Debug)]
pub(super) struct RaftService {
    shared: Arc<Shared>,
    inbox: Mutex<Inbox>,
}

type Answer<T> = Result<Response<T>, Status>;

impl RaftService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            inbox: Mutex::default(),
        }
    }

    fn core(&self) -> &Core {
        &self.shared.core
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a call that is meant for another node, which once had this address, or for another
    /// cluster.
    fn addressed(&self, header: &wire::Header) -> Result<(), Status> {
        let options = &self.shared.options;
        check_cluster(&options.cluster, &header.cluster)?;
        if header.target == options.node {
            return Ok(());
        }
        let (node, target) = (options.node, header.target);
        let what = format!("this is node {node}, not node {target}, which may be gone");
        Err(Status::failed_precondition(what))
    }
}

/// # Errors
///
/// Returns `failed_precondition` if a call is meant for another cluster.
pub(super) fn check_cluster(ours: &str, theirs: &str) -> Result<(), Status> {
    /// Peers repeat their calls, so the warning is logged once.
    static TOLD: std::sync::Once = std::sync::Once::new();
    if ours == theirs {
        return Ok(());
    }
    let name = |whole: &str| whole.split('+').next().map(str::to_owned);
    if name(ours) == name(theirs) {
        let what = "skip_entry is not the same on this node and on the one that calls: see the error that named the entry";
        TOLD.call_once(|| tracing::warn!("{what}"));
        return Err(Status::failed_precondition(what));
    }
    let what = format!("cluster.id = {theirs}: must be {ours}, the cluster of this node");
    Err(Status::failed_precondition(what))
}

/// Reads a request, or returns the error that describes what is wrong with it.
pub(super) fn read<T: Wire>(request: Request<T::Message>) -> Result<T, Status> {
    let value = T::from_message(request.into_inner());
    value.map_err(|error: WireError| Status::invalid_argument(error.to_string()))
}

fn invalid(error: impl Display) -> Status {
    Status::invalid_argument(error.to_string())
}

fn stopped(error: impl Display) -> Status {
    Status::unavailable(format!("this node's log has stopped: {error}"))
}

fn ballot(ballot: &wire::Ballot) -> VoteRequest<Types> {
    VoteRequest {
        vote: vote_in(ballot.vote),
        last_log_id: ballot.last.map(log_id_in),
        leadership_transfer: ballot.transfer,
    }
}

fn ballot_answer(answer: &VoteResponse<Types>) -> Response<pb::VoteResponse> {
    let answer = wire::BallotAnswer {
        vote: vote_out(&answer.vote),
        granted: answer.vote_granted,
        last: answer.last_log_id.as_ref().map(log_id_out),
    };
    Response::new(answer.to_message())
}

#[tonic::async_trait]
impl pb::raft_server::Raft for RaftService {
    async fn append(&self, request: Request<pb::AppendRequest>) -> Answer<pb::AppendResponse> {
        let append: wire::Append = read(request)?;
        self.addressed(&append.header)?;
        let (term, committed) = (append.vote.term, append.committed);
        self.shared.earlier_calls.called(term);
        let entries = append.entries.into_iter().map(entry_in);
        let entries: Result<Vec<_>, _> = entries.collect();
        let request = AppendEntriesRequest {
            vote: vote_in(append.vote),
            prev_log_id: append.previous.map(log_id_in),
            leader_commit: committed.map(log_id_in),
            entries: entries.map_err(invalid)?,
        };
        let answer = self.core().append_entries(request).await.map_err(stopped)?;
        // A former leader may know less than this node.
        let is_current = !matches!(answer, AppendEntriesResponse::HigherVote(_));
        if let Some(committed) = committed.filter(|_| is_current) {
            let known = &self.shared.committed_at_leader;
            known.fetch_max(committed.index, Ordering::Relaxed);
        }
        let outcome = match answer {
            AppendEntriesResponse::Success => wire::AppendOutcome::Accepted,
            AppendEntriesResponse::PartialSuccess(upto) => {
                wire::AppendOutcome::Partial(upto.as_ref().map(log_id_out))
            }
            AppendEntriesResponse::Conflict => wire::AppendOutcome::Conflict,
            AppendEntriesResponse::HigherVote(vote) => wire::AppendOutcome::Higher(vote_out(&vote)),
        };
        let quiet = self.shared.earlier_calls.quiet(term);
        let answer = wire::AppendAnswer { outcome, quiet };
        Ok(Response::new(answer.to_message()))
    }

    async fn vote(&self, request: Request<pb::VoteRequest>) -> Answer<pb::VoteResponse> {
        let asked: wire::Ballot = read(request)?;
        self.addressed(&asked.header)?;
        let answer = self.core().vote(ballot(&asked)).await.map_err(stopped)?;
        Ok(ballot_answer(&answer))
    }

    async fn pre_vote(&self, request: Request<pb::VoteRequest>) -> Answer<pb::VoteResponse> {
        let asked: wire::Ballot = read(request)?;
        self.addressed(&asked.header)?;
        let answer = self
            .core()
            .pre_vote(ballot(&asked))
            .await
            .map_err(stopped)?;
        Ok(ballot_answer(&answer))
    }

    async fn offer_snapshot(
        &self,
        request: Request<pb::SnapshotOffer>,
    ) -> Answer<pb::SnapshotProgress> {
        let offer: wire::SnapshotOffer = read(request)?;
        self.addressed(&offer.header)?;
        self.shared.earlier_calls.called(offer.vote.term);
        if let Some(vote) = higher(self.core(), offer.vote) {
            return Ok(Response::new(progress(vote, 0).to_message()));
        }
        let (vote, offset) = (offer.vote, self.inbox().offer(offer));
        Ok(Response::new(progress(vote, offset).to_message()))
    }

    async fn send_chunk(
        &self,
        request: Request<pb::SnapshotChunk>,
    ) -> Answer<pb::SnapshotProgress> {
        let chunk: wire::SnapshotChunk = read(request)?;
        self.addressed(&chunk.header)?;
        self.shared.earlier_calls.called(chunk.vote.term);
        if let Some(vote) = higher(self.core(), chunk.vote) {
            return Ok(Response::new(progress(vote, 0).to_message()));
        }
        let taken = self.inbox().take(&chunk);
        let progress = match taken {
            Taken::Partly(offset) => progress(chunk.vote, offset),
            Taken::Whole(whole) => {
                let installed = install(self.core(), chunk.vote, whole).await;
                installed.map_err(|error| Status::aborted(error.to_string()))?
            }
            Taken::Unannounced => {
                let what = "no such snapshot is arriving here: announce it first";
                return Err(Status::failed_precondition(what));
            }
            Taken::TooLong => {
                let what = "the piece goes beyond the snapshot that was announced";
                return Err(Status::invalid_argument(what));
            }
        };
        Ok(Response::new(progress.to_message()))
    }

    async fn transfer_leader(
        &self,
        request: Request<pb::TransferRequest>,
    ) -> Answer<pb::TransferResponse> {
        let transfer: wire::Transfer = read(request)?;
        self.addressed(&transfer.header)?;
        let (vote, last) = (vote_in(transfer.vote), transfer.last.map(log_id_in));
        let request = TransferLeaderRequest::new(vote, transfer.heir, last);
        let answer = self.core().handle_transfer_leader(request).await;
        let outcome = match answer.map_err(stopped)? {
            Ok(()) => wire::TransferOutcome::Accepted,
            Err(TransferLeaderError::VoteChanged { actual, .. }) => {
                wire::TransferOutcome::Higher(vote_out(&actual))
            }
            Err(TransferLeaderError::LogNotFlushed { actual, .. }) => {
                wire::TransferOutcome::Behind(actual.as_ref().map(log_id_out))
            }
        };
        Ok(Response::new(outcome.to_message()))
    }
}
