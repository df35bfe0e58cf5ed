//! The coordinator of Aliquot: nodes that share a replicated log, own all budgets, and lease parts of
//! them to clients.
//!
//! The modules are listed from the bottom layer to the top. Each imports only from the groups above its
//! own.

pub mod clock;
mod terminal;
pub mod timer;

pub mod config;
pub mod store;

pub mod raft;

pub mod gossip;
pub mod session;

pub mod node;

pub mod api;

pub mod serve;

pub mod demo;

pub mod cli;
