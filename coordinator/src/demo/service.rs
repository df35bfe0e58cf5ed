//! One HTTP service of a run: it serves what its limiter admits, and writes
//! every decision down.
//!
//! | path | what it does |
//! |---|---|
//! | `/` | a request under the shared key |
//! | `/tenant/{id}`, `/replay/{id}` | a request under the key of that name |
//! | `/__status` | what was decided so far, and what the limiter holds: JSON |
//! | `/__flush` | answers once everything decided so far is in the record |
//!
//! `?cost=N` makes a request cost N tokens.

mod audit;
mod limit;
mod plant;
mod serve;

pub use audit::{Asked, Audit, decided};
pub use limit::{ask_held, limit};
pub use plant::Plant;
pub use serve::{AskHeld, ServiceError, ServicePlan, serve};

use serde::{Deserialize, Serialize};

/// What a service says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Admissions so far, under all keys.
    pub admitted: u64,
    /// Refusals so far, under all keys.
    pub refused: u64,
    /// Admissions so far under the shared key.
    pub shared: u64,
    /// What its limiter holds of the shared key.
    pub held: Held,
}

/// What a limiter holds of the shared key; what is not known is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Its part of the rate, in tokens per second.
    pub share: Option<f64>,
    /// Its tokens.
    pub level: Option<f64>,
    /// What is left of its lease, in milliseconds.
    pub lease_ms: Option<u64>,
    /// The node that its session is with.
    pub node: Option<String>,
    /// Messages of its session so far, both ways.
    pub messages: Option<u64>,
    /// Reports among them, which are answered: round trips.
    pub reports: Option<u64>,
}
