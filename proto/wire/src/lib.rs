//! Protobuf messages of Aliquot and their total conversions to and from the
//! core's types.
//!
//! Decoding any bytes gives a value or a [`WireError`] with the field, its value
//! and the allowed values; it never panics. [`Wire`] connects a value with its
//! message. [`Sealed`] keeps the bytes beside the value, so that data of a newer
//! version can be stored or relayed unchanged.
//!
//! | module | content |
//! |---|---|
//! | [`pb`] | the messages, generated from `proto/aliquot/v1` |
//! | [`session`] | the messages of a client's session |
//! | [`central`] | requests for central decisions |
//! | [`gossip`] | reports and answers that any node relays |
//! | [`log`] | entries and snapshots in their envelopes |
//! | [`admin`] | requests of operators, and the replies |
//! | [`raft`] | the replication of the log between nodes, and the log's own format |
//! | [`peer`] | other calls between nodes: discovery, joining, changes by the leader |
//! | [`limits`] | the maximum sizes of messages |
//!
//! # Upgrades
//!
//! A field may be added anywhere: older readers skip it. It is not lost where an
//! older version relays or stores a message, because there the message stays as
//! bytes: a gossip record is relayed by its head, and a log entry or a snapshot
//! is kept in its envelope. A field that changes the meaning of applying an entry
//! must not be skipped. It raises the number in the envelope
//! ([`log::APPLY_VERSION`]), and an older replica stops at that entry.

mod answer;
mod budget;
#[cfg(feature = "services")]
mod buffers;
mod codec;
mod common;
mod error;
mod fields;
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

/// The schema of the services for clients and operators, as an encoded
/// `FileDescriptorSet`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
