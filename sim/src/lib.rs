//! A simulator of whole fleets: it runs scenarios of faults and skewed clocks, and judges them by Aliquot's
//! invariants.
//!
//! A scenario file defines the load, the faults and the assertions. Each seed of a scenario is a
//! deterministic run of the core's state machines, with a modelled log, network and clocks. On the network
//! tier the real nodes and clients run instead.
//!
//! Modules are listed in the order of their layers: each imports only from the groups above its own.

pub mod draw;
pub mod mark;
pub mod trace;

pub mod scenario;

mod clock;
mod hosts;
mod ideal;
mod keys;
pub mod timeline;

mod net;

pub mod oracle;
pub mod plan;

pub mod observer;

mod faults;

pub mod world;

#[cfg(feature = "network")]
pub mod network;

pub mod figure;
mod tier;

pub mod judge;
pub mod sizing;

pub mod subprocess;

pub mod drawing;
pub mod hunt;
pub mod runner;
pub mod shrink;

pub mod library;

pub mod accuracy;

pub mod cli;
