//! The replicated log on real sockets: nodes form a cluster, lose a leader, change members, and fall
//! behind.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which stop where they cannot go on"
)]

#[path = "raft/bootstrap.rs"]
mod bootstrap;
#[path = "raft/cluster.rs"]
mod cluster;
#[path = "raft/leading.rs"]
mod leading;
#[path = "raft/members.rs"]
mod members;
