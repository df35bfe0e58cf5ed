//! The laws of the wire: what is written is read, what is no message is
//! refused by name, and what a newer version wrote survives an older one.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which stop where they cannot go on"
)]

mod bounds;
mod central;
mod envelope;
mod full;
mod golden;
mod hostile;
mod raft;
mod refused;
mod roundtrip;
mod schema;
mod strategies;
