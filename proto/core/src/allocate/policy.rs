//! The other rules: fixed parts, equal parts, and Doorman's.

use super::bands::{distribute_headroom, fitted, floors, max_min};
use super::claimant::{Claimant, Headroom, Warm, add, rest};
use crate::demand::{DemandCurve, WEIGHT_ONE};
use crate::share::apportion;
use crate::unit::Band;
use alloc::vec::Vec;

/// Returns each claimant's fixed part, within its floor and ceiling.
pub(super) fn fixed(capacity: u64, claimants: &[Claimant]) -> Vec<u64> {
    let mut parts = floors(capacity, claimants);
    let beyond = claimants
        .iter()
        .map(|claimant| {
            let part = claimant.fixed.min(claimant.most());
            part.saturating_sub(claimant.least())
        })
        .collect();
    let left = rest(capacity, &parts);
    add(&mut parts, fitted(left, beyond));
    parts
}

/// Returns the same part for each claimant, within its floor and ceiling: max-min fairness among claimants
/// with unlimited demand and equal weights.
pub(super) fn equal(capacity: u64, claimants: &[Claimant]) -> Vec<u64> {
    let everything = DemandCurve::greedy(WEIGHT_ONE);
    let alike: Vec<Claimant> = claimants
        .iter()
        .map(|claimant| Claimant {
            floor: claimant.floor,
            ceiling: claimant.ceiling,
            ..Claimant::new(Band::default(), everything.clone())
        })
        .collect();
    let (mut warm, mut parts) = (Warm::default(), Vec::new());
    max_min(capacity, &alike, Headroom::Kept, &mut warm, &mut parts);
    parts
}

/// Returns Doorman's proportional share (`PROPORTIONAL_SHARE` in youtube/doorman, `doc/algorithms.md`),
/// beyond the floors: for capacity `C`, wants `dᵢ`, and `eᵢ = C·wᵢ/Σw` where Doorman's `wᵢ` is a number of
/// subclients,
///
/// > `dᵢ ≤ eᵢ`: `dᵢ`; otherwise `eᵢ + (dᵢ − eᵢ) · Σ max(0, e − d) / Σ max(0, d − e)`
///
/// unless the whole demand fits.
pub(super) fn proportional(capacity: u64, claimants: &[Claimant], headroom: Headroom) -> Vec<u64> {
    let mut parts = floors(capacity, claimants);
    let wants: Vec<u64> = claimants.iter().map(wants_beyond_floor).collect();
    let left = rest(capacity, &parts);
    add(&mut parts, topped_up(left, &wants, claimants));
    match headroom {
        Headroom::ByWeight => distribute_headroom(capacity, claimants, &mut parts),
        Headroom::Kept => {}
    }
    parts
}

fn topped_up(capacity: u64, wants: &[u64], claimants: &[Claimant]) -> Vec<u64> {
    let sum: u128 = wants.iter().map(|&wants| u128::from(wants)).sum();
    if sum <= u128::from(capacity) {
        return wants.to_vec();
    }
    let weights: Vec<u64> = claimants.iter().map(demand_weight).collect();
    let rights = apportion(capacity, &weights);
    let both = || wants.iter().zip(&rights);
    let mut parts: Vec<u64> = both().map(|(&wants, &right)| wants.min(right)).collect();
    let excess: Vec<u64> = both()
        .map(|(&wants, &right)| wants.saturating_sub(right))
        .collect();
    // Less is left over than is wanted beyond, so no top-up exceeds its excess.
    let left = rest(capacity, &parts);
    add(&mut parts, apportion(left, &excess));
    parts
}

fn wants_beyond_floor(claimant: &Claimant) -> u64 {
    let curves = claimant.demand.iter();
    let total = curves.fold(0_u64, |sum, (_, curve)| sum.saturating_add(curve.total()));
    total.min(claimant.most()).saturating_sub(claimant.least())
}

/// Returns the weight of all of a claimant's demand.
fn demand_weight(claimant: &Claimant) -> u64 {
    let curves = claimant.demand.iter();
    curves.fold(0_u64, |sum, (_, curve)| sum.saturating_add(curve.weight()))
}
