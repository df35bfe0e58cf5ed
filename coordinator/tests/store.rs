//! What a node keeps on disk, seen from outside. Nobody forks here: a child has the locks of
//! its parent until it becomes another program, and a test would find its own directory in use.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests as well")]

#[path = "store/conformance.rs"]
mod conformance;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/identity.rs"]
mod identity;
#[path = "store/model.rs"]
mod model;
#[path = "store/told.rs"]
mod told;
