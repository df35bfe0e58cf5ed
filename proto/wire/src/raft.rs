//! The format of a node's log, and the messages by which nodes
//! replicate it.
//!
//! The formats, on the wire and on the disk, do not depend on the library that runs the
//! protocol. Indices are counted from 1; 0 means none.

mod calls;

pub use calls::{
    Append, AppendAnswer, AppendOutcome, Ballot, BallotAnswer, SnapshotChunk, SnapshotOffer,
    SnapshotProgress, Transfer, TransferOutcome,
};

use crate::codec::wire;
use crate::error::WireError;
use crate::limits::{
    ADDRESS_BYTES_MAX, CLUSTER_BYTES_MAX, ENTRY_BYTES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX,
    RAFT_ENTRY_BYTES_MAX,
};
use crate::pb;
use crate::read;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// A vote, given or won.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The term.
    pub term: u64,
    /// The node that it is given to.
    pub node: u64,
    /// True if a quorum gave it, so that the node leads the term.
    pub won: bool,
}

/// A position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId {
    /// The term of the leader that wrote the entry.
    pub term: u64,
    /// The index; at least 1.
    pub index: u64,
}

/// One entry of the log, as it is stored and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its position.
    pub id: LogId,
    /// Its content.
    pub payload: Payload,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Empty: the entry begins a term.
    Blank,
    /// A command of the state machine, opaque here. At most [`ENTRY_BYTES_MAX`].
    Command(Bytes),
    /// The members from this entry on.
    Membership(Membership),
}

/// The members of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The sets of voters: one, or two during a change. A quorum of each must agree.
    pub configs: Vec<BTreeSet<u64>>,
    /// Every member with its address; a member in no set is a learner.
    pub members: BTreeMap<u64, String>,
}

/// The metadata of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The last entry that it contains.
    pub last: Option<LogId>,
    /// The entry that set the members.
    pub membership_id: Option<LogId>,
    /// The members.
    pub membership: Membership,
}

/// Sender and receiver of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The cluster.
    pub cluster: String,
    /// The node that the call is for.
    pub target: u64,
    /// The calling node.
    pub sender: u64,
}

wire!(Vote, RaftVote, 64);
wire!(LogId, RaftLogId, 64);
wire!(Entry, RaftEntry, RAFT_ENTRY_BYTES_MAX);
wire!(SnapshotMeta, RaftSnapshotMeta, MESSAGE_BYTES_MAX);

impl From<&Vote> for pb::RaftVote {
    fn from(vote: &Vote) -> Self {
        Self {
            term: vote.term,
            node: vote.node,
            won: vote.won,
        }
    }
}

impl From<pb::RaftVote> for Vote {
    fn from(vote: pb::RaftVote) -> Self {
        Self {
            term: vote.term,
            node: vote.node,
            won: vote.won,
        }
    }
}

impl From<&LogId> for pb::RaftLogId {
    fn from(id: &LogId) -> Self {
        Self {
            term: id.term,
            index: id.index,
        }
    }
}

impl TryFrom<pb::RaftLogId> for LogId {
    type Error = WireError;

    fn try_from(id: pb::RaftLogId) -> Result<Self, WireError> {
        if id.index == 0 {
            return Err(WireError::field("index", 0, "at least 1"));
        }
        Ok(Self {
            term: id.term,
            index: id.index,
        })
    }
}

impl From<&Entry> for pb::RaftEntry {
    fn from(entry: &Entry) -> Self {
        use pb::raft_entry::Payload as Said;
        let payload = match &entry.payload {
            Payload::Blank => None,
            Payload::Command(command) => Some(Said::Command(command.clone())),
            Payload::Membership(membership) => Some(Said::Membership(membership.into())),
        };
        Self {
            id: Some((&entry.id).into()),
            payload,
        }
    }
}

impl TryFrom<pb::RaftEntry> for Entry {
    type Error = WireError;

    fn try_from(entry: pb::RaftEntry) -> Result<Self, WireError> {
        use pb::raft_entry::Payload as Said;
        let payload = match entry.payload {
            None => Payload::Blank,
            Some(Said::Command(command)) => {
                read::at_most(command.len(), "command", ENTRY_BYTES_MAX)?;
                Payload::Command(command)
            }
            Some(Said::Membership(members)) => {
                Payload::Membership(read::required(Some(members), "membership")?)
            }
        };
        Ok(Self {
            id: read::required(entry.id, "id")?,
            payload,
        })
    }
}

impl From<&Membership> for pb::RaftMembership {
    fn from(membership: &Membership) -> Self {
        let configs = membership.configs.iter().map(|voters| pb::RaftVoters {
            nodes: voters.iter().copied().collect(),
        });
        let members = membership.members.iter();
        let members = members.map(|(node, address)| pb::RaftMember {
            node: *node,
            address: address.clone(),
        });
        Self {
            configs: configs.collect(),
            members: members.collect(),
        }
    }
}

impl TryFrom<pb::RaftMembership> for Membership {
    type Error = WireError;

    fn try_from(membership: pb::RaftMembership) -> Result<Self, WireError> {
        let (configs, members) = (membership.configs, membership.members);
        read::at_most(configs.len(), "configs", MEMBERS_MAX)?;
        read::at_most(members.len(), "members", MEMBERS_MAX)?;
        let nodes = members.iter().map(|member| member.node);
        read::rising(nodes, "members")?;
        let configs = read::each(configs, "configs", |voters| {
            read::at_most(voters.nodes.len(), "nodes", MEMBERS_MAX)?;
            read::rising(voters.nodes.iter().copied(), "nodes")?;
            Ok(voters.nodes.into_iter().collect())
        })?;
        let members = read::each(members, "members", |member| {
            let address = read::text(member.address, "address", ADDRESS_BYTES_MAX)?;
            Ok((member.node, address))
        })?;
        Ok(Self {
            configs,
            members: members.into_iter().collect(),
        })
    }
}

impl From<&SnapshotMeta> for pb::RaftSnapshotMeta {
    fn from(meta: &SnapshotMeta) -> Self {
        Self {
            last: meta.last.as_ref().map(Into::into),
            membership_id: meta.membership_id.as_ref().map(Into::into),
            membership: Some((&meta.membership).into()),
        }
    }
}

impl TryFrom<pb::RaftSnapshotMeta> for SnapshotMeta {
    type Error = WireError;

    fn try_from(meta: pb::RaftSnapshotMeta) -> Result<Self, WireError> {
        Ok(Self {
            last: read::optional(meta.last, "last")?,
            membership_id: read::optional(meta.membership_id, "membership_id")?,
            membership: read::required(meta.membership, "membership")?,
        })
    }
}

impl From<&Header> for pb::RaftHeader {
    fn from(header: &Header) -> Self {
        Self {
            cluster: header.cluster.clone(),
            target: header.target,
            sender: header.sender,
        }
    }
}

impl TryFrom<pb::RaftHeader> for Header {
    type Error = WireError;

    fn try_from(header: pb::RaftHeader) -> Result<Self, WireError> {
        Ok(Self {
            cluster: read::text(header.cluster, "cluster", CLUSTER_BYTES_MAX)?,
            target: header.target,
            sender: header.sender,
        })
    }
}
