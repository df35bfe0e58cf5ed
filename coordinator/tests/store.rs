//! The persistent storage of a node, as its users see it. No test here forks: a child holds the locks
//! of its parent until it executes another program, so that a test would find its own directory in use.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests as well")]

#[path = "store/closing.rs"]
mod closing;
#[path = "store/completions.rs"]
mod completions;
#[path = "store/conformance.rs"]
mod conformance;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/identity.rs"]
mod identity;
#[path = "store/model.rs"]
mod model;
