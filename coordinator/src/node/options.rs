//! What an actor is made with.

use super::founding::Founding;
use crate::clock::SharedClock;
use crate::gossip::Connector;
use aliquot_core::leader::Pace;
use aliquot_core::unit::{NodeId, Span};
use std::fmt;

/// What an actor is made with.
#[derive(Clone)]
pub struct Options {
    /// The cluster.
    pub cluster: String,
    /// The node, as the log's consensus knows it.
    pub node: NodeId,
    /// How peers are reached.
    pub connect: Connector,
    /// The clocks of its host.
    pub clock: SharedClock,
    /// What request ids are drawn from, different for every start of a node.
    pub seed: u64,
    /// How often the node reports to the leader when nothing is urgent.
    pub report_every: Span,
    /// How often clients are told to report.
    pub client_report_every: Span,
    /// How a leader paces its rounds.
    pub pace: Pace,
    /// What the first leader of a new cluster begins with.
    pub founding: Founding,
    /// The most keys of one session.
    pub session_keys: usize,
    /// Where clients reach this node, as other nodes may tell them.
    pub address: String,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("cluster", &self.cluster)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
