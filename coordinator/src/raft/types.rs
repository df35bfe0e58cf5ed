//! The types that openraft is instantiated with, and conversions of its values.
//!
//! openraft's types are used only inside `raft`. `aliquot_wire::raft` defines the formats on the wire
//! and on the disk. Indices count from 1 there and outside of this module, and from 0 in openraft.

use super::outcome::Outcome;
use super::runtime::HostRuntime;
use aliquot_wire::raft as wire;
use bytes::Bytes;
use openraft::impls::{BasicNode, BoxedErrorSource, InlineBatch, OneshotResponder};
use openraft::type_config::alias;
use openraft::vote::leader_id_std;
use openraft::{OptionalSend, RaftTypeConfig};
use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// The type configuration of openraft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Types;

impl RaftTypeConfig for Types {
    type D = Order;
    type R = Reply;
    type NodeId = u64;
    type Node = BasicNode;
    type Term = u64;
    // With one leader per term, a log id is just (term, index).
    type LeaderId = leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::Vote<Self::LeaderId>;
    type Payload = Payload;
    type Entry = openraft::Entry<alias::CommittedLeaderIdOf<Self>, Self::Payload>;
    type Responder<T>
        = OneshotResponder<Self, T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type AsyncRuntime = HostRuntime;
    type ErrorSource = BoxedErrorSource;
}

pub(super) type Payload = openraft::EntryPayload<Order, u64, BasicNode>;
pub(super) type Entry = alias::EntryOf<Types>;
pub(super) type LogId = alias::LogIdOf<Types>;
pub(super) type Vote = alias::VoteOf<Types>;
pub(super) type Membership = openraft::Membership<u64, BasicNode>;
pub(super) type StoredMembership = alias::StoredMembershipOf<Types>;
pub(super) type SnapshotMeta = alias::SnapshotMetaOf<Types>;
pub(super) type Snapshot = alias::SnapshotOf<Types, Bytes>;
pub(super) type Metrics = openraft::RaftMetrics<Types>;
pub(super) type MetricsReceiver = alias::WatchReceiverOf<Types, Metrics>;

/// A command to be written to the log, opaque to openraft.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Order(pub(super) Bytes);

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Outcome of a command, on its way to the caller that proposed it.
#[derive(Clone, Debug)]
pub(super) struct Reply(pub(super) Outcome);

/// Converts an index of openraft to ours.
pub(super) const fn index_out(index: u64) -> u64 {
    index.saturating_add(1)
}

/// Converts our index, which is at least 1, to that of openraft.
pub(super) const fn index_in(index: u64) -> u64 {
    index.saturating_sub(1)
}

pub(super) fn log_id_out(id: &LogId) -> wire::LogId {
    wire::LogId {
        term: id.leader_id.term,
        index: index_out(id.index),
    }
}

pub(super) fn log_id_in(id: wire::LogId) -> LogId {
    LogId::new_term_index(id.term, index_in(id.index))
}

pub(super) fn vote_out(vote: &Vote) -> wire::Vote {
    wire::Vote {
        term: vote.leader_id.term,
        node: vote.leader_id.voted_for,
        won: vote.committed,
    }
}

pub(super) fn vote_in(vote: wire::Vote) -> Vote {
    let mut read = Vote::new(vote.term, vote.node);
    read.committed = vote.won;
    read
}

pub(super) fn membership_out(membership: &Membership) -> wire::Membership {
    let members = membership.nodes();
    wire::Membership {
        configs: membership.get_joint_config().clone(),
        members: members.map(|(node, at)| (*node, at.addr.clone())).collect(),
    }
}

/// # Errors
///
/// Returns an error if a voter is not a member.
pub(super) fn membership_in(membership: wire::Membership) -> io::Result<Membership> {
    let members = membership.members.into_iter();
    let members: BTreeMap<u64, BasicNode> = members
        .map(|(node, addr)| (node, BasicNode { addr }))
        .collect();
    if membership.configs.is_empty() && members.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(membership.configs, members).map_err(damaged)
}

pub(super) fn entry_out(entry: &Entry) -> wire::Entry {
    let payload = match &entry.payload {
        Payload::Blank => wire::Payload::Blank,
        Payload::Normal(Order(bytes)) => wire::Payload::Command(bytes.clone()),
        Payload::Membership(members) => wire::Payload::Membership(membership_out(members)),
    };
    wire::Entry {
        id: log_id_out(&entry.log_id),
        payload,
    }
}

/// # Errors
///
/// The same as for [`membership_in`].
pub(super) fn entry_in(entry: wire::Entry) -> io::Result<Entry> {
    let payload = match entry.payload {
        wire::Payload::Blank => Payload::Blank,
        wire::Payload::Command(bytes) => Payload::Normal(Order(bytes)),
        wire::Payload::Membership(members) => Payload::Membership(membership_in(members)?),
    };
    Ok(Entry {
        log_id: log_id_in(entry.id),
        payload,
    })
}

pub(super) fn meta_out(meta: &SnapshotMeta) -> wire::SnapshotMeta {
    let membership = &meta.last_membership;
    wire::SnapshotMeta {
        last: meta.last_log_id.as_ref().map(log_id_out),
        membership_id: membership.log_id().as_ref().map(log_id_out),
        membership: membership_out(membership.membership()),
    }
}

/// # Errors
///
/// The same as for [`membership_in`].
pub(super) fn meta_in(meta: wire::SnapshotMeta) -> io::Result<SnapshotMeta> {
    let membership = membership_in(meta.membership)?;
    Ok(SnapshotMeta {
        last_log_id: meta.last.map(log_id_in),
        last_membership: StoredMembership::new(meta.membership_id.map(log_id_in), membership),
    })
}

/// Returns the error for stored or received data that is damaged.
pub(super) fn damaged(error: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}
