//! One HTTP service of a run. It serves the requests that its limiter, or a face that it asks, admits,
//! and records every decision.
//!
//! | path | effect |
//! |---|---|
//! | `/` | a request for the shared key |
//! | `/tenant/{id}`, `/replay/{id}` | a request for the key of that name |
//! | `/__status` | the decisions so far, and the limiter's holding, as JSON |
//! | `/__flush` | answers once all decisions so far are in the record |
//!
//! `?cost=N` makes a request cost N tokens.

mod ask;
mod audit;
mod face;
mod failover;
mod inject;
mod limit;
mod serve;

pub use ask::{ask_faces, faces_reader};
pub use audit::{Audit, RequestAction, decided};
pub use face::{Decision, Faces};
pub use inject::InjectedFaults;
pub use limit::{holding_reader, limit};
pub use serve::{ReadHolding, ServiceError, ServicePlan, serve};

use serde::{Deserialize, Serialize};

/// Status of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Admissions so far, of all keys.
    pub admitted: u64,
    /// Refusals so far, of all keys.
    pub refused: u64,
    /// Admissions so far of the shared key.
    pub shared: u64,
    /// The limiter's holding of the shared key.
    pub held: Holding,
}

/// A limiter's holding of the shared key. Unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// Its share of the rate, in tokens per second.
    pub share: Option<f64>,
    /// Its level, in tokens.
    pub level: Option<f64>,
    /// Remaining time of its lease, in milliseconds.
    pub lease_ms: Option<u64>,
    /// The node of its session, or the face that the service asks.
    pub node: Option<String>,
    /// Messages of its session so far, both ways.
    pub messages: Option<u64>,
    /// Reports among these messages. Each is answered, so this is the number of round trips.
    pub reports: Option<u64>,
    /// Number of times that a face was asked and did not decide, if the service asks faces.
    pub failed: Option<u64>,
    /// Reason of the last of these.
    pub last_failure: Option<String>,
}
