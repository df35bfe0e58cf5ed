//! The level by one look at all claimants and more looks at few.
//!
//! Newton's method looks at everybody in each step to learn who changes sides.
//! But between an old level λ₀ and one a little above or below it only those can
//! whose breakpoint is near λ₀. Taking the others to stay where they are makes a
//! function
//!
//! > `D̃(λ) = Σ_below dᵢ + Σ_near min(dᵢ, wᵢ·λ) + Σ_above wᵢ·λ`
//!
//! that equals `D` near λ₀ and is above it elsewhere. So its root is the level
//! if it is near λ₀, and otherwise a lower bound of it, no worse than Newton's
//! next step, to go on from.

use super::newton::mask;
use super::quotient::Quotient;
use super::range::Range;
use super::{Level, wide};
use crate::planted::{self, Bug};
use alloc::vec::Vec;

/// Near is within this power of two of the level: 1/16. A report seldom moves
/// the level by more, and few claimants' breakpoints are so close to it.
const NEAR: u32 = 4;

/// More than the errors of all roundings that decide on which side one is.
const SLACK: u64 = 3;

/// The level at which the claimants take exactly `capacity`, which must be less
/// than they want. `near` is room to work in.
///
/// `None` where a product could pass 64 bits.
pub(super) fn search(
    capacity: u64,
    (demands, weights): (&[u64], &[u64]),
    range: &Range,
    from: Option<Level>,
    near: &mut Vec<(u64, u64)>,
) -> Option<Level> {
    // `D(λ) ≤ λ·Σw`: the level is nowhere below.
    let lowest = Level::new(capacity, range.weight);
    let mut level = match from {
        Some(from) if !from.is_full() && lowest < from => from,
        _ => lowest,
    };
    loop {
        let times = Quotient::by(level).filter(|times| times.fits(range.bits))?;
        let sides = Sides::at(times, demands, weights, near);
        let Some(room) = capacity.checked_sub(sides.met) else {
            level = lowest;
            continue;
        };
        let above = range
            .weight
            .wrapping_sub(sides.met_weight)
            .wrapping_sub(sides.near_weight);
        let root = root(room, above, near, level);
        let trusted = planted::is(Bug::OldLevelTrusted) && from == Some(level) && level < root;
        if trusted {
            return Some(level);
        }
        if is_near(level, root) {
            return Some(root);
        }
        level = root;
    }
}

/// Who is below, near and above a level.
struct Sides {
    met: u64,
    met_weight: u64,
    near_weight: u64,
}

impl Sides {
    /// `near` is filled with the demands and weights of those who are.
    fn at(times: Quotient, demands: &[u64], weights: &[u64], near: &mut Vec<(u64, u64)>) -> Self {
        let (mut met, mut met_weight, mut near_weight) = (0_u64, 0_u64, 0_u64);
        near.clear();
        // All numbers have less than 63 bits and the sums too: nothing wraps.
        for (&demand, &weight) in demands.iter().zip(weights) {
            let takes = times.about(weight);
            let margin = takes.wrapping_shr(NEAR).wrapping_add(SLACK);
            let wants = demand.wrapping_add(margin);
            let is_met = mask(wants <= takes);
            met = met.wrapping_add(demand & is_met);
            met_weight = met_weight.wrapping_add(weight & is_met);
            if demand.abs_diff(takes) < margin {
                near_weight = near_weight.wrapping_add(weight);
                near.push((demand, weight));
            }
        }
        Self {
            met,
            met_weight,
            near_weight,
        }
    }
}

/// Where those who are near and the weight `above` take `room`, by Newton's
/// method: from whatever level, the second step is a lower bound of the root.
fn root(room: u64, above: u64, near: &[(u64, u64)], from: Level) -> Level {
    let mut level = from;
    loop {
        let (mut met, mut open) = (0_u64, above);
        for &(demand, weight) in near {
            let is_met = mask(level.meets(demand, weight));
            met = met.wrapping_add(demand & is_met);
            open = open.wrapping_add(weight & !is_met);
        }
        let next = match room.checked_sub(met) {
            Some(left) if open > 0 => Level::new(left, open),
            _ => Level::ZERO,
        };
        if next == level || near.is_empty() {
            return next;
        }
        level = next;
    }
}

/// Whether a root is so near a level that nobody but those near it could have
/// changed sides in between.
///
/// Who counted as below wants at most `t − t/16 − 2` for a `t` of at most
/// `w·λ₀ + 1`, so all of it is covered down to `λ₀·15/16`; who counted as above
/// wants more than `t + t/16 + 2` for a `t` above `w·λ₀ − 1`, which is more than
/// `w·λ₀·17/16`.
fn is_near(level: Level, root: Level) -> bool {
    let was = wide(level.units(), root.weight());
    let is = wide(root.units(), level.weight());
    was.abs_diff(is) <= was.wrapping_shr(NEAR)
}
