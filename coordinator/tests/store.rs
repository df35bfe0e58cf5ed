//! What a node keeps on disk, seen from outside.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests as well")]

#[path = "store/conformance.rs"]
mod conformance;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/full.rs"]
mod full;
#[path = "store/identity.rs"]
mod identity;
#[path = "store/kill.rs"]
mod kill;
#[path = "store/model.rs"]
mod model;
#[path = "store/told.rs"]
mod told;
