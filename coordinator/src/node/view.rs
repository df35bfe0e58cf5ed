//! Read access to the actor's state for the API.

use super::counts::Counts;
use super::longest_turn::TurnTime;
use super::round_trips::RoundTrips;
use super::traffic::Traffic;
use crate::gossip::Book;
use crate::raft::Status;
use crate::session::Registry;
use aliquot_core::leader::Leader;
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::Tick;

/// The state of this node at one instant. Nothing changes while it is read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The instant, by this node's clock.
    pub now: Tick,
    /// The replica of the state, up to the last applied entry.
    pub state: &'a State,
    /// The leader's state machine. It is active only on the leading node.
    pub leader: &'a Leader,
    /// The node's own state machine, once it has joined.
    pub node: Option<&'a Node>,
    /// The sessions of clients.
    pub sessions: &'a Registry,
    /// The latest gossip records of every node.
    pub book: &'a Book,
    /// Number of peers to which a gossip stream is open.
    pub links_up: usize,
    /// The round trips to peers.
    pub round_trips: &'a RoundTrips,
    /// Counters of this node since it started.
    pub counts: &'a Counts,
    /// Recent rates of admitted and denied requests.
    pub traffic: &'a Traffic,
    /// The status of this node in Raft.
    pub status: &'a Status,
    /// Longest turn of the actor's loop within the last one to two minutes.
    pub longest_turn: TurnTime,
    /// Number of keys whose budgets were requested and do not exist yet.
    pub keys_waiting: usize,
    /// True while this node hands everything back and takes no clients.
    pub leaving: bool,
}
