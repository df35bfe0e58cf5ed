//! Keeping a wobble from becoming traffic.

use crate::demand::wide;
use crate::planted::{self, Bug};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A change of up to this part of the greater of old and new is small: 5 %,
/// twice the noise of a Poisson stream of 1,600 requests per report.
pub const HELD_BACK_PER_MILLE: u64 = 50;

/// A part that is held, and the part that should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Change {
    /// What the claimant holds.
    pub held: u64,
    /// What the allocation says.
    pub target: u64,
    /// Whether the two have differed for so short a time that it may be a wobble.
    pub young: bool,
}

/// Whether a change waits: it is small and young.
///
/// From nothing to something and from something to nothing are changes by all
/// of it, so neither ever waits; nor does a difference that is not young, however small.
#[must_use]
pub fn held_back(change: Change) -> bool {
    let Change {
        held,
        target,
        young,
    } = change;
    held != target && young && is_small(held, target)
}

/// Whether what is held differs little from what should be.
#[must_use]
pub fn is_small(held: u64, target: u64) -> bool {
    wide(held.abs_diff(target), 1_000) <= wide(held.max(target), HELD_BACK_PER_MILLE)
}

/// The parts to aim at now: each target, or what is held where the change is
/// held back, and never more than `capacity` together, which the targets fit.
///
/// A cut that somebody else needs is not held back: as many cuts as it takes are
/// made after all, the largest first, ties by order. So a newcomer's first part
/// never waits for others' wobbles.
#[must_use]
pub fn damp(capacity: u64, changes: &[Change]) -> Vec<u64> {
    let mut parts: Vec<u64> = changes
        .iter()
        .map(|&change| match held_back(change) {
            true => change.held,
            false => change.target,
        })
        .collect();
    let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
    let mut over = sum.saturating_sub(u128::from(capacity));
    if over == 0 {
        return parts;
    }
    let least = |change: &Change| match planted::is(Bug::NewcomerHeldBack) {
        true => change.held,
        false => change.target,
    };
    let mut cuts: Vec<(Reverse<u64>, usize)> = changes
        .iter()
        .zip(&parts)
        .map(|(change, part)| Reverse(part.saturating_sub(least(change))))
        .zip(0..)
        .collect();
    cuts.sort_unstable();
    for (Reverse(cut), index) in cuts {
        if over == 0 {
            break;
        }
        over = over.saturating_sub(u128::from(cut));
        if let Some(part) = parts.get_mut(index) {
            *part = part.saturating_sub(cut);
        }
    }
    parts
}
