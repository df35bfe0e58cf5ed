//! Many claimants, one band, neither floors nor ceilings: nothing but numbers
//! side by side, and no sorting of claimants.

use super::fill::largest_remainders;
use crate::demand::{Level, level_of, mask, wide};
use alloc::vec::Vec;

/// Divides `capacity` by weighted max-min fairness: claimant `i` gets
/// `min(dᵢ, wᵢ·λ)` at the greatest level λ that the capacity covers, in whole
/// units, the units left over going to the largest remainders (ties to the
/// earlier). Who has no weight gets nothing.
///
/// `from` is where to look for λ, best the last one; λ is returned beside the
/// parts, which do not depend on it. Weights that add up to more than 64 bits
/// are all made coarser until they do not.
///
/// This is the bare rule: the first unit for everybody who wants is
/// [`allocate`](super::allocate)'s.
#[must_use]
pub fn water_fill(
    capacity: u64,
    demands: &[u64],
    weights: &[u64],
    from: Option<Level>,
) -> (Vec<u64>, Level) {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let in_range = sum <= u128::from(u64::MAX);
    if in_range && demands.len() == weights.len() && !weights.contains(&0) {
        let (parts, level, _) = fill(capacity, demands, weights, from);
        return (parts, level);
    }
    // Room for one grain more per claimant, which rounding up may add.
    let shift = if in_range {
        0
    } else {
        sum.ilog2().saturating_sub(61)
    };
    let (demands, weights): (Vec<u64>, Vec<u64>) = demands
        .iter()
        .zip(weights)
        .map(|(&demand, &weight)| match weight {
            0 => (0, 0),
            _ => (demand, weight.checked_shr(shift).unwrap_or(0).max(1)),
        })
        .unzip();
    let (parts, level, _) = fill(capacity, &demands, &weights, from);
    (parts, level)
}

/// Whether somebody who wants would be rounded down to nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Starved {
    Nobody,
    Somebody,
}

/// [`water_fill`] for weights that add up to 64 bits, where who has no weight
/// wants nothing.
pub(super) fn fill(
    capacity: u64,
    demands: &[u64],
    weights: &[u64],
    from: Option<Level>,
) -> (Vec<u64>, Level, Starved) {
    let level = level_of(capacity, demands, weights, from);
    if level.is_full() {
        return (demands.to_vec(), level, Starved::Nobody);
    }
    let divide = Quotient::by(level);
    let mut left = capacity;
    let mut starved = false;
    let mut parts = Vec::with_capacity(demands.len());
    let mut remainders = Vec::with_capacity(demands.len());
    for (&demand, &weight) in demands.iter().zip(weights) {
        let (quotient, remainder) = divide.part(weight);
        // Who is not met wants more than the quotient, so one unit more is
        // wanted too.
        let part = demand.min(quotient);
        starved |= (part == 0) & (demand > 0);
        left = left.saturating_sub(part);
        parts.push(part);
        remainders.push(remainder & mask(demand > quotient));
    }
    largest_remainders(&mut parts, &remainders, left);
    let starved = match starved {
        true => Starved::Somebody,
        false => Starved::Nobody,
    };
    (parts, level, starved)
}

/// `w·λ` for many weights and one level, without a division for each.
struct Quotient {
    units: u64,
    weight: u64,
    whole: u64,
    /// 2⁶⁴ times the fraction of λ, rounded down.
    fraction: u64,
}

impl Quotient {
    fn by(level: Level) -> Self {
        let (units, weight) = (level.units(), level.weight());
        let whole = units.checked_div(weight).unwrap_or(0);
        let rest = units.checked_rem(weight).unwrap_or(0);
        let fraction = wide(rest, 1)
            .wrapping_shl(u64::BITS)
            .checked_div(u128::from(weight))
            .and_then(|fraction| u64::try_from(fraction).ok())
            .unwrap_or(0);
        Self {
            units,
            weight,
            whole,
            fraction,
        }
    }

    /// The quotient, or the greatest number if it has more than 64 bits, and
    /// what is left of the product.
    ///
    /// The fraction is short by less than 2⁻⁶⁴, times a weight by less than one
    /// unit: the estimate is the quotient or one less, and the remainder tells.
    #[inline]
    fn part(&self, weight: u64) -> (u64, u64) {
        let Some(whole) = self.whole.checked_mul(weight) else {
            return (u64::MAX, 0);
        };
        let fraction = high_half(wide(self.fraction, weight));
        let Some(quotient) = whole.checked_add(fraction) else {
            return (u64::MAX, 0);
        };
        let rest = wide(self.units, weight).wrapping_sub(wide(quotient, self.weight));
        match rest.checked_sub(u128::from(self.weight)) {
            Some(less) => (quotient.saturating_add(1), low_half(less)),
            None => (quotient, low_half(rest)),
        }
    }
}

#[expect(clippy::as_conversions, reason = "the upper half of 128 bits has 64")]
#[inline]
const fn high_half(number: u128) -> u64 {
    (number >> 64) as u64
}

#[expect(
    clippy::as_conversions,
    reason = "a remainder is below its 64-bit divisor"
)]
#[inline]
const fn low_half(number: u128) -> u64 {
    number as u64
}
