//! Gossip: every node spreads its records, such as reports and answers, to all others.
//!
//! | module | contents |
//! |---|---|
//! | [`book`] | the records, and what each peer is known to have; no clock, no I/O |
//! | [`link`] | the task that keeps a stream to one peer |
//!
//! The node actor owns the [`Book`] and one [`Link`] per peer. It publishes this node's records, calls
//! [`Book::tick`] for each peer every [`ROUND`], and passes each received [`Event`] to the book. It
//! sends what [`Book::poll`] returns for as long as the link has room.
//!
//! Every node opens one stream to every peer and sends only on that one. It receives a peer's messages
//! on the stream that the peer opened. A connection that works in one direction only therefore still
//! carries messages in that direction.

pub mod book;
pub mod link;
mod peer;

pub use book::{Book, NotKept};
pub use link::{Connector, Link, LinkSettings};

use aliquot_core::unit::{NodeId, Span};
use aliquot_wire::gossip::GossipMessage;

/// Interval of rounds with each peer. A lost record reaches its reader two rounds and two messages
/// later, which must be a small part of a node's lease.
pub const ROUND: Span = Span::from_millis(200);

/// Metadata key for the cluster of the calling node.
pub const CLUSTER_METADATA: &str = "aliquot-cluster";

/// Metadata key for the id of the calling node, as a decimal number.
pub const NODE_METADATA: &str = "aliquot-node";

/// Metadata key for the id of the node that is called, as a decimal number. Another node may have taken
/// over the address.
pub const TARGET_METADATA: &str = "aliquot-target";

/// Events of links and of the peers' streams, for the actor.
#[derive(Debug)]
pub enum Event {
    /// The stream to this peer is open. Call [`Book::join`].
    Up {
        /// The peer.
        peer: NodeId,
    },
    /// The stream to this peer has ended. The link reconnects by itself, and the book does not change.
    Down {
        /// The peer.
        peer: NodeId,
        /// Description of the error.
        reason: String,
    },
    /// The peer has opened its stream, so it can be reached. Call [`Link::retry`].
    Called {
        /// The peer.
        peer: NodeId,
    },
    /// A message to the peer was answered.
    RoundTrip {
        /// The peer.
        peer: NodeId,
        /// Time from the message to its answer.
        took: Span,
    },
    /// A message arrived on the stream that the peer opened. Call [`Book::handle`].
    Message {
        /// The peer.
        peer: NodeId,
        /// The message.
        message: GossipMessage,
    },
}
