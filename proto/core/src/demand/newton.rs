//! The level for a capacity, by Newton's method.
//!
//! `D` is concave and piecewise linear, so the line through any point of it
//! lies above it and meets the capacity at or below the root: whatever level
//! the search starts from, its second step is a lower bound, and from there
//! each step rises until no claimant changes sides. Each step divides either
//! what is missing or the open weight by two at least (Radzik, *Newton's method
//! for fractional combinatorial optimization*, 1992), so there are at most
//! about 128; from the last level there are one to three, and no claimant is
//! ever sorted.

use super::near;
use super::{DemandCurve, Level, Range};
use crate::planted::{self, Bug};
use alloc::vec::Vec;

/// The greatest level at which all curves together take no more than
/// `capacity`: [`Level::FULL`] if it covers everything they want.
///
/// `from` is where to begin, best the last level. It decides how long the
/// search takes, never what it finds. `None` if the weights add up to more
/// than 64 bits.
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

/// [`solve`] for claimants side by side, each a demand and a weight; who has no
/// weight takes nothing. `None` if the weights add up to more than 64 bits.
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

/// [`level_among`] without its check. The weights must add up to 64 bits.
/// `near` is room to work in.
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

/// The search for numbers of any size, looking at everybody in each step.
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

/// Whether an old level that hands out no more than there is counts as found:
/// never, without the planted bug.
pub(super) fn is_trusted_as_planted(from: Option<Level>, level: Level, root: Level) -> bool {
    planted::is(Bug::OldLevelTrusted) && from == Some(level) && level < root
}

/// What one look at all claimants from one level tells.
struct Pass {
    /// What everybody wants who has a weight.
    total: u128,
    /// What those take who have all that they want.
    met: u128,
    /// The weight of the others.
    open: u64,
}

impl Pass {
    fn at(level: Level, demands: &[u64], weights: &[u64]) -> Self {
        let (mut total, mut met, mut open) = (0_u128, 0_u128, 0_u64);
        // Sums of 64-bit numbers fit 128 bits, and the weights fit 64 by contract.
        // Masks, because who is met is as good as random to a branch predictor.
        for (&demand, &weight) in demands.iter().zip(weights) {
            // Who has no weight takes nothing at any level.
            let demand = demand & mask(weight > 0);
            let is_met = mask(level.meets(demand, weight));
            total = total.wrapping_add(u128::from(demand));
            met = met.wrapping_add(u128::from(demand & is_met));
            open = open.wrapping_add(weight & !is_met);
        }
        Self { total, met, open }
    }

    /// Where the line through this point meets the capacity; zero where it
    /// does not, which is to begin anew.
    fn root(&self, capacity: u64) -> Level {
        // If nobody is open, more is met than there is.
        u128::from(capacity)
            .checked_sub(self.met)
            .and_then(|left| u64::try_from(left).ok())
            .map_or(Level::ZERO, |left| Level::new(left, self.open))
    }
}

/// All ones if `condition` holds, else all zeros.
#[inline]
pub(crate) fn mask(condition: bool) -> u64 {
    0_u64.wrapping_sub(u64::from(condition))
}
