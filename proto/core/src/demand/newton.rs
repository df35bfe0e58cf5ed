//! Finds the level for a capacity by Newton's method.
//!
//! `D` is concave and piecewise linear, so the tangent at any point lies above it and meets the capacity at
//! or below the root. Whatever level the search starts from, its second step is a lower bound. From there
//! each step rises until no claimant changes sides. Each step at least halves either the missing amount or
//! the open weight (Radzik, *Newton's method for fractional combinatorial optimization*, 1992), so there are
//! at most about 128 steps. From the last level there are one to three, and claimants are never sorted.

use super::level::mask;
use super::near::{self, is_trusted_as_planted};
use super::{DemandCurve, Level, Range};
use alloc::vec::Vec;

/// Returns the greatest level at which all curves together take no more than `capacity`: [`Level::FULL`] if
/// it covers their whole demand.
///
/// `from` is the level to start from, best the last one. It affects the time of the search, never its result.
/// Returns `None` if the weights add up to more than 64 bits.
#[must_use]
pub fn solve(capacity: u64, curves: &[DemandCurve], from: Option<Level>) -> Option<Level> {
    curves
        .iter()
        .try_fold(0_u64, |sum, curve| sum.checked_add(curve.weight()))?;
    let segments = || curves.iter().flat_map(DemandCurve::segments);
    let demands: Vec<u64> = segments().map(|segment| segment.demand).collect();
    let weights: Vec<u64> = segments().map(|segment| segment.weight).collect();
    level_among(capacity, &demands, &weights, from)
}

impl DemandCurve {
    /// Returns the greatest level at which the curve takes no more than `capacity`, searched from `from`; see
    /// [`solve`].
    #[must_use]
    pub fn level_for(&self, capacity: u64, from: Option<Level>) -> Level {
        solve(capacity, core::slice::from_ref(self), from).unwrap_or(Level::ZERO)
    }
}

/// The same as [`solve`], for claimants in two slices of demands and weights. One without weight takes
/// nothing. Returns `None` if the weights add up to more than 64 bits.
#[must_use]
pub fn level_among(
    capacity: u64,
    demands: &[u64],
    weights: &[u64],
    from: Option<Level>,
) -> Option<Level> {
    let range = Range::of(demands, weights);
    if range.is_none() {
        let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        u64::try_from(sum).ok()?;
    }
    let (all, near) = ((demands, weights), &mut Vec::new());
    Some(level_of(capacity, all, range.as_ref(), from, near))
}

/// The same as [`level_among`], without its check: the weights must add up to at most 64 bits. `near` is
/// working memory.
pub(crate) fn level_of(
    capacity: u64,
    all: (&[u64], &[u64]),
    range: Option<&Range>,
    from: Option<Level>,
    near: &mut Vec<(u64, u64)>,
) -> Level {
    if let Some(range) = range {
        if range.total <= capacity {
            return Level::FULL;
        }
        if let Some(level) = near::search(capacity, all, range, from, near) {
            return level;
        }
    }
    widely(capacity, all, from)
}

/// Searches for numbers of any size, with a pass over all claimants in each step.
fn widely(capacity: u64, (demands, weights): (&[u64], &[u64]), from: Option<Level>) -> Level {
    let mut level = from.unwrap_or(Level::ZERO);
    loop {
        let pass = Pass::at(level, demands, weights);
        if pass.total <= u128::from(capacity) {
            return Level::FULL;
        }
        let next = pass.root(capacity);
        if next == level || is_trusted_as_planted(from, level, next) {
            return level;
        }
        level = next;
    }
}

/// Result of one pass over all claimants at one level.
struct Pass {
    /// Demand of all claimants that have a weight.
    total: u128,
    /// Sum taken by the claimants whose demand is met.
    met: u128,
    /// Weight of the others.
    open: u64,
}

impl Pass {
    fn at(level: Level, demands: &[u64], weights: &[u64]) -> Self {
        let (mut total, mut met, mut open) = (0_u128, 0_u128, 0_u64);
        // Sums of 64-bit numbers fit 128 bits, and the weights fit 64 by contract. This uses masks because
        // the result of `meets` is as good as random to a branch predictor.
        for (&demand, &weight) in demands.iter().zip(weights) {
            // A claimant without weight takes nothing at any level.
            let demand = demand & mask(weight > 0);
            let is_met = mask(level.meets(demand, weight));
            total = total.wrapping_add(u128::from(demand));
            met = met.wrapping_add(u128::from(demand & is_met));
            open = open.wrapping_add(weight & !is_met);
        }
        Self { total, met, open }
    }

    /// Returns the level at which the tangent at this point meets the capacity; zero if it does not, which
    /// restarts the search.
    fn root(&self, capacity: u64) -> Level {
        // If no claimant is open, more is met than there is.
        u128::from(capacity)
            .checked_sub(self.met)
            .and_then(|left| u64::try_from(left).ok())
            .map_or(Level::ZERO, |left| Level::new(left, self.open))
    }
}
