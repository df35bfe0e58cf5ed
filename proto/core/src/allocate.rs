//! Division of a capacity among claimants.
//!
//! **Max-min fairness**, the default, for claimants `i` with demand curves `Dᵢᵦ` in bands `β`, floors `fᵢ`,
//! ceilings `cᵢ` and weights `wᵢ`:
//!
//! 1. Floors, of all bands: `Fᵢ = min(fᵢ, cᵢ)`, whether wanted or not. If they add up to more than the
//!    capacity, they share it in proportion, and no further step follows.
//! 2. Bands, from high to low, each from the rest of the capacity, `C`: at the greatest level λ with
//!
//!    > `Σᵢ max(0, min(Dᵢᵦ(λ), cᵢᵦ) − Fᵢᵦ) ≤ C`
//!
//!    each claimant gets its term of the sum, where `cᵢᵦ` and `Fᵢᵦ` are the parts of its ceiling and floor that
//!    higher bands have left. A floor counts toward the part.
//! 3. Headroom: capacity that no claimant wants is divided by weight, up to the ceilings, so that an idle
//!    claimant can start without a request.
//!
//! Parts are whole units: quotients are rounded down, and the units that are left go to the largest
//! remainders, ties to the earlier claimant. In a band, no claimant takes a second unit while another one
//! with demand has none. If there are as many units as such claimants, each gets one first, which then counts
//! toward its part like a floor. If there are fewer, the heavier claimants get one each.
//!
//! The parts never add up to more than the capacity, and to all of it if headroom can take the rest
//! (invariants 9 and 10 of `docs/invariants.md`).

mod bands;
mod burst;
mod claimant;
mod fill;
mod hysteresis;
mod plain;
mod policy;
mod remainder;
mod solver;

pub use burst::{Burst, Gathering, Holder, distribute_burst, distribute_burst_above, gather};
pub use claimant::{Claimant, Headroom, Levels, Warm};
pub use hysteresis::{Change, HELD_BACK_PER_MILLE, damp, held_back, is_small};
pub use plain::{Scratch, water_fill, water_fill_into};

use alloc::vec::Vec;

/// Rule by which a capacity is divided. Floors and ceilings hold under each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Policy {
    /// Weighted max-min fairness by demand, as the module describes.
    #[default]
    MaxMin,
    /// Each claimant's `fixed` part, whether wanted or not. Scaled down together if they do not fit.
    Static,
    /// The same part for each claimant, whether wanted or not.
    Equal,
    /// Doorman's proportional share: each claimant has a right to a part by weight. What some leave of theirs
    /// is divided among the others in proportion to their demand beyond it. Bands do not count.
    Proportional,
}

/// Terms of a division.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    /// The rule.
    pub policy: Policy,
    /// Treatment of the rest; for [`Policy::MaxMin`] and [`Policy::Proportional`].
    pub headroom: Headroom,
}

/// Divides `capacity` among the claimants. Returns one part for each, in their order.
///
/// ```
/// use aliquot_core::allocate::{Claimant, Terms, Warm, allocate};
/// use aliquot_core::demand::DemandCurve;
/// use aliquot_core::unit::{Band, Weight};
///
/// let claimant = |wants| Claimant::new(Band::default(), DemandCurve::of(wants, Weight::ONE));
/// let claimants = [claimant(10), claimant(500), claimant(700)];
/// let parts = allocate(100, &claimants, Terms::default(), &mut Warm::default());
/// assert_eq!(parts, [10, 45, 45]);
/// ```
#[must_use]
pub fn allocate(capacity: u64, claimants: &[Claimant], terms: Terms, warm: &mut Warm) -> Vec<u64> {
    let mut parts = Vec::new();
    allocate_into(capacity, claimants, terms, warm, &mut parts);
    parts
}

/// The same as [`allocate`], into `parts`, whose old content is dropped. In the common case (one band, one
/// demand each, no floors) and in a steady state, it allocates no memory.
pub fn allocate_into(
    capacity: u64,
    claimants: &[Claimant],
    terms: Terms,
    warm: &mut Warm,
    parts: &mut Vec<u64>,
) {
    match terms.policy {
        Policy::MaxMin => bands::max_min(capacity, claimants, terms.headroom, warm, parts),
        Policy::Static => *parts = policy::fixed(capacity, claimants),
        Policy::Equal => *parts = policy::equal(capacity, claimants),
        Policy::Proportional => *parts = policy::proportional(capacity, claimants, terms.headroom),
    }
}
