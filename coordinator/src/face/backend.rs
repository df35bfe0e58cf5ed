//! What the faces ask of the node behind them.
//!
//! The node is one task that owns everything. A face looks at a consistent
//! view of it, or asks it for a write; it never holds any of its state.

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

/// The node behind the faces.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Runs `look` over a consistent view of this node, between two of its
    /// steps. It must be short: the node does nothing else meanwhile. If the
    /// node is shutting down, `look` is dropped and [`Unavailable`] is answered.
    fn look(&self, look: Look) -> BoxFuture<'static, Result<(), Unavailable>>;

    /// Proposes a command through the leader, wherever that is, and answers
    /// with what applying it did, once this node has applied it.
    ///
    /// Dropping the future withdraws nothing.
    fn write(&self, command: Command) -> BoxFuture<'static, Result<Vec<Effect>, WriteError>>;

    /// Makes what is looked at afterwards linearizable: waits until this node
    /// has applied everything that was committed when this was called (a
    /// ReadIndex through the leader).
    fn fence(&self) -> BoxFuture<'static, Result<(), WriteError>>;

    /// Where the leader answers operators for this node, if another node leads.
    fn leader(&self) -> Option<Channel>;

    /// Changes who is in the cluster, or who leads it; done when it holds. Said
    /// again with the same request, or of a state that is there already, it
    /// changes nothing and answers the same.
    fn change(
        &self,
        request: RequestId,
        change: ClusterChange,
    ) -> BoxFuture<'static, Result<(), WriteError>>;
}

/// What is run over a view.
pub type Look = Box<dyn FnOnce(&View<'_>) + Send>;

/// Looks, and brings back what was seen.
///
/// # Errors
///
/// [`Unavailable`] if the node is shutting down.
pub async fn look<T: Send + 'static>(
    backend: &dyn Backend,
    look: impl FnOnce(&View<'_>) -> T + Send + 'static,
) -> Result<T, Unavailable> {
    let (seen, sight) = oneshot::channel();
    let look = move |view: &View<'_>| drop(seen.send(look(view)));
    backend.look(Box::new(look)).await?;
    sight.await.map_err(|_| Unavailable)
}

/// A node between two of its steps.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The replica of the state, as far as this node has applied the log.
    pub state: &'a State,
    /// The instant of the view, on this node's clock.
    pub now: Tick,
    /// This node.
    pub node: NodeId,
    /// The cluster's name.
    pub cluster: &'a str,
    /// The term, as this node knows it.
    pub term: Term,
    /// The leader's node, if one is known.
    pub leader: Option<NodeId>,
    /// What is known of each node: members, and those that only the log still knows.
    pub nodes: &'a [NodeFacts],
    /// What is known of each budget's traffic.
    pub flows: &'a dyn Flows,
    /// This node's client sessions.
    pub clients: &'a dyn Clients,
}

impl View<'_> {
    /// The life that receives the full burst of new budgets: the leader's, as
    /// it deals it out at once; nobody's if the leader has none.
    #[must_use]
    pub fn creator(&self) -> Option<Incarnation> {
        let leader = self.leader?;
        let lives = self.state.members();
        let live = lives.filter(|(_, member)| member.phase == Phase::Live);
        live.filter(|(_, member)| member.node == leader)
            .map(|(life, _)| life)
            .max()
    }
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

/// What a node knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node.
    pub node: NodeId,
    /// What it does.
    pub role: Role,
    /// Where other nodes reach it.
    pub address: String,
    /// Where clients reach it; empty if that is not known.
    pub client_address: String,
    /// When this node last heard of it, if ever.
    pub heard: Option<Tick>,
    /// How many client sessions are open there, as far as is known.
    pub sessions: u64,
    /// The last entry that it has for certain; only a leader knows.
    pub matched: Option<u64>,
}

/// What is known of budgets' traffic.
pub trait Flows {
    /// A budget's traffic, all nodes together.
    fn of(&self, budget: BudgetId) -> Flow;
}

/// A budget's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// What all callers want, in the units of demand curves: of a rate, grains per second.
    pub demand: u64,
    /// Admitted of late, in thousandths of a token or permit per second; `None` if nobody counted.
    pub admitted_milli: Option<u64>,
    /// Denied, in the same unit.
    pub denied_milli: Option<u64>,
}

/// A node's client sessions.
pub trait Clients {
    /// The sessions after `after` in the order of their names, `most` of them or all that are left;
    /// if a budget is named, those alone that hold something of it.
    fn page(&self, after: u64, most: usize, holding: Option<BudgetId>) -> Vec<ClientFacts>;
}

/// What a node knows of a client session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFacts {
    /// Its name on this node; never 0, and never used again.
    pub session: u64,
    /// Where it comes from.
    pub address: String,
    /// What it says it is.
    pub labels: Labels,
    /// How many keys it uses.
    pub keys: u64,
    /// When it was opened.
    pub opened: Tick,
    /// When it last reported.
    pub heard: Tick,
    /// What it holds of the budget that was named.
    pub held: Option<Vector>,
}

impl ClientFacts {
    /// The times since it was opened and since it was heard.
    pub(crate) fn ages(&self, now: Tick) -> (Span, Span) {
        (now.since(self.opened), now.since(self.heard))
    }
}

/// The node is shutting down. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node is shutting down; ask another")]
pub struct Unavailable;

/// A write, a fence or a change was not done, or nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// There is no leader that this node can reach. Nothing was changed.
    #[error(
        "no leader can be reached ({reason}); nothing was changed; try again, or ask another node"
    )]
    NoLeader {
        /// What was tried.
        reason: String,
    },
    /// It was sent, and the answer was lost. It may be carried out, or not.
    #[error(
        "the answer was lost ({reason}); send it again with the same request id to learn what became of it"
    )]
    Unknown {
        /// How.
        reason: String,
    },
    /// The cluster refuses it as things stand. Nothing was changed.
    #[error("{reason}; nothing was changed")]
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}
