//! The cluster: its nodes, their clients, and what operators change.

use super::{page_size, read_exact, read_request};
use crate::codec::wire;
use crate::common::{drift, read_labels, write_labels};
use crate::error::WireError;
use crate::limits::{ADDRESS_BYTES_MAX, LABELS_MAX, MESSAGE_BYTES_MAX, PAGE_MAX};
use crate::pb;
use crate::read::{self, choice};
use aliquot_core::budget::{Key, Labels};
use aliquot_core::share::Share;
use aliquot_core::unit::{Drift, Incarnation, NodeId, RequestId, Span, Term};

/// The state of the cluster, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub cluster: String,
    /// The answering node.
    pub answering: NodeId,
    /// The term.
    pub term: Term,
    /// The leader's node, if one is known.
    pub leader: Option<NodeId>,
    /// The index of the last entry applied.
    pub applied: u64,
    /// The drift bound.
    pub drift: Drift,
    /// The nodes' lease.
    pub lease: Span,
    /// The nodes. At most [`PAGE_MAX`].
    pub nodes: Vec<NodeView>,
    /// True if the answering node was removed from the cluster, so that the rest may be old.
    pub removed: bool,
    /// True if the calling node was removed from the cluster.
    pub caller_removed: bool,
    /// The answering node's wall clock, in milliseconds since the Unix epoch.
    pub wall_ms: i64,
}

/// The role of a node in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The leader.
    Leader,
    /// A voter.
    Voter,
    /// A learner: it follows the log without a vote.
    Learner,
    /// A node that is in the log and no longer a member.
    Removed,
}

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The node.
    pub node: NodeId,
    /// Its present incarnation; 0 if it has none.
    pub incarnation: Incarnation,
    /// Its address for other nodes. At most [`ADDRESS_BYTES_MAX`] bytes.
    pub address: String,
    /// Its address for clients; empty if unknown. At most [`ADDRESS_BYTES_MAX`] bytes.
    pub client_address: String,
    /// Its role.
    pub role: Role,
    /// True if it was removed and is leaving.
    pub leaving: bool,
    /// Time since the answering node last received a record of it, if ever.
    pub heard_ago: Option<Span>,
    /// Number of open client sessions, as far as known.
    pub sessions: u64,
    /// The last entry that it certainly has. Only the leader knows.
    pub matched: Option<u64>,
}

/// Asks for a page of a node's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListClients {
    /// Only sessions after this one; 0 for the first page.
    pub after: u64,
    /// Maximum number of sessions: 1 to [`PAGE_MAX`].
    pub limit: u32,
    /// Only sessions that hold something of this key.
    pub key: Option<Key>,
}

/// A page of a node's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// The sessions in the order of their ids. At most [`PAGE_MAX`].
    pub clients: Vec<ClientView>,
    /// True if there are more after the last.
    pub more: bool,
    /// The node.
    pub node: NodeId,
}

/// One client session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// Its id on its node.
    pub session: u64,
    /// The address it connects from. At most [`ADDRESS_BYTES_MAX`] bytes.
    pub address: String,
    /// Its labels. At most [`LABELS_MAX`].
    pub labels: Labels,
    /// Number of keys that it uses.
    pub keys: u64,
    /// Time since it was opened.
    pub open_for: Span,
    /// Time since its last report.
    pub heard_ago: Span,
    /// Its holding of the requested key, floors included.
    pub held: Option<Share>,
    /// The floor within the holding.
    pub floor: Option<Share>,
}

/// A change of the members or the leader, with the id of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeCluster {
    /// Id of the request, the same in every retry.
    pub request: RequestId,
    /// The change.
    pub change: ClusterChange,
}

/// A change of the members or the leader of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// The node at this peer address joins as a learner.
    Add(String),
    /// This node becomes a voter.
    Promote(NodeId),
    /// This node is removed.
    Remove(NodeId),
    /// One node replaces another.
    Replace {
        /// The node that is replaced; it need not run any more.
        node: NodeId,
        /// The peer address of the node that replaces it.
        address: String,
    },
    /// Leadership moves to this node.
    Transfer(NodeId),
}

choice!(
    Role,
    Role,
    "1 (leader), 2 (voter), 3 (learner) or 4 (removed)",
    Leader,
    Voter,
    Learner,
    Removed
);

wire!(
    Cluster,
    ClusterView,
    MESSAGE_BYTES_MAX,
    [(6, "nodes", PAGE_MAX)]
);
wire!(ListClients, ListClientsRequest, MESSAGE_BYTES_MAX);
wire!(
    Clients,
    ListClientsResponse,
    MESSAGE_BYTES_MAX,
    [(1, "clients", PAGE_MAX)]
);
wire!(ChangeCluster, ChangeClusterRequest, MESSAGE_BYTES_MAX);

impl From<&Cluster> for pb::ClusterView {
    fn from(cluster: &Cluster) -> Self {
        let nodes = cluster.nodes.iter().map(|view| pb::NodeView {
            node: view.node.get(),
            life: view.incarnation.get(),
            address: view.address.clone(),
            leaving: view.leaving,
            heard_ns_ago: view.heard_ago.map(Span::nanos),
            sessions: view.sessions,
            role: pb::Role::from(view.role).into(),
            client_address: view.client_address.clone(),
            matched: view.matched,
        });
        Self {
            term: cluster.term.get(),
            leader: cluster.leader.map(NodeId::get),
            applied: cluster.applied,
            drift_ppm: cluster.drift.ppm(),
            lease_ns: cluster.lease.nanos(),
            nodes: nodes.collect(),
            cluster: cluster.cluster.clone(),
            answering: cluster.answering.get(),
            removed: cluster.removed,
            caller_removed: cluster.caller_removed,
            wall_ms: cluster.wall_ms,
        }
    }
}

impl TryFrom<pb::ClusterView> for Cluster {
    type Error = WireError;

    fn try_from(cluster: pb::ClusterView) -> Result<Self, WireError> {
        Ok(Self {
            cluster: read::text(cluster.cluster, "cluster", ADDRESS_BYTES_MAX)?,
            answering: NodeId::new(cluster.answering),
            term: Term::new(cluster.term),
            leader: cluster.leader.map(NodeId::new),
            applied: cluster.applied,
            drift: drift(cluster.drift_ppm)?,
            lease: Span::from_nanos(cluster.lease_ns),
            nodes: read::list(cluster.nodes, "nodes", PAGE_MAX)?,
            removed: cluster.removed,
            caller_removed: cluster.caller_removed,
            wall_ms: cluster.wall_ms,
        })
    }
}

impl TryFrom<pb::NodeView> for NodeView {
    type Error = WireError;

    fn try_from(view: pb::NodeView) -> Result<Self, WireError> {
        Ok(Self {
            node: NodeId::new(view.node),
            incarnation: Incarnation::new(view.life),
            address: read::text(view.address, "address", ADDRESS_BYTES_MAX)?,
            client_address: read::text(view.client_address, "client_address", ADDRESS_BYTES_MAX)?,
            role: read::chosen(view.role, "role")?,
            leaving: view.leaving,
            heard_ago: view.heard_ns_ago.map(Span::from_nanos),
            sessions: view.sessions,
            matched: view.matched,
        })
    }
}

impl From<&ListClients> for pb::ListClientsRequest {
    fn from(list: &ListClients) -> Self {
        Self {
            after: list.after,
            limit: list.limit,
            key: list.key.as_ref().map(ToString::to_string),
        }
    }
}

impl TryFrom<pb::ListClientsRequest> for ListClients {
    type Error = WireError;

    fn try_from(list: pb::ListClientsRequest) -> Result<Self, WireError> {
        Ok(Self {
            after: list.after,
            limit: page_size(list.limit)?,
            key: list.key.map(read_exact).transpose()?,
        })
    }
}

impl From<&Clients> for pb::ListClientsResponse {
    fn from(page: &Clients) -> Self {
        let clients = page.clients.iter().map(|client| pb::ClientView {
            session: client.session,
            address: client.address.clone(),
            labels: write_labels(&client.labels),
            keys: client.keys,
            open_ns: client.open_for.nanos(),
            heard_ns_ago: client.heard_ago.nanos(),
            held: client.held.as_ref().map(Into::into),
            floor: client.floor.as_ref().map(Into::into),
        });
        Self {
            clients: clients.collect(),
            more: page.more,
            node: page.node.get(),
        }
    }
}

impl TryFrom<pb::ListClientsResponse> for Clients {
    type Error = WireError;

    fn try_from(page: pb::ListClientsResponse) -> Result<Self, WireError> {
        Ok(Self {
            clients: read::list(page.clients, "clients", PAGE_MAX)?,
            more: page.more,
            node: NodeId::new(page.node),
        })
    }
}

impl TryFrom<pb::ClientView> for ClientView {
    type Error = WireError;

    fn try_from(client: pb::ClientView) -> Result<Self, WireError> {
        Ok(Self {
            session: client.session,
            address: read::text(client.address, "address", ADDRESS_BYTES_MAX)?,
            labels: read_labels(client.labels, LABELS_MAX)?,
            keys: client.keys,
            open_for: Span::from_nanos(client.open_ns),
            heard_ago: Span::from_nanos(client.heard_ns_ago),
            held: client.held.map(Into::into),
            floor: client.floor.map(Into::into),
        })
    }
}

impl From<&ChangeCluster> for pb::ChangeClusterRequest {
    fn from(change: &ChangeCluster) -> Self {
        use pb::change_cluster_request::Change;
        let kind = match &change.change {
            ClusterChange::Add(address) => Change::Add(address.clone()),
            ClusterChange::Promote(node) => Change::Promote(node.get()),
            ClusterChange::Remove(node) => Change::Remove(node.get()),
            ClusterChange::Replace { node, address } => Change::Replace(pb::Replacement {
                node: node.get(),
                address: address.clone(),
            }),
            ClusterChange::Transfer(node) => Change::Transfer(node.get()),
        };
        Self {
            request: change.request.get(),
            change: Some(kind),
        }
    }
}

impl TryFrom<pb::ChangeClusterRequest> for ChangeCluster {
    type Error = WireError;

    fn try_from(change: pb::ChangeClusterRequest) -> Result<Self, WireError> {
        use pb::change_cluster_request::Change;
        let request = read_request(change.request)?;
        let change = match change.change {
            Some(Change::Add(address)) => ClusterChange::Add(read::address(address, "add")?),
            Some(Change::Promote(node)) => ClusterChange::Promote(NodeId::new(node)),
            Some(Change::Remove(node)) => ClusterChange::Remove(NodeId::new(node)),
            Some(Change::Replace(replace)) => ClusterChange::Replace {
                node: NodeId::new(replace.node),
                address: read::address(replace.address, "replace.address")?,
            },
            Some(Change::Transfer(node)) => ClusterChange::Transfer(NodeId::new(node)),
            None => return Err(WireError::field("change", "nothing", "given")),
        };
        Ok(Self { request, change })
    }
}
