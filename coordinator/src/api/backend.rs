//! The interface of the node, as its services use it.
//!
//! The node is one task that owns all of its state. A service reads a consistent view of it, or asks it
//! for a write. It never holds any of its state.

use aliquot_core::budget::Labels;
use aliquot_core::command::Command;
use aliquot_core::edge::Vector;
use aliquot_core::state::{Effect, Phase, State};
use aliquot_core::unit::{BudgetId, Incarnation, NodeId, RequestId, Span, Term, Tick};
use aliquot_wire::admin::{ClusterChange, Role};
use futures_util::future::BoxFuture;
use std::fmt;
use tokio::sync::oneshot;
use tonic::transport::Channel;

/// The node behind the services.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Runs `query` over a consistent view of this node, between two of its steps. It must be short,
    /// because the node does nothing else meanwhile. If the node is shutting down, `query` is dropped
    /// and [`Unavailable`] is returned.
    fn query(&self, query: Query) -> BoxFuture<'static, Result<(), Unavailable>>;

    /// Proposes a command through the leader, whichever node that is. Returns the effects of the
    /// command once this node has applied it.
    ///
    /// Dropping the future does not cancel the command.
    fn write(&self, command: Command) -> BoxFuture<'static, Result<Vec<Effect>, WriteError>>;

    /// Makes later reads linearizable: waits until this node has applied all entries that were
    /// committed when this was called.
    fn fence(&self) -> BoxFuture<'static, Result<(), WriteError>>;

    /// Returns a connection to the leader's service for operators, if another node leads.
    fn leader(&self) -> Option<Channel>;

    /// Changes the members of the cluster, or its leader. Returns once the change is made. If it is
    /// repeated with the same request id, or is made already, it changes nothing and returns the same
    /// result.
    fn change(
        &self,
        request: RequestId,
        change: ClusterChange,
    ) -> BoxFuture<'static, Result<(), WriteError>>;
}

/// A closure to run over a view.
pub type Query = Box<dyn FnOnce(&View<'_>) + Send>;

/// Runs a closure over a view, and returns its result.
///
/// # Errors
///
/// [`Unavailable`] if the node is shutting down.
pub async fn query<T: Send + 'static>(
    backend: &dyn Backend,
    query: impl FnOnce(&View<'_>) -> T + Send + 'static,
) -> Result<T, Unavailable> {
    let (reply, result) = oneshot::channel();
    let query = move |view: &View<'_>| drop(reply.send(query(view)));
    backend.query(Box::new(query)).await?;
    result.await.map_err(|_| Unavailable)
}

/// A node between two of its steps.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The replica of the state, up to the last entry that this node has applied.
    pub state: &'a State,
    /// The instant of the view, by this node's clock.
    pub now: Tick,
    /// Id of this node.
    pub node: NodeId,
    /// True if this node was removed from the cluster.
    pub removed: bool,
    /// The wall clock of this node, in milliseconds since the Unix epoch.
    pub wall_ms: i64,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// The term, as far as this node knows.
    pub term: Term,
    /// The node that leads, if it is known.
    pub leader: Option<NodeId>,
    /// Facts about each node: members, and nodes that only the log still has.
    pub nodes: &'a [NodeFacts],
    /// Traffic of budgets.
    pub flows: &'a dyn Flows,
    /// Client sessions of this node.
    pub clients: &'a dyn Clients,
}

impl View<'_> {
    /// Returns the incarnation that receives the full burst of new budgets: that of the leader, which distributes it
    /// at once, or of another node while the leader has not joined. `None` if no node has.
    #[must_use]
    pub fn creator(&self) -> Option<Incarnation> {
        creator(self.state, self.leader)
    }
}

fn creator(state: &State, leader: Option<NodeId>) -> Option<Incarnation> {
    let live = state
        .members()
        .filter(|(_, member)| member.phase == Phase::Live && member.silence.is_none());
    let of_leader = live.map(|(id, member)| (Some(member.node) == leader, id));
    of_leader.max().map(|(_, id)| id)
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("node", &self.node)
            .field("term", &self.term)
            .field("applied", &self.state.applied())
            .finish_non_exhaustive()
    }
}

/// Facts about a node, as another node knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node.
    pub node: NodeId,
    /// Role of the node.
    pub role: Role,
    /// Address at which other nodes reach it.
    pub address: String,
    /// Address at which clients reach it. Empty if it is not known.
    pub client_address: String,
    /// Time at which this node last heard from it, if ever.
    pub heard: Option<Tick>,
    /// Number of client sessions that it has, as far as is known.
    pub sessions: u64,
    /// Index of the last entry that it is known to have. Only a leader knows it.
    pub matched: Option<u64>,
}

/// Traffic of budgets.
pub trait Flows {
    /// Returns the traffic of a budget at all nodes together.
    fn of(&self, budget: BudgetId) -> Flow;
}

/// Traffic of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Demand of all callers, in the units of demand curves. For a rate, these are grains per second.
    pub demand: u64,
    /// Recently admitted thousandths of a token or permit per second. `None` if they are not known.
    pub admitted_milli: Option<u64>,
    /// Denied, in the same unit.
    pub denied_milli: Option<u64>,
}

/// Client sessions of a node.
pub trait Clients {
    /// Returns the sessions after `after`, ordered by their ids, at most `most` of them. If a budget is
    /// given, only sessions that hold a part of it are returned.
    fn page(&self, after: u64, most: usize, holding: Option<BudgetId>) -> Vec<ClientFacts>;
}

/// Facts about a client session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFacts {
    /// Id on this node. It is never 0, and never used again.
    pub session: u64,
    /// Address that the client connects from.
    pub address: String,
    /// Labels that the client gave itself.
    pub labels: Labels,
    /// Number of keys that it uses.
    pub keys: u64,
    /// Time at which it was opened.
    pub opened: Tick,
    /// Time of its last report.
    pub heard: Tick,
    /// Its holding of the given budget.
    pub held: Option<Vector>,
}

impl ClientFacts {
    /// Returns the times since the session was opened, and since its last report.
    pub(crate) fn ages(&self, now: Tick) -> (Span, Span) {
        (now.since(self.opened), now.since(self.heard))
    }
}

/// The node is shutting down. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node is shutting down; ask another")]
pub struct Unavailable;

/// Beginning of all messages of a node that was removed.
pub const REMOVED: &str = "this node was removed from the cluster";

/// Error of a write, a fence or a change: it was not made, or its fate is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// This node can reach no leader. Nothing was changed.
    #[error(
        "no leader can be reached ({reason}); nothing was changed; try again, or ask another node"
    )]
    NoLeader {
        /// Description of the attempt.
        reason: String,
    },
    /// The request was sent, and the answer was lost. It may be carried out or not.
    #[error(
        "the answer was lost ({reason}); send the request again with the same request id to learn its outcome"
    )]
    Unknown {
        /// Description of the error.
        reason: String,
    },
    /// This node was removed from the cluster. Nothing was changed.
    #[error(
        "{REMOVED}: it makes no changes, and its information may be out of date; ask another node"
    )]
    Removed,
    /// The cluster refuses the request in its present state. Nothing was changed.
    #[error("{reason}; nothing was changed")]
    Refused {
        /// The reason, and how to proceed.
        reason: String,
    },
}

#[cfg(test)]
#[path = "../../tests/unit/api/backend.rs"]
mod tests;
