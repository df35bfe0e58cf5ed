//! The water level λ: the amount that every unit of weight may take.

use core::cmp::Ordering;
use core::hash::{Hash, Hasher};

/// A water level: an exact ratio of units to weight (in the fine units of [`WEIGHT_ONE`](super::WEIGHT_ONE)),
/// or full, which is above every demand.
///
/// Equality and order are those of the ratio, not of its two terms.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Level {
    units: u64,
    weight: u64,
}

impl Level {
    /// No claimant takes anything.
    pub const ZERO: Self = Self {
        units: 0,
        weight: 1,
    };

    /// Every claimant takes its whole demand.
    pub const FULL: Self = Self {
        units: 1,
        weight: 0,
    };

    /// Returns the ratio of `units` to `weight`; [`Level::FULL`] if the weight is 0.
    #[must_use]
    pub const fn new(units: u64, weight: u64) -> Self {
        if weight == 0 {
            return Self::FULL;
        }
        Self { units, weight }
    }

    /// Returns the ratio's upper term.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.units
    }

    /// Returns the ratio's lower term; 0 if the level is full.
    #[must_use]
    pub const fn weight(self) -> u64 {
        self.weight
    }

    /// Returns true if the level is above every demand.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.weight == 0
    }

    /// Returns true if a claimant of this demand and weight takes its whole demand: `d ≤ w·λ`.
    #[must_use]
    #[inline]
    pub const fn meets(self, demand: u64, weight: u64) -> bool {
        wide(demand, self.weight) <= wide(self.units, weight)
    }

    /// Returns `w·λ` rounded down and the remainder (out of [`Level::weight`]), or `None` if that is out of
    /// range.
    #[must_use]
    pub fn part(self, weight: u64) -> Option<(u64, u64)> {
        let product = wide(self.units, weight);
        let divisor = u128::from(self.weight);
        Some((
            u64::try_from(product.checked_div(divisor)?).ok()?,
            u64::try_from(product.checked_rem(divisor)?).ok()?,
        ))
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}

/// Hashes the ratio, to 32 binary places: equal levels have equal hashes.
impl Hash for Level {
    fn hash<H: Hasher>(&self, state: &mut H) {
        wide(self.units, 1 << 32)
            .checked_div(u128::from(self.weight))
            .hash(state);
    }
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        wide(self.units, other.weight).cmp(&wide(other.units, self.weight))
    }
}

/// Returns the product of two 64-bit numbers, which always fits 128 bits.
#[inline]
pub(crate) const fn wide(a: u64, b: u64) -> u128 {
    widen(a).wrapping_mul(widen(b))
}

#[expect(
    clippy::as_conversions,
    reason = "`From` is not const yet; widening loses nothing"
)]
#[inline]
const fn widen(a: u64) -> u128 {
    a as u128
}

/// Returns all ones if `condition` holds, else all zeros.
#[inline]
pub(crate) fn mask(condition: bool) -> u64 {
    0_u64.wrapping_sub(u64::from(condition))
}

#[cfg(test)]
#[path = "../../tests/unit/demand/level.rs"]
mod tests;
