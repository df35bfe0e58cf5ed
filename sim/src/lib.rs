//! Whole fleets, simulated: scenarios of faults and skewed clocks, judged by
//! Aliquot's own invariants.
//!
//! A scenario file says who asks for what, what goes wrong and what must hold.
//! A seed of it is a deterministic world over the core's machines: nodes,
//! clients, a modelled log and network, and clocks of every kind of badness.
//!
//! The modules stand in the order of their floors: each imports only from the
//! groups above its own.

pub mod draw;
pub mod mark;

pub mod scenario;

pub mod course;
mod hosts;

pub mod oracle;
pub mod plan;

pub mod world;

#[cfg(feature = "network")]
pub mod network;

pub mod figure;
mod tier;
pub mod trace;

pub mod judge;

pub mod apart;

pub mod drawing;
pub mod hunt;
pub mod runner;
pub mod shrink;

pub mod library;

pub mod accuracy;

pub mod cli;
