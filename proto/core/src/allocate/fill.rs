//! One band: from what is left to whole units for each.

use super::solver::{Claim, level_for};
use crate::demand::Level;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Divides `capacity` among the claims of one band, each beyond its floor, and
/// finds the level it is done at.
///
/// Who would be rounded down to nothing though it wants and has nothing yet is
/// helped first: see the module above.
pub(super) fn fill(capacity: u64, claims: &[Claim<'_>], from: Option<Level>) -> (Vec<u64>, Level) {
    let level = level_for(capacity, claims, from);
    let starves = |claim: &Claim<'_>| claim.has_nothing() && claim.beyond(level).0 == 0;
    if level.is_full() || !claims.iter().any(starves) {
        return (deal(capacity, claims, level), level);
    }
    let needy = claims.iter().filter(|claim| claim.has_nothing()).count();
    let needy = u64::try_from(needy).unwrap_or(u64::MAX);
    let Some(left) = capacity.checked_sub(needy) else {
        return (one_each(capacity, claims), level);
    };
    let (helped, first): (Vec<Claim<'_>>, Vec<u64>) = claims
        .iter()
        .map(|claim| match claim.has_nothing() {
            true => (claim.with_one(), 1),
            false => (claim.clone(), 0),
        })
        .unzip();
    let level = level_for(left, &helped, Some(level));
    let mut parts = deal(left, &helped, level);
    super::add(&mut parts, first);
    (parts, level)
}

/// Every claim's part beyond its floor at this level, in whole units.
fn deal(capacity: u64, claims: &[Claim<'_>], level: Level) -> Vec<u64> {
    let (mut parts, remainders): (Vec<u64>, Vec<u64>) =
        claims.iter().map(|claim| claim.beyond(level)).unzip();
    if !level.is_full() {
        let left = super::rest(capacity, &parts);
        largest_remainders(&mut parts, &remainders, left);
    }
    parts
}

/// One unit for each of the heaviest that have nothing, ties to the earlier.
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

/// Gives one of `units` to each of the largest remainders, none to those
/// without; ties go to the earlier.
///
/// Remainders are counted by their upper bits first, so that only those of the
/// one bucket in which the units run out are ever compared.
pub(super) fn largest_remainders(parts: &mut [u64], remainders: &[u64], units: u64) {
    if units == 0 {
        return;
    }
    let (from, above, shift) = match remainders.len() {
        ..=COUNTED_FROM => (0, 0, u64::BITS),
        _ => last_bucket(remainders, units),
    };
    let bucket = |remainder: u64| remainder.checked_shr(shift).unwrap_or(0);
    let mut order: Vec<(Reverse<u64>, usize)> = Vec::with_capacity(COUNTED_FROM);
    for ((index, &remainder), part) in remainders.iter().enumerate().zip(parts.iter_mut()) {
        *part = part.saturating_add(u64::from(bucket(remainder) > from));
        if bucket(remainder) == from && remainder > 0 {
            order.push((Reverse(remainder), index));
        }
    }
    let units = usize::try_from(units.saturating_sub(above)).unwrap_or(usize::MAX);
    if units > 0 && units < order.len() {
        order.select_nth_unstable(units.saturating_sub(1));
    }
    for &(_, index) in order.iter().take(units) {
        if let Some(part) = parts.get_mut(index) {
            *part = part.saturating_add(1);
        }
    }
}

/// Fewer remainders than this are compared without counting.
const COUNTED_FROM: usize = 64;

/// The bucket in which the units run out, how many remainders are above it, and
/// how many bits a remainder's bucket leaves out.
fn last_bucket(remainders: &[u64], units: u64) -> (u64, u64, u32) {
    let greatest = remainders.iter().fold(0, |all, &remainder| all | remainder);
    let bits = u64::BITS.saturating_sub(greatest.leading_zeros());
    let shift = bits.saturating_sub(u8::BITS);
    let mut counts = [0_u64; 256];
    for &remainder in remainders {
        let bucket = usize::try_from(remainder.checked_shr(shift).unwrap_or(0));
        if let Some(count) = bucket.ok().and_then(|bucket| counts.get_mut(bucket)) {
            *count = count.saturating_add(1);
        }
    }
    let mut above = 0_u64;
    for (bucket, count) in (0..=u64::from(u8::MAX)).rev().zip(counts.into_iter().rev()) {
        let with = above.saturating_add(count);
        if with >= units {
            return (bucket, above, shift);
        }
        above = with;
    }
    (0, above, shift)
}
