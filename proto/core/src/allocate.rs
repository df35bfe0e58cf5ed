//! Who gets how much of a capacity.
//!
//! **Max-min fairness**, the default, for claimants `i` with demand curves
//! `Dᵢᵦ` in bands `β`, floors `fᵢ`, ceilings `cᵢ` and weights `wᵢ`:
//!
//! 1. Floors, of all bands: `Fᵢ = min(fᵢ, cᵢ)`, whether wanted or not. If they
//!    add up to more than the capacity they share it in proportion, and that is all.
//! 2. Bands, from high to low, each from what is left, `C`: at the greatest
//!    level λ with
//!
//!    > `Σᵢ max(0, min(Dᵢᵦ(λ), cᵢᵦ) − Fᵢᵦ) ≤ C`
//!
//!    each claimant gets its term of the sum, where `cᵢᵦ` and `Fᵢᵦ` are what
//!    higher bands have left of its ceiling and floor: a floor counts toward the part.
//! 3. Headroom: what nobody wants is dealt by weight, up to the ceilings, so that
//!    an idle claimant can start without asking.
//!
//! Parts are whole units: quotients rounded down, and the units that are left go
//! to the largest remainders, ties to the earlier claimant. In a band, nobody
//! takes a second unit while another who wants has nothing at all: if there are as
//! many units as such claimants each gets one first, which then counts toward
//! its part like a floor; if there are fewer, the heavier get one each.
//!
//! The parts never add up to more than the capacity, and to all of it where
//! headroom can take the rest (invariants 9 and 10 of `docs/invariants.md`).

mod bands;
mod burst;
mod fill;
mod hysteresis;
mod plain;
mod policy;
mod remainder;
mod solver;

pub use burst::{Burst, Gathering, Holder, deal_burst, gather};
pub use hysteresis::{Change, HELD_BACK_PER_MILLE, damp, held_back, is_small};
pub use plain::{Scratch, water_fill, water_fill_into};

use crate::demand::{DemandCurve, Level};
use crate::unit::Band;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// One who claims a part of the capacity: a client at a node, a node at the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// What it would take at each level, per band; a band said twice counts
    /// once, as said first.
    pub demand: Vec<(Band, DemandCurve)>,
    /// What it weighs when headroom is dealt, in the unit of
    /// [`DemandCurve::weight`]; with 0 it gets none.
    pub weight: u64,
    /// What it gets before anybody gets more.
    pub floor: u64,
    /// What it never gets more than.
    pub ceiling: Option<u64>,
    /// Its part under [`Policy::Static`].
    pub fixed: u64,
}

impl Claimant {
    /// A claimant of one band, without floor or ceiling, that weighs for
    /// headroom what its demand weighs.
    #[must_use]
    pub fn new(band: Band, demand: DemandCurve) -> Self {
        Self {
            weight: demand.weight(),
            demand: [(band, demand)].into(),
            ..Self::default()
        }
    }

    /// The demand in one band.
    fn in_band(&self, band: Band) -> Option<&DemandCurve> {
        self.demand
            .iter()
            .find(|(of, _)| *of == band)
            .map(|(_, curve)| curve)
    }

    /// The most it may get.
    fn most(&self) -> u64 {
        self.ceiling.unwrap_or(u64::MAX)
    }

    /// The least it is owed.
    fn least(&self) -> u64 {
        self.floor.min(self.most())
    }
}

/// By which rule a capacity is divided. Floors and ceilings hold under each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Policy {
    /// Weighted max-min fairness by demand, as the module describes.
    #[default]
    MaxMin,
    /// Each claimant's `fixed` part, wanted or not; scaled down together if they
    /// do not fit.
    Static,
    /// The same part for each claimant, wanted or not.
    Equal,
    /// Doorman's proportional share: each has a right to a part by weight; what
    /// some leave of theirs tops up the others in proportion to what they want
    /// beyond. Bands do not count.
    Proportional,
}

/// What becomes of capacity that nobody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Headroom {
    /// It is dealt by weight: an idle claimant can start without asking.
    #[default]
    ByWeight,
    /// It stays unassigned: what a holder of quota does not need it could only lose.
    Kept,
}

/// How a capacity is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    /// The rule.
    pub policy: Policy,
    /// What becomes of the rest; for [`Policy::MaxMin`] and [`Policy::Proportional`].
    pub headroom: Headroom,
}

/// What one allocation leaves to make the next one quicker, and nothing else:
/// the same claimants get the same parts whatever is in here.
#[derive(Clone, Debug, Default, Hash)]
pub struct Warm {
    levels: BTreeMap<Band, Level>,
    scratch: Scratch,
    demands: Vec<u64>,
    weights: Vec<u64>,
}

impl Warm {
    /// The last level of a band: where its curves should keep their breakpoints.
    #[must_use]
    pub fn level(&self, band: Band) -> Option<Level> {
        self.levels.get(&band).copied()
    }

    fn keep(&mut self, band: Band, level: Level) {
        // A full level says nothing about where the next one will be.
        if !level.is_full() {
            self.levels.insert(band, level);
        }
    }
}

/// Divides `capacity` among the claimants: one part for each, in their order.
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

/// [`allocate`] into `parts`, whose old content is dropped: in the common case
/// (one band, one demand each, no floors) and in a steady state without asking
/// for memory.
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

/// What is left of a capacity, of which no more than all was dealt.
fn rest(capacity: u64, parts: &[u64]) -> u64 {
    parts
        .iter()
        .fold(capacity, |left, &part| left.saturating_sub(part))
}

/// Adds what was dealt to what each has. Both are parts of one capacity.
fn add(parts: &mut [u64], more: impl IntoIterator<Item = u64>) {
    for (part, more) in parts.iter_mut().zip(more) {
        *part = part.saturating_add(more);
    }
}
