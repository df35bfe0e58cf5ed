//! Many claimants, one band, neither floors nor ceilings: flat arrays, and no sorting of claimants.

use super::remainder::{Counts, Order, distribute, largest_remainders};
use crate::demand::{Level, Quotient, Range, level_of, mask};
use alloc::vec::Vec;
use core::mem::take;

/// Working memory, kept between allocations so that none allocates. No result depends on it.
#[derive(Clone, Debug, Default, Hash)]
pub struct Scratch {
    near: Vec<(u64, u64)>,
    remainders: Vec<u64>,
    order: Order,
    weights: Vec<u64>,
}

/// Divides `capacity` by weighted max-min fairness: claimant `i` gets `min(dᵢ, wᵢ·λ)` at the greatest level λ
/// that the capacity covers, in whole units. The units left over go to the largest remainders (ties to the
/// earlier). A claimant without weight gets nothing.
///
/// `from` is the level from which to search for λ, best the last one. λ is returned with the parts, which do
/// not depend on `from`. Weights that add up to more than 64 bits are all made coarser until they do not.
///
/// This is the plain rule. The first unit for each claimant with demand is added by
/// [`allocate`](super::allocate).
#[must_use]
pub fn water_fill(
    capacity: u64,
    demands: &[u64],
    weights: &[u64],
    from: Option<Level>,
) -> (Vec<u64>, Level) {
    let (mut parts, mut scratch) = (Vec::new(), Scratch::default());
    let level = water_fill_into(capacity, demands, weights, from, &mut scratch, &mut parts);
    (parts, level)
}

/// The same as [`water_fill`], into `parts`, whose old content is dropped.
pub fn water_fill_into(
    capacity: u64,
    demands: &[u64],
    weights: &[u64],
    from: Option<Level>,
    scratch: &mut Scratch,
    parts: &mut Vec<u64>,
) -> Level {
    if let Some(range) = Range::of(demands, weights) {
        let all = (demands, weights);
        return fill(capacity, all, Some(&range), from, scratch, parts);
    }
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    // Room for one grain more per claimant, which rounding up may add.
    let shift = match sum <= u128::from(u64::MAX) {
        true => 0,
        false => sum.ilog2().saturating_sub(61),
    };
    let (demands, weights): (Vec<u64>, Vec<u64>) = demands
        .iter()
        .zip(weights)
        .map(|(&demand, &weight)| match weight {
            0 => (0, 0),
            _ => (demand, weight.checked_shr(shift).unwrap_or(0).max(1)),
        })
        .unzip();
    fill(capacity, (&demands, &weights), None, from, scratch, parts)
}

/// The same as [`water_fill_into`], for weights that add up to at most 64 bits, where a claimant without
/// weight has no demand.
pub(super) fn fill(
    capacity: u64,
    all: (&[u64], &[u64]),
    range: Option<&Range>,
    from: Option<Level>,
    scratch: &mut Scratch,
    parts: &mut Vec<u64>,
) -> Level {
    let level = level_of(capacity, all, range, from, &mut scratch.near);
    if level.is_full() {
        parts.clear();
        parts.extend_from_slice(all.0);
        return level;
    }
    match range.and_then(|range| Narrow::of(level, range)) {
        Some(Narrow::Straight(times, zeros)) => {
            distribute_narrow(capacity, all, (times, zeros), scratch, parts);
        }
        Some(Narrow::Shifted(times, zeros)) => {
            let mut weights = take(&mut scratch.weights);
            weights.clear();
            weights.extend(all.1.iter().map(|weight| weight.wrapping_shr(zeros)));
            distribute_narrow(capacity, (all.0, &weights), (times, 0), scratch, parts);
            scratch.weights = weights;
        }
        None => distribute_wide(capacity, all, level, scratch, parts),
    }
    level
}

/// Computation of parts by multiplication.
enum Narrow {
    /// With the weights unchanged, all multiples of this power of two.
    Straight(Quotient, u32),
    /// With every weight divided by this power of two, which divides them all.
    Shifted(Quotient, u32),
}

impl Narrow {
    fn of(level: Level, range: &Range) -> Option<Self> {
        let times = Quotient::by(level)?;
        let zeros = range.zeros.min(level.weight().trailing_zeros());
        if times.is_exact(range.bits, zeros) {
            return Some(Self::Straight(times, zeros));
        }
        let weight = level.weight().checked_shr(zeros)?;
        let times = Quotient::by(Level::new(level.units(), weight))?;
        let bits = range.bits.saturating_sub(zeros);
        times
            .is_exact(bits, 0)
            .then_some(Self::Shifted(times, zeros))
    }
}

/// Returns true if a claimant with demand would be rounded down to nothing at this level.
pub(super) fn starves(level: Level, (demands, weights): (&[u64], &[u64])) -> bool {
    if level.is_full() {
        return false;
    }
    // w·λ < 1 if and only if w is less than this.
    if level.units() == 0 {
        return demands.iter().any(|&demand| demand > 0);
    }
    let least = level.weight().div_ceil(level.units());
    let starved = |(&demand, &weight): (&u64, &u64)| (demand > 0) & (weight < least);
    least > 1
        && demands
            .iter()
            .zip(weights)
            .fold(false, |any, one| any | starved(one))
}

/// Computes every part at a level, by multiplication.
fn distribute_narrow(
    capacity: u64,
    (demands, weights): (&[u64], &[u64]),
    (times, zeros): (Quotient, u32),
    scratch: &mut Scratch,
    parts: &mut Vec<u64>,
) {
    let remainders = &mut scratch.remainders;
    // The old content is overwritten.
    remainders.resize(demands.len(), 0);
    parts.resize(demands.len(), 0);
    let mut left = capacity;
    let mut counts = Counts::new();
    let takers = parts.iter_mut().zip(remainders.iter_mut());
    for ((&demand, &weight), (part, remainder)) in demands.iter().zip(weights).zip(takers) {
        let (quotient, fraction) = times.part(weight);
        // The demand of an unmet claimant is above the quotient, so one unit more is within its demand.
        let is_open = demand > quotient;
        let takes = demand.min(quotient);
        *part = takes;
        *remainder = fraction & mask(is_open);
        left = left.wrapping_sub(takes);
        // Met claimants are counted with 0 by their fractions. Different buckets avoid dependent updates of
        // one count.
        counts.add(fraction, u32::from(is_open));
    }
    let exact = |fraction| times.remainder(fraction, zeros);
    distribute(parts, remainders, left, &counts, &mut scratch.order, exact);
}

/// Computes every part at a level, by division, for numbers of any size.
fn distribute_wide(
    capacity: u64,
    (demands, weights): (&[u64], &[u64]),
    level: Level,
    scratch: &mut Scratch,
    parts: &mut Vec<u64>,
) {
    let remainders = &mut scratch.remainders;
    remainders.clear();
    parts.clear();
    let mut left = capacity;
    for (&demand, &weight) in demands.iter().zip(weights) {
        // If the quotient is out of range, the demand is met.
        let (quotient, remainder) = level.part(weight).unwrap_or((u64::MAX, 0));
        let part = demand.min(quotient);
        left = left.saturating_sub(part);
        parts.push(part);
        remainders.push(remainder & mask(demand > quotient));
    }
    largest_remainders(parts, remainders, left);
}

#[cfg(test)]
#[path = "../../tests/unit/allocate/plain.rs"]
mod tests;
