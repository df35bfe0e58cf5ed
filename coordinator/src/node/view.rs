//! What a face may look at.

use super::counts::Counts;
use super::traffic::Traffic;
use crate::gossip::Book;
use crate::raft::Status;
use crate::session::Registry;
use aliquot_core::leader::Leader;
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::{Span, Tick};

/// This node at one instant: nothing moves while it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The instant, on this node's clock.
    pub now: Tick,
    /// The replica of the state, as far as it was applied.
    pub state: &'a State,
    /// The leader's machine; in office on the leading node alone.
    pub leader: &'a Leader,
    /// The node's own machine, once it has joined.
    pub node: Option<&'a Node>,
    /// The clients' sessions.
    pub sessions: &'a Registry,
    /// What every node said last.
    pub book: &'a Book,
    /// What this node did since it began.
    pub counts: &'a Counts,
    /// What became of requests of late.
    pub traffic: &'a Traffic,
    /// How this node stands in the log's consensus.
    pub status: &'a Status,
    /// Longest time for which the loop was held of late.
    pub held: Span,
    /// Number of keys whose budgets were asked for and are not there yet.
    pub keys_waiting: usize,
    /// Whether it hands everything back and takes no clients.
    pub leaving: bool,
}
