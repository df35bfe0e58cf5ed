//! How nodes tell each other what every one of them said.
//!
//! | module | what it is |
//! |---|---|
//! | [`book`] | the records and what each peer knows of them; no clock, no I/O |
//! | [`link`] | the task that keeps a stream to one peer |
//!
//! The node actor owns the [`Book`] and one [`Link`] per peer. It publishes what
//! the node says, calls [`Book::tick`] for each peer every [`ROUND`], hands what
//! arrives as an [`Event`] to the book, and sends what [`Book::poll`] gives as
//! long as the link has room.
//!
//! Every node opens one stream to every peer and only speaks on it; what the
//! peer says comes in on the stream that the peer opened. So a link that works
//! one way carries that way.

pub mod book;
pub mod link;
mod peer;

pub use book::{Book, NotKept};
pub use link::{Connector, Link, LinkSettings};

use aliquot_core::unit::{NodeId, Span};
use aliquot_wire::gossip::GossipMessage;

/// How often a round begins with each peer. A record that went astray reaches
/// its reader two rounds and two messages later, which must be a small part of
/// a node's lease.
pub const ROUND: Span = Span::from_millis(200);

/// The metadata that names the cluster of whoever calls.
pub const CLUSTER_METADATA: &str = "aliquot-cluster";

/// The metadata that names the node that calls, as a decimal number.
pub const NODE_METADATA: &str = "aliquot-node";

/// The metadata that names the node that is meant, as a decimal number: an
/// address may have passed to another.
pub const TARGET_METADATA: &str = "aliquot-target";

/// What links and the peers' streams tell the actor.
#[derive(Debug)]
pub enum Event {
    /// Our stream to this peer is open: [`Book::join`].
    Up {
        /// The peer.
        peer: NodeId,
    },
    /// Our stream to this peer has ended; the link tries again by itself, and the
    /// book needs not be told.
    Down {
        /// The peer.
        peer: NodeId,
        /// What the transport said.
        reason: String,
    },
    /// The peer opened its stream, so it is there: [`Link::retry`].
    Called {
        /// The peer.
        peer: NodeId,
    },
    /// The peer spoke, on the stream that it opened: [`Book::handle`].
    Message {
        /// The peer.
        peer: NodeId,
        /// What it said.
        message: GossipMessage,
    },
}
