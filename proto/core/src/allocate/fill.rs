//! One band: divides the rest of a capacity in whole units.

use super::claimant::{add, rest};
use super::remainder::largest_remainders;
use super::solver::{Claim, level_for};
use crate::demand::Level;
use alloc::vec::Vec;

/// Divides `capacity` among the claims of one band, each beyond its floor. Returns the parts and the level.
///
/// A claimant that has demand and no part yet gets one unit first, which counts toward its part: see the
/// parent module. If no claimant would have been rounded down to nothing, this changes neither the level nor
/// a part.
pub(super) fn fill(capacity: u64, claims: &[Claim<'_>], from: Option<Level>) -> (Vec<u64>, Level) {
    let needy = claims.iter().filter(|claim| claim.has_nothing()).count();
    let needy = u64::try_from(needy).unwrap_or(u64::MAX);
    let Some(left) = capacity.checked_sub(needy) else {
        let level = level_for(capacity, claims, from);
        return (one_each(capacity, claims), level);
    };
    let (helped, first): (Vec<Claim<'_>>, Vec<u64>) = claims
        .iter()
        .map(|claim| match claim.has_nothing() {
            true => (claim.with_one(), 1),
            false => (claim.clone(), 0),
        })
        .unzip();
    let level = level_for(left, &helped, from);
    let mut parts = distribute(left, &helped, level);
    add(&mut parts, first);
    (parts, level)
}

/// Returns every claim's part beyond its floor at this level, in whole units.
fn distribute(capacity: u64, claims: &[Claim<'_>], level: Level) -> Vec<u64> {
    let (mut parts, remainders): (Vec<u64>, Vec<u64>) =
        claims.iter().map(|claim| claim.beyond(level)).unzip();
    if !level.is_full() {
        let left = rest(capacity, &parts);
        largest_remainders(&mut parts, &remainders, left);
    }
    parts
}

/// Returns one unit for each of the heaviest claims that have nothing, ties to the earlier.
fn one_each(capacity: u64, claims: &[Claim<'_>]) -> Vec<u64> {
    let mut parts: Vec<u64> = claims.iter().map(|_| 0).collect();
    let keys: Vec<u64> = claims
        .iter()
        .map(|claim| match claim.has_nothing() {
            true => claim.curve.weight().max(1),
            false => 0,
        })
        .collect();
    largest_remainders(&mut parts, &keys, capacity);
    parts
}
