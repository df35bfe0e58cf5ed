//! Finds the level by few passes over all claimants and more passes over a few of them.
//!
//! Newton's method visits every claimant in each step, to learn which ones change sides. But between an old
//! level λ₀ and one a little above or below it, only claimants whose breakpoint is near λ₀ can change sides.
//! If all others keep their side, the function
//!
//! > `D̃(λ) = Σ_below dᵢ + Σ_near min(dᵢ, wᵢ·λ) + Σ_above wᵢ·λ`
//!
//! equals `D` near λ₀ and is above it elsewhere. So its root is the level if it is near λ₀. Otherwise the
//! root is a lower bound of the level, no worse than Newton's next step, from which the search continues.

use super::level::mask;
use super::quotient::Quotient;
use super::range::Range;
use super::{Level, wide};
use crate::planted::{self, Bug};
use alloc::vec::Vec;

/// Relative distance, as a power of two, within which a breakpoint is near: 1/32. A report seldom moves the
/// level by more, and few claimants' breakpoints are so close to it.
const NEAR: u32 = 5;

/// More than the errors of all roundings that decide the side of a claimant.
const SLACK: u64 = 3;

/// Returns the level at which the claimants take exactly `capacity`, which must be less than their demand.
/// `near` is working memory.
///
/// Returns `None` if a product could exceed 64 bits.
pub(super) fn search(
    capacity: u64,
    (demands, weights): (&[u64], &[u64]),
    range: &Range,
    from: Option<Level>,
    near: &mut Vec<(u64, u64)>,
) -> Option<Level> {
    // `D(λ) ≤ λ·Σw`: the level is nowhere below.
    let lowest = Level::new(capacity, range.weight);
    let from = from.filter(|from| !from.is_full());
    let mut level = from.unwrap_or(lowest).max(lowest);
    loop {
        let times = Quotient::by(level).filter(|times| times.fits(range.bits))?;
        let sides = Sides::at(times, demands, weights, near);
        let Some(room) = capacity.checked_sub(sides.met) else {
            level = lowest;
            continue;
        };
        let root = root(
            room,
            range.weight.wrapping_sub(sides.met_weight),
            sides.near,
            level,
        );
        if is_trusted_as_planted(from, level, root) {
            return Some(level);
        }
        if is_near(level, root) || planted::is(Bug::FarRootTrusted) {
            return Some(root);
        }
        level = root;
    }
}

/// Claimants below, near and above a level.
struct Sides<'a> {
    /// Demand of the claimants below.
    met: u64,
    /// Weight of the claimants below.
    met_weight: u64,
    /// Demands and weights of the claimants near.
    near: &'a [(u64, u64)],
}

impl<'a> Sides<'a> {
    fn at(
        times: Quotient,
        demands: &[u64],
        weights: &[u64],
        near: &'a mut Vec<(u64, u64)>,
    ) -> Self {
        let (mut met, mut met_weight, mut count) = (0_u64, 0_u64, 0_usize);
        near.resize(near.len().max(demands.len()), (0, 0));
        // All numbers and the sums have fewer than 63 bits: nothing wraps.
        for (&demand, &weight) in demands.iter().zip(weights) {
            let takes = times.about(weight);
            let margin = takes.wrapping_shr(NEAR).wrapping_add(SLACK);
            let is_met = mask(demand.wrapping_add(margin) <= takes);
            met = met.wrapping_add(demand & is_met);
            met_weight = met_weight.wrapping_add(weight & is_met);
            if demand.abs_diff(takes) < margin
                && let Some(slot) = near.get_mut(count)
            {
                *slot = (demand, weight);
                count = count.wrapping_add(1);
            }
        }
        let near = near.get(..count).unwrap_or_default();
        Self {
            met,
            met_weight,
            near,
        }
    }
}

/// Returns the level at which the claimants near and above, of this total weight, take `room`, by Newton's
/// method. From any level, the second step is a lower bound of the root.
fn root(room: u64, weight: u64, near: &[(u64, u64)], from: Level) -> Level {
    let mut level = from;
    loop {
        let (mut met, mut open) = (0_u64, weight);
        for &(demand, weight) in near {
            let is_met = mask(level.meets(demand, weight));
            met = met.wrapping_add(demand & is_met);
            open = open.wrapping_sub(weight & is_met);
        }
        // If no claimant is open, more is met than there is.
        let next = room
            .checked_sub(met)
            .map_or(Level::ZERO, |left| Level::new(left, open));
        if next == level || near.is_empty() {
            return next;
        }
        level = next;
    }
}

/// Returns true if a root is so near a level that only the near claimants could have changed sides in
/// between.
///
/// A claimant counted as below wants less than `t − t/32 − 2` for a `t` of at most `w·λ₀ + 1`, so its demand
/// is met down to `λ₀·31/32`. A claimant counted as above wants more than `t + t/32 + 2` for a `t` above
/// `w·λ₀ − 1`, which is more than `w·λ₀·33/32`.
fn is_near(level: Level, root: Level) -> bool {
    let was = wide(level.units(), root.weight());
    let is = wide(root.units(), level.weight());
    was.abs_diff(is) <= was.wrapping_shr(NEAR)
}

/// Returns true if the planted bug takes an old level as found that hands out less than there is. Always
/// false without the bug.
pub(super) fn is_trusted_as_planted(from: Option<Level>, level: Level, root: Level) -> bool {
    planted::is(Bug::OldLevelTrusted) && from == Some(level) && level < root
}

#[cfg(test)]
#[path = "../../tests/unit/demand/near.rs"]
mod tests;
