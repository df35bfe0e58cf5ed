//! The coordinator of Aliquot: nodes that share one log, own every budget, and
//! lease parts of it to clients.
//!
//! The modules stand in the order of their floors: each imports only from the
//! groups above its own.

pub mod clock;
pub mod timer;

pub mod config;
pub mod store;

pub mod raft;

pub mod gossip;
pub mod session;

pub mod node;

pub mod face;

pub mod serve;

pub mod demo;

pub mod cli;
