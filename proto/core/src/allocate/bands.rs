//! Max-min fairness: floors, then bands from high to low, then headroom.

use super::claimant::{Claimant, Headroom, Warm, add, rest};
use super::solver::Claim;
use super::{fill, plain};
use crate::demand::{DemandCurve, Range};
use crate::planted::{self, Bug};
use crate::share::apportion;
use crate::unit::Band;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem::take;

/// Divides by the formula of the parent module.
pub(super) fn max_min(
    capacity: u64,
    claimants: &[Claimant],
    headroom: Headroom,
    warm: &mut Warm,
    parts: &mut Vec<u64>,
) {
    let shift = excess_weight(claimants);
    if shift > 0 {
        return max_min(capacity, &coarser(claimants, shift), headroom, warm, parts);
    }
    if !plainly(capacity, claimants, warm, parts) {
        *parts = by_bands(capacity, claimants, warm);
    }
    match headroom {
        Headroom::ByWeight => distribute_headroom(capacity, claimants, parts),
        Headroom::Kept => {}
    }
}

/// Returns the floors, cut to the ceilings, and scaled down together if they do not fit.
pub(super) fn floors(capacity: u64, claimants: &[Claimant]) -> Vec<u64> {
    fitted(capacity, claimants.iter().map(Claimant::least).collect())
}

/// Returns the parts unchanged, or scaled down in proportion if they do not fit.
pub(super) fn fitted(capacity: u64, parts: Vec<u64>) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
    if sum <= u128::from(capacity) {
        return parts;
    }
    apportion(capacity, &parts)
}

/// Divides capacity that no claimant wants by weight, up to the ceilings.
pub(super) fn distribute_headroom(capacity: u64, claimants: &[Claimant], parts: &mut [u64]) {
    let left = rest(capacity, parts);
    if left == 0 {
        return;
    }
    let weights: Vec<u64> = claimants.iter().map(|claimant| claimant.weight).collect();
    if claimants.iter().all(|claimant| claimant.ceiling.is_none()) {
        add(parts, apportion(left, &weights));
        return;
    }
    let rooms: Vec<u64> = claimants
        .iter()
        .zip(parts.iter())
        .map(|(claimant, &part)| claimant.most().saturating_sub(part))
        .collect();
    add(parts, plain::water_fill(left, &rooms, &weights, None).0);
}

/// Divides in the common case, in flat arrays: one band, one demand each, no floors. Returns false in any
/// other case; `parts` are then meaningless.
fn plainly(capacity: u64, claimants: &[Claimant], warm: &mut Warm, parts: &mut Vec<u64>) -> bool {
    let (mut demands, mut weights) = (take(&mut warm.demands), take(&mut warm.weights));
    let band = side_by_side(claimants, &mut demands, &mut weights);
    let mut starved = false;
    if let Some(band) = band {
        let all = (demands.as_slice(), weights.as_slice());
        let (range, from) = (Range::of(all.0, all.1), warm.level(band));
        let scratch = &mut warm.scratch;
        let level = plain::fill(capacity, all, range.as_ref(), from, scratch, parts);
        starved = plain::starves(level, all);
        warm.keep(band, level);
    }
    (warm.demands, warm.weights) = (demands, weights);
    band.is_some() && !starved
}

/// Collects the demands and weights of claimants of one band with one demand each and no floors. Returns that
/// band, or `None` for other claimants.
fn side_by_side(
    claimants: &[Claimant],
    demands: &mut Vec<u64>,
    weights: &mut Vec<u64>,
) -> Option<Band> {
    let mut of = None;
    demands.clear();
    weights.clear();
    for claimant in claimants {
        let [(band, curve)] = &*claimant.demand else {
            return None;
        };
        let [segment] = curve.segments() else {
            return None;
        };
        if claimant.floor > 0 || *of.get_or_insert(*band) != *band {
            return None;
        }
        demands.push(segment.demand.min(claimant.most()));
        weights.push(segment.weight);
    }
    of
}

/// State of a claimant while the bands are served.
struct Account<'a> {
    claimant: &'a Claimant,
    part: u64,
    /// Part of its floor that no band has counted yet.
    floor: u64,
    /// Part of its ceiling that no band has used yet.
    ceiling: u64,
}

fn by_bands(capacity: u64, claimants: &[Claimant], warm: &mut Warm) -> Vec<u64> {
    let floors = floors(capacity, claimants);
    let mut left = rest(capacity, &floors);
    let mut accounts: Vec<Account<'_>> = claimants
        .iter()
        .zip(floors)
        .map(|(claimant, floor)| Account {
            claimant,
            part: floor,
            floor,
            ceiling: claimant.most(),
        })
        .collect();
    for band in order(claimants) {
        if left == 0 {
            break;
        }
        left = serve(band, left, &mut accounts, warm);
    }
    accounts.iter().map(|account| account.part).collect()
}

/// Returns all bands in the order in which they are served.
fn order(claimants: &[Claimant]) -> Vec<Band> {
    let bands = claimants.iter().flat_map(|claimant| claimant.demand.iter());
    let bands: BTreeSet<Band> = bands.map(|(band, _)| *band).collect();
    if planted::is(Bug::BandsReversed) {
        return bands.into_iter().collect();
    }
    bands.into_iter().rev().collect()
}

/// Serves one band. Returns the rest of the capacity.
fn serve(band: Band, capacity: u64, accounts: &mut [Account<'_>], warm: &mut Warm) -> u64 {
    let (mut open, mut claims) = (Vec::new(), Vec::new());
    for account in accounts.iter_mut() {
        if let Some(curve) = account.claimant.in_band(band) {
            let (floor, ceiling) = (account.floor, account.ceiling);
            claims.push(Claim::new(curve, floor, ceiling, account.part));
            open.push((account, curve));
        }
    }
    let (parts, level) = fill::fill(capacity, &claims, warm.level(band));
    warm.keep(band, level);
    let left = rest(capacity, &parts);
    for ((account, curve), part) in open.into_iter().zip(parts) {
        account.part = account.part.saturating_add(part);
        // If anything is left for lower bands, this band's demand is met.
        let used = curve.total().min(account.ceiling);
        account.floor = account.floor.saturating_sub(used);
        account.ceiling = account.ceiling.saturating_sub(used);
    }
    left
}

/// Returns the number of bits by which the weights must be made coarser to add up to at most 64 bits.
fn excess_weight(claimants: &[Claimant]) -> u32 {
    let curves = claimants.iter().flat_map(|claimant| claimant.demand.iter());
    let sum: u128 = curves.map(|(_, curve)| u128::from(curve.weight())).sum();
    if sum <= u128::from(u64::MAX) {
        return 0;
    }
    // Room for one grain more per segment, which rounding up may add.
    sum.ilog2().saturating_sub(61)
}

fn coarser(claimants: &[Claimant], shift: u32) -> Vec<Claimant> {
    let curve = |curve: &DemandCurve| curve.coarser(shift);
    claimants
        .iter()
        .map(|claimant| Claimant {
            demand: claimant
                .demand
                .iter()
                .map(|(band, demand)| (*band, curve(demand)))
                .collect(),
            ..claimant.clone()
        })
        .collect()
}
