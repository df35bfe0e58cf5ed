//! Protobuf messages of Aliquot and their total conversions to and from the
//! core's types.
//!
//! Any bytes give a value or a [`WireError`] that names the field, what stood
//! there and what may; none panics. [`Wire`] says which values travel and as
//! what; [`Sealed`] keeps the bytes beside the value, for whoever stores or
//! relays what a newer version may have written.
//!
//! | module | what travels |
//! |---|---|
//! | [`pb`] | the messages, generated from `proto/aliquot/v1` |
//! | [`session`] | how a session begins, and what its stream carries |
//! | [`central`] | questions about budgets that are too small to divide |
//! | [`gossip`] | reports and answers that any node relays |
//! | [`log`] | entries and snapshots in their envelopes |
//! | [`admin`] | what an operator asks, and the answers |
//! | [`raft`] | what nodes send each other to replicate the log, and what stands in it |
//! | [`peer`] | what nodes ask each other beside: who is there, to join, to have things done |
//! | [`limits`] | how much a message may hold |
//!
//! # Upgrades
//!
//! A field may be added anywhere: older readers skip it. It survives them
//! wherever one passes on what another wrote, because there it travels as bytes:
//! a gossip record is relayed by its head, and an entry of the log or a snapshot
//! is kept in its envelope. A field that would change what applying an entry
//! means must not be skipped: it raises the number in the envelope
//! ([`log::APPLY_VERSION`]), and an older replica stops there.

mod answer;
mod budget;
#[cfg(feature = "services")]
mod buffers;
mod codec;
mod common;
mod error;
mod line;
mod read;
mod report;
mod sealed;
mod snapshot;

pub mod admin;
pub mod central;
pub mod gossip;
pub mod limits;
pub mod log;
#[cfg_attr(
    feature = "services",
    expect(
        unused_qualifications,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated services spell paths out and silence lints in their own way"
    )
)]
#[expect(
    clippy::large_enum_variant,
    reason = "generated messages are as the schema has them"
)]
pub mod pb;
pub mod peer;
pub mod raft;
pub mod session;

pub use codec::Wire;
pub use error::WireError;
pub use sealed::Sealed;

/// The schema of what clients and operators ask, as an encoded `FileDescriptorSet`, for gRPC
/// reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
