//! Options of an actor.

use crate::clock::SharedClock;
use crate::gossip::Connector;
use aliquot_core::budget::Budget;
use aliquot_core::central::{DecisionReply, DecisionRequest};
use aliquot_core::leader::Pace;
use aliquot_core::unit::{Drift, NodeId, Span};
use std::fmt;
use std::sync::Arc;

/// Called with each decision that a node makes in central mode, when it is made.
pub type DecisionObserver = Arc<dyn Fn(&DecisionRequest, &DecisionReply) + Send + Sync>;

/// Options of an actor.
#[derive(Clone)]
pub struct Options {
    /// Name of the cluster.
    pub cluster: String,
    /// Id of this node in Raft.
    pub node: NodeId,
    /// Opens connections to peers.
    pub connect: Connector,
    /// The clocks of this host.
    pub clock: SharedClock,
    /// Seed for request ids, different for every start of a node.
    pub seed: u64,
    /// Interval at which clients must report.
    pub client_report_every: Span,
    /// The slowest round trip to a peer for which the lease and elections were set.
    pub round_trip: Span,
    /// Pacing of a leader's rounds.
    pub pace: Pace,
    /// Initial contents of a new cluster, proposed by its first leader.
    pub initial_contents: InitialContents,
    /// Maximum number of keys of one session.
    pub session_keys: usize,
    /// Address at which clients reach this node. Other nodes send it to their clients.
    pub address: String,
    /// Observes decisions in central mode, for a simulator that judges them.
    pub on_decision: Option<DecisionObserver>,
}

/// Initial contents of a new cluster, proposed by its first leader.
#[derive(Clone, Debug, Default)]
pub struct InitialContents {
    /// Maximum drift of any clock.
    pub drift: Drift,
    /// Length of the lease of nodes.
    pub lease: Span,
    /// The first budgets.
    pub budgets: Vec<Budget>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("cluster", &self.cluster)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/options.rs"]
pub(super) mod tests;
