//! Connections of nodes and clients to a node: gossip, sessions, and their balancing.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which stop where they cannot go on"
)]

mod book;
mod link;
mod mesh;
mod metrics;
mod outbox;
mod port;
mod rebalance;
mod registry;
mod server;
mod session;
