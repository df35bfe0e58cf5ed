//! Envoy face: the rate limit quota service, version 3, which divides a limit between the Envoys that share it.
//!
//! An Envoy opens one stream and decides each request by itself, from a token bucket that was assigned to it. A stream
//! is a client: each pair of a stream and a bucket is a *part* of the bucket's budget. This process takes tokens of the
//! budget from its decider and lends them on:
//!
//! ```text
//!   budget ──take──▶ pool of a key ──fills──▶ part of stream 1   wants 300/s, reported every few seconds
//!                     credit ≥ 0   ──fills──▶ part of stream 2   wants 20/s
//! ```
//!
//! **The debt comes first.** [`pool`] takes tokens before any Envoy can use them: all of a new bucket, since it starts
//! full; what a larger bucket holds more, since it keeps its fill ratio; and each second's fills a second ahead. Taken
//! tokens stay taken, used or not. So all Envoys together admit at most what their processes took, and
//! `(1 + ρ) · R · Δt + B` bounds that. In any window, Envoys may also use what was taken before it: the buckets and the
//! second ahead, 2.4 s of the rate at most where buckets are filled each second.
//!
//! **What no process can take back** is the rest: an Envoy keeps an assignment for its time to live, 15 s, whether or
//! not the process that made it can still take tokens. A process that loses its lease denies within about two
//! seconds to all that it reaches. The parts of a stream that ended are paid for until they expire.
//!
//! [`divide`] shares a rate by demand in whole tokens per whole seconds, [`pool`] keeps the account of one key, [`book`]
//! the streams, buckets and pools of a process. These are pure: time is an argument. [`service`] is the shell around
//! them, with the clock and the streams.

pub mod book;
pub mod bucket;
pub mod divide;
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated services spell paths out and silence lints in their own way"
)]
pub mod pb;
pub mod pool;
pub mod service;

pub use service::Rlqs;
