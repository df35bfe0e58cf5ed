//! The laws of the wire: a written value is read back, other bytes are refused with
//! the field's name, and data of a newer version passes through an older one.
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
