//! The invariants as functions.
//!
//! Each module judges one invariant of `docs/invariants.md` and names its number. The checkers are pure
//! accumulators of recorded events: asserts, property tests and simulators feed them events and ask for a
//! [`Verdict`].
//!
//! | invariant | checker | input |
//! |---|---|---|
//! | 1 envelope | [`Envelope`], [`LaggedEnvelope`], [`QuotaCheck`], [`ConcurrencyCheck`] | admissions, permits |
//! | 2 conservation | [`Holdings`], [`TokenAccount`] | snapshots of what holders believe |
//! | 3 disjointness | [`Disjointness`] | reclaims and admissions |
//! | 6 monotone edges | [`Monotone`] | counters as they are seen |
//! | 11 dominance | [`Dominance`] | every decision |
//! | 12 no minting | [`Minting`] | clock readings and bucket operations |
//!
//! Two conventions hold everywhere. Instants are *true time*, as only a simulator or a single test clock
//! knows it. They never go back; an event that does is a [`Doubt`]. And unknown is not absent: an admission
//! whose outcome was not observed is recorded as made.

pub mod conservation;
pub mod disjointness;
pub mod envelope;
pub mod limits;
pub mod minting;
pub mod monotone;
pub mod omniscient;
mod replay;
pub mod verdict;

pub use conservation::{Holdings, TokenAccount};
pub use disjointness::Disjointness;
pub use envelope::{ConcurrencyCheck, Envelope, EnvelopeReport, LaggedEnvelope, QuotaCheck};
pub use limits::{Limit, Limits};
pub use minting::Minting;
pub use monotone::Monotone;
pub use omniscient::{Dominance, Omniscient};
pub use verdict::{Doubt, Invariant, Verdict, Violation, When};
