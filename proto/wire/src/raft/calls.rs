//! Calls between nodes that replicate the log, and the replies.

use super::{Entry, Header, LogId, SnapshotMeta, Vote};
use crate::codec::wire;
use crate::error::WireError;
use crate::limits::{
    APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, CHUNK_BYTES_MAX, MESSAGE_BYTES_MAX, SNAPSHOT_BYTES_MAX,
};
use crate::pb;
use crate::read;
use aliquot_core::unit::Span;
use bytes::Bytes;

/// The leader's entries; a call without entries is a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Sender and receiver.
    pub header: Header,
    /// The leader's vote.
    pub vote: Vote,
    /// The entry before the first one sent.
    pub previous: Option<LogId>,
    /// The last entry that is committed.
    pub committed: Option<LogId>,
    /// Entries that follow the previous one. At most [`APPEND_ENTRIES_MAX`].
    pub entries: Vec<Entry>,
}

/// The answer to an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendAnswer {
    /// The outcome.
    pub outcome: AppendOutcome,
    /// Time for which no leader of a lower term had called the node. `None` from an older version.
    pub quiet: Option<Span>,
}

/// The outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// All entries are on the disk.
    Accepted,
    /// The entries up to this one are on the disk.
    Partial(Option<LogId>),
    /// The previous entry is missing.
    Conflict,
    /// The node has seen a greater vote.
    Higher(Vote),
}

/// A candidate's request for a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ballot {
    /// Sender and receiver.
    pub header: Header,
    /// The requested vote.
    pub vote: Vote,
    /// The candidate's last entry.
    pub last: Option<LogId>,
    /// True if the leader asked the node to become a candidate.
    pub transfer: bool,
}

/// The reply to a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BallotAnswer {
    /// The vote of the replying node.
    pub vote: Vote,
    /// True if the vote is granted.
    pub granted: bool,
    /// The last entry of the replying node.
    pub last: Option<LogId>,
}

/// The announcement of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOffer {
    /// Sender and receiver.
    pub header: Header,
    /// The leader's vote.
    pub vote: Vote,
    /// Its metadata.
    pub meta: SnapshotMeta,
    /// Its length in bytes. At most [`SNAPSHOT_BYTES_MAX`].
    pub bytes: u64,
    /// The FNV-1a hash of its bytes.
    pub hash: u64,
}

/// A chunk of the snapshot that the sender announced last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotChunk {
    /// Sender and receiver.
    pub header: Header,
    /// The leader's vote.
    pub vote: Vote,
    /// The FNV-1a hash of the whole, as announced.
    pub hash: u64,
    /// Offset of the chunk.
    pub offset: u64,
    /// The chunk. At most [`CHUNK_BYTES_MAX`].
    pub data: Bytes,
}

/// The progress of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotProgress {
    /// The vote of the replying node.
    pub vote: Vote,
    /// Offset at which the next chunk must begin.
    pub offset: u64,
    /// True if the snapshot is installed.
    pub installed: bool,
}

/// The leader's request to move leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Sender and receiver.
    pub header: Header,
    /// The leader's vote.
    pub vote: Vote,
    /// The node that is to lead.
    pub heir: u64,
    /// The leader's last entry.
    pub last: Option<LogId>,
}

/// A node's reply to a transfer of leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferOutcome {
    /// The node takes part.
    Accepted,
    /// The node has seen another vote.
    Higher(Vote),
    /// The heir's log does not reach the leader's last entry yet.
    Behind(Option<LogId>),
}

wire!(
    Append,
    AppendRequest,
    APPEND_BYTES_MAX,
    [(5, "entries", APPEND_ENTRIES_MAX)]
);
wire!(AppendAnswer, AppendResponse, 256);
wire!(Ballot, VoteRequest, 1_024);
wire!(BallotAnswer, VoteResponse, 256);
wire!(SnapshotOffer, SnapshotOffer, MESSAGE_BYTES_MAX);
wire!(SnapshotChunk, SnapshotChunk, CHUNK_BYTES_MAX + 1_024);
wire!(SnapshotProgress, SnapshotProgress, 256);
wire!(Transfer, TransferRequest, 1_024);
wire!(TransferOutcome, TransferResponse, 256);

fn id(id: Option<&LogId>) -> Option<pb::RaftLogId> {
    id.map(Into::into)
}

fn partial(upto: Option<&LogId>) -> pb::Partial {
    pb::Partial { upto: id(upto) }
}

fn reached(partial: pb::Partial, field: &str) -> Result<Option<LogId>, WireError> {
    read::optional(partial.upto, "upto").map_err(|error| error.within(field))
}

/// Makes the error for an outcome that is missing.
fn no_outcome() -> WireError {
    WireError::field("outcome", "nothing", "an outcome that is known here")
}

impl From<&Append> for pb::AppendRequest {
    fn from(append: &Append) -> Self {
        Self {
            header: Some((&append.header).into()),
            vote: Some((&append.vote).into()),
            previous: id(append.previous.as_ref()),
            committed: id(append.committed.as_ref()),
            entries: append.entries.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::AppendRequest> for Append {
    type Error = WireError;

    fn try_from(append: pb::AppendRequest) -> Result<Self, WireError> {
        Ok(Self {
            header: read::required(append.header, "header")?,
            vote: read::required(append.vote, "vote")?,
            previous: read::optional(append.previous, "previous")?,
            committed: read::optional(append.committed, "committed")?,
            entries: read::list(append.entries, "entries", APPEND_ENTRIES_MAX)?,
        })
    }
}

impl From<&AppendAnswer> for pb::AppendResponse {
    fn from(answer: &AppendAnswer) -> Self {
        use pb::append_response::Outcome;
        let outcome = match &answer.outcome {
            AppendOutcome::Accepted => Outcome::Accepted(pb::Done {}),
            AppendOutcome::Partial(upto) => Outcome::Partial(partial(upto.as_ref())),
            AppendOutcome::Conflict => Outcome::Conflict(pb::Done {}),
            AppendOutcome::Higher(vote) => Outcome::Higher(vote.into()),
        };
        Self {
            outcome: Some(outcome),
            quiet_ns: answer.quiet.map(Span::nanos),
        }
    }
}

impl TryFrom<pb::AppendResponse> for AppendAnswer {
    type Error = WireError;

    fn try_from(response: pb::AppendResponse) -> Result<Self, WireError> {
        use pb::append_response::Outcome;
        let outcome = match response.outcome.ok_or_else(no_outcome)? {
            Outcome::Accepted(pb::Done {}) => AppendOutcome::Accepted,
            Outcome::Partial(partial) => AppendOutcome::Partial(reached(partial, "partial")?),
            Outcome::Conflict(pb::Done {}) => AppendOutcome::Conflict,
            Outcome::Higher(vote) => AppendOutcome::Higher(vote.into()),
        };
        Ok(Self {
            outcome,
            quiet: response.quiet_ns.map(Span::from_nanos),
        })
    }
}

impl From<&Ballot> for pb::VoteRequest {
    fn from(ballot: &Ballot) -> Self {
        Self {
            header: Some((&ballot.header).into()),
            vote: Some((&ballot.vote).into()),
            last: id(ballot.last.as_ref()),
            transfer: ballot.transfer,
        }
    }
}

impl TryFrom<pb::VoteRequest> for Ballot {
    type Error = WireError;

    fn try_from(request: pb::VoteRequest) -> Result<Self, WireError> {
        Ok(Self {
            header: read::required(request.header, "header")?,
            vote: read::required(request.vote, "vote")?,
            last: read::optional(request.last, "last")?,
            transfer: request.transfer,
        })
    }
}

impl From<&BallotAnswer> for pb::VoteResponse {
    fn from(answer: &BallotAnswer) -> Self {
        Self {
            vote: Some((&answer.vote).into()),
            granted: answer.granted,
            last: id(answer.last.as_ref()),
        }
    }
}

impl TryFrom<pb::VoteResponse> for BallotAnswer {
    type Error = WireError;

    fn try_from(response: pb::VoteResponse) -> Result<Self, WireError> {
        Ok(Self {
            vote: read::required(response.vote, "vote")?,
            granted: response.granted,
            last: read::optional(response.last, "last")?,
        })
    }
}

impl From<&SnapshotOffer> for pb::SnapshotOffer {
    fn from(offer: &SnapshotOffer) -> Self {
        Self {
            header: Some((&offer.header).into()),
            vote: Some((&offer.vote).into()),
            meta: Some((&offer.meta).into()),
            bytes: offer.bytes,
            hash: offer.hash,
        }
    }
}

impl TryFrom<pb::SnapshotOffer> for SnapshotOffer {
    type Error = WireError;

    fn try_from(offer: pb::SnapshotOffer) -> Result<Self, WireError> {
        let length = usize::try_from(offer.bytes).unwrap_or(usize::MAX);
        read::at_most(length, "bytes", SNAPSHOT_BYTES_MAX)?;
        Ok(Self {
            header: read::required(offer.header, "header")?,
            vote: read::required(offer.vote, "vote")?,
            meta: read::required(offer.meta, "meta")?,
            bytes: offer.bytes,
            hash: offer.hash,
        })
    }
}

impl From<&SnapshotChunk> for pb::SnapshotChunk {
    fn from(chunk: &SnapshotChunk) -> Self {
        Self {
            header: Some((&chunk.header).into()),
            vote: Some((&chunk.vote).into()),
            hash: chunk.hash,
            offset: chunk.offset,
            data: chunk.data.clone(),
        }
    }
}

impl TryFrom<pb::SnapshotChunk> for SnapshotChunk {
    type Error = WireError;

    fn try_from(chunk: pb::SnapshotChunk) -> Result<Self, WireError> {
        read::at_most(chunk.data.len(), "data", CHUNK_BYTES_MAX)?;
        Ok(Self {
            header: read::required(chunk.header, "header")?,
            vote: read::required(chunk.vote, "vote")?,
            hash: chunk.hash,
            offset: chunk.offset,
            data: chunk.data,
        })
    }
}

impl From<&SnapshotProgress> for pb::SnapshotProgress {
    fn from(progress: &SnapshotProgress) -> Self {
        Self {
            vote: Some((&progress.vote).into()),
            offset: progress.offset,
            installed: progress.installed,
        }
    }
}

impl TryFrom<pb::SnapshotProgress> for SnapshotProgress {
    type Error = WireError;

    fn try_from(progress: pb::SnapshotProgress) -> Result<Self, WireError> {
        Ok(Self {
            vote: read::required(progress.vote, "vote")?,
            offset: progress.offset,
            installed: progress.installed,
        })
    }
}

impl From<&Transfer> for pb::TransferRequest {
    fn from(transfer: &Transfer) -> Self {
        Self {
            header: Some((&transfer.header).into()),
            vote: Some((&transfer.vote).into()),
            heir: transfer.heir,
            last: id(transfer.last.as_ref()),
        }
    }
}

impl TryFrom<pb::TransferRequest> for Transfer {
    type Error = WireError;

    fn try_from(request: pb::TransferRequest) -> Result<Self, WireError> {
        Ok(Self {
            header: read::required(request.header, "header")?,
            vote: read::required(request.vote, "vote")?,
            heir: request.heir,
            last: read::optional(request.last, "last")?,
        })
    }
}

impl From<&TransferOutcome> for pb::TransferResponse {
    fn from(outcome: &TransferOutcome) -> Self {
        use pb::transfer_response::Outcome;
        let outcome = match outcome {
            TransferOutcome::Accepted => Outcome::Accepted(pb::Done {}),
            TransferOutcome::Higher(vote) => Outcome::Higher(vote.into()),
            TransferOutcome::Behind(upto) => Outcome::Behind(partial(upto.as_ref())),
        };
        Self {
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<pb::TransferResponse> for TransferOutcome {
    type Error = WireError;

    fn try_from(response: pb::TransferResponse) -> Result<Self, WireError> {
        use pb::transfer_response::Outcome;
        Ok(match response.outcome.ok_or_else(no_outcome)? {
            Outcome::Accepted(pb::Done {}) => Self::Accepted,
            Outcome::Higher(vote) => Self::Higher(vote.into()),
            Outcome::Behind(partial) => Self::Behind(reached(partial, "behind")?),
        })
    }
}
