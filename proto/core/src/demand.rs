//! Demand of callers, and its compact form.
//!
//! Max-min fairness needs one function for each key and band of a subtree: `D(λ) = Σ min(dᵢ, wᵢ·λ)`, the sum
//! that all its claimants would take at water level λ. Such curves can be added. So a node sends one curve
//! whatever the number of its clients, and the level that the leader finds on the sum is the level of the
//! whole fleet (Bertsekas & Gallager, *Data Networks*, §6.5.2, define the fairness; the level is its usual
//! water-filling form).
//!
//! Amounts are plain `u64` **units**, so that one algebra serves every kind of budget: grains per second for
//! a rate, grains for a quota, permits for concurrency.

mod compress;
mod curve;
mod estimator;
mod level;
mod near;
mod newton;
mod quotient;
mod range;
mod regime;

pub use compress::BREAKPOINTS_MIN;
pub use curve::{
    CALLER_SEGMENTS_MAX, CALLERS_MAX, CurveError, DemandCurve, SEGMENTS_MAX, Segment, WEIGHT_ONE,
};
pub use estimator::{Estimator, Observed};
pub use level::Level;
pub use newton::{level_among, solve};

use crate::unit::Span;

/// Time for which a quota's escrow lasts: three default leases. It outlives a leader change, and little of it
/// is lost when its holder dies.
pub const ESCROW: Span = Span::from_secs(9);

pub(crate) use level::{mask, wide};
pub(crate) use newton::level_of;
pub(crate) use quotient::Quotient;
pub(crate) use range::Range;
