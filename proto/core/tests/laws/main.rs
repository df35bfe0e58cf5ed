//! Laws of the core, over random inputs: each names what it applies to, and cites its invariant.

mod account;
mod allocate;
mod bucket;
mod budget;
mod burst;
mod catch;
mod central;
mod check;
mod check_fires;
mod check_theorem;
mod client;
mod demand;
mod earlier_terms;
mod edge;
mod leadership;
mod lease;
mod ledger;
mod node_selection;
mod period;
mod share;
mod state;
mod state_rules;
