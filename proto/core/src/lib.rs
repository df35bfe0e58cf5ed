//! The pure heart of Aliquot.
//!
//! Everything that decides lives here and nothing that does: no clock, no
//! socket, no random source, no float. Time and identifiers are arguments,
//! inputs are handled, outputs are drained, and the same inputs give the same
//! outputs on every machine.
//!
//! The floors, lowest first:
//!
//! | module | what it is |
//! |---|---|
//! | [`mod@unit`] | tokens, rates, spans, ticks, weights and names, with checked arithmetic |
//! | [`share`] | a part of a budget; split, merge, spend, refund |
//! | [`bucket`] | a share that time refills: the decision itself |
//! | [`edge`] | what a parent gave and a child returned: counters that only grow |
//! | [`lease`] | durations and the drift between two clocks |
//! | [`demand`], [`allocate`] | who wants how much, and who gets it |
//! | [`budget`] | what an operator writes, parsed and validated |
//! | [`message`] | what parent and child say to each other |
//! | `window` | the lines of one direction of an edge that its other end may not know |
//! | [`central`] | questions to whoever keeps a budget that is too small to divide |
//! | [`account`] | the book of one budget at one level |
//! | [`pool`] | the part that is not dealt |
//! | [`ledger`] | the one decision maker of both levels |
//! | [`command`], [`state`] | what the log carries and what applying it means |
//! | [`leadership`] | what a leader may confirm and reclaim, and when |
//! | [`holder`] | the child's side of an edge |
//! | [`leader`] | the parent of the nodes: leadership, a ledger, and the term's pool |
//! | [`node`] | a coordinator node: a holder above, a ledger below |
//! | [`asking`] | the client's side of central answers |
//! | [`roaming`] | the client's side of changing nodes: which one it has and tries, and when it goes over |
//! | [`client`] | a service's side: a holder with allotments that decide |
//! | [`check`] | the invariants as functions |
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::float_arithmetic,
        clippy::indexing_slicing
    )
)]

extern crate alloc;
#[cfg(any(test, feature = "planted"))]
extern crate std;

pub mod planted;
pub mod unit;

pub mod share;

pub mod bucket;
pub mod edge;
pub mod lease;

pub mod allocate;
pub mod budget;
pub mod demand;

pub mod central;
pub mod message;
mod window;

pub mod account;
pub mod command;
pub mod pool;

pub mod holder;
pub mod leadership;
pub mod ledger;
pub mod state;

pub mod asking;
pub mod client;
pub mod leader;
pub mod node;
pub mod roaming;

pub mod check;
