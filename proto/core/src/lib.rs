//! The decision core of Aliquot.
//!
//! All decisions are made in this crate, and no I/O: it has no clock, no socket, no random source and no
//! floating point. Time and identifiers are arguments. Inputs are passed to methods, outputs are drained, and
//! the same inputs give the same outputs on every machine.
//!
//! Modules, lowest first:
//!
//! | module | contents |
//! |---|---|
//! | [`few`] | maps that nearly always have one entry |
//! | [`mod@unit`] | tokens, rates, spans, ticks, weights and ids, with checked arithmetic |
//! | [`share`] | a part of a budget: split, merge, spend, refund |
//! | [`bucket`] | a share that time refills, and the decision by it |
//! | [`edge`] | counters of what a parent gave and a child returned, which only grow |
//! | [`lease`] | durations and the drift between two clocks |
//! | [`demand`], [`allocate`] | demand of claimants, and the division of a capacity among them |
//! | [`budget`] | budgets as an operator writes them, parsed and validated |
//! | [`message`] | messages between parent and child |
//! | `window` | the lines of one direction of an edge that its other end may not know |
//! | [`central`] | central mode: requests decided by the home of a budget that is too scarce for shares |
//! | [`account`] | the book of one budget at one level |
//! | [`pool`] | the ungranted part of a rate budget |
//! | [`ledger`] | planning, for both levels |
//! | [`command`], [`state`] | entries of the log, and the effect of applying them |
//! | [`earlier_terms`] | how long ago leaders of earlier terms can have confirmed anything |
//! | [`leadership`] | confirming and reclaiming: what a leader may do, and when |
//! | [`holder`] | the child's side of an edge |
//! | [`leader`] | the parent of the nodes: leadership, a ledger, and the term's pools |
//! | [`node`] | a coordinator node: child of the leader, parent of its clients |
//! | [`decision_requests`] | the client's side of central mode |
//! | [`rebalance`] | balancing of sessions between nodes |
//! | [`node_selection`] | the client's choice of a node, and the change to another |
//! | [`client`] | the client's side: a holder with allotments that decide |
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

pub mod few;
mod interner;
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

pub mod earlier_terms;
pub mod holder;
pub mod leadership;
pub mod ledger;
pub mod state;

pub mod client;
pub mod decision_requests;
pub mod leader;
pub mod node;
pub mod node_selection;
pub mod rebalance;

pub mod check;
