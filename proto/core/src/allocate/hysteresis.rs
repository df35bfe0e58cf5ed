//! Hysteresis: small changes cause no traffic.

use crate::demand::wide;
use crate::planted::{self, Bug};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Maximum of a small change, per thousand of the greater of old and new: 5 %, twice the noise of a Poisson
/// stream of 1,600 requests per report.
pub const HELD_BACK_PER_MILLE: u64 = 50;

/// A part that is held, and the part that should be held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Change {
    /// The held part.
    pub held: u64,
    /// The allocated part.
    pub target: u64,
    /// True if the two have differed for so short a time that it may be noise.
    pub young: bool,
}

/// Returns true if a change waits: it is small, and young.
///
/// From nothing to something and from something to nothing are changes by the whole part, so neither ever
/// waits. A difference that is not young never waits either, however small.
#[must_use]
pub fn held_back(change: Change) -> bool {
    let Change {
        held,
        target,
        young,
    } = change;
    held != target && young && is_small(held, target)
}

/// Returns true if the held part differs little from the target.
#[must_use]
pub fn is_small(held: u64, target: u64) -> bool {
    wide(held.abs_diff(target), 1_000) <= wide(held.max(target), HELD_BACK_PER_MILLE)
}

/// Returns the parts to aim at now: each target, or the held part if the change is held back. Together they
/// never exceed `capacity`, which the targets fit.
///
/// A cut that another claimant needs is not held back: as many cuts as necessary are made after all, the
/// largest first, ties by order. So a newcomer's first part never waits for small changes of others.
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
