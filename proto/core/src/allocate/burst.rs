//! Burst capacity: rate never comes without it, and a large cost needs it at one holder.

use super::fill::fill;
use super::solver::Claim;
use crate::demand::DemandCurve;
use crate::share::apportion;
use alloc::vec::Vec;

/// A holder's part of the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Burst {
    /// This many units; 0 only for a holder without rate.
    Part(u64),
    /// There are fewer whole tokens than holders, and this one gets none. Its requests must be decided in
    /// central mode, and its rate is of no use to it.
    Central,
}

impl Burst {
    /// Returns the part in units.
    #[must_use]
    pub const fn units(self) -> u64 {
        match self {
            Self::Part(units) => units,
            Self::Central => 0,
        }
    }
}

/// Divides `burst` (units, `per_token` of them to a token) in proportion to the rates, in whole tokens, at
/// least one to each holder that has a rate.
///
/// If there are fewer tokens than such holders, the highest rates get one each (ties to the earlier). The
/// fraction of a token goes to the first holder that has some.
#[must_use]
pub fn distribute_burst(burst: u64, per_token: u64, rates: &[u64]) -> Vec<Burst> {
    let whole = burst.checked_div(per_token).unwrap_or(0);
    let mut tokens = tokens_for(whole, rates);
    let mut fraction = burst.checked_rem(per_token);
    for units in &mut tokens {
        // Whole tokens of the burst: the product is at most the burst.
        *units = units.saturating_mul(per_token);
        if *units > 0 {
            *units = units.saturating_add(fraction.take().unwrap_or(0));
        }
    }
    tokens
        .into_iter()
        .zip(rates)
        .map(|(units, &rate)| match (units, rate) {
            (0, 1..) => Burst::Central,
            _ => Burst::Part(units),
        })
        .collect()
}

/// Divides `burst` in the same way, but gives a holder with a rate no less than its floor, as far as the floors fit.
/// The others divide what is left. Returns the parts in units.
#[must_use]
pub fn distribute_burst_above(
    floors: &[u64],
    burst: u64,
    per_token: u64,
    rates: &[u64],
) -> Vec<u64> {
    let mut pinned = alloc::vec![false; rates.len()];
    let (mut open, mut rest) = (rates.to_vec(), burst);
    loop {
        let dealt = distribute_burst(rest, per_token, &open);
        let before = rest;
        for (index, part) in dealt.iter().enumerate() {
            let floor = floors.get(index).copied().unwrap_or(0);
            if let (Some(rate), Some(pin)) = (open.get_mut(index), pinned.get_mut(index))
                && *rate > 0
                && part.units() < floor
                && let Some(left) = rest.checked_sub(floor)
            {
                (rest, *rate, *pin) = (left, 0, true);
            }
        }
        if rest == before {
            let parts = dealt.iter().zip(&pinned).zip(floors);
            let part = |((part, &pin), &floor): ((&Burst, &bool), &u64)| match pin {
                true => floor,
                false => part.units(),
            };
            return parts.map(part).collect();
        }
    }
}

/// Divides whole tokens by rate: max-min fairness among holders with unlimited demand, in which each gets its
/// first token before any gets a second.
fn tokens_for(whole: u64, rates: &[u64]) -> Vec<u64> {
    let sum: u128 = rates.iter().map(|&rate| u128::from(rate)).sum();
    let shift = match sum > u128::from(u64::MAX) {
        true => sum.ilog2().saturating_sub(61),
        false => 0,
    };
    let weight = |rate: u64| rate.checked_shr(shift).unwrap_or(0).max(1);
    // Mostly each holder with a rate gets a token in proportion: then that is the result.
    let weights = rates.iter().map(|&rate| match rate {
        0 => 0,
        _ => weight(rate),
    });
    let parts = apportion(whole, &weights.collect::<Vec<u64>>());
    let mut served = parts.iter().zip(rates);
    if served.all(|(&part, &rate)| part > 0 || rate == 0) {
        return parts;
    }
    let curves: Vec<DemandCurve> = rates
        .iter()
        .map(|&rate| match rate {
            0 => DemandCurve::EMPTY,
            _ => DemandCurve::greedy(weight(rate)),
        })
        .collect();
    let claims: Vec<Claim<'_>> = curves
        .iter()
        .map(|curve| Claim::new(curve, 0, u64::MAX, 0))
        .collect();
    fill(whole, &claims, None).0
}

/// A holder of burst, with the requests that wait there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The part that it has, or would be given.
    pub part: u64,
    /// The part that floors pin down. It is never moved.
    pub pinned: u64,
    /// The largest cost that waits there; 0 if none does.
    pub waiting: u64,
    /// Time for which it has waited, in any unit common to all holders.
    pub age: u64,
}

/// Burst to collect for costs that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gathering {
    /// The holder to collect for, and the parts of all holders meanwhile: each other holder keeps only its
    /// pinned floor. `None` if every cost fits where it waits.
    pub plan: Option<(usize, Vec<u64>)>,
    /// Holders whose waiting cost no collection can serve: refuse it at once.
    pub refused: Vec<usize>,
}

/// Finds the cost to collect burst for: of the costs greater than the part where they wait, the one that has
/// waited longest (ties to the earlier holder).
///
/// A cost is served up to `burst − Σ pinned`. The holder gets all of that in addition to the part pinned
/// there.
#[must_use]
pub fn gather(burst: u64, holders: &[Holder]) -> Gathering {
    let pinned: u128 = holders.iter().map(|holder| u128::from(holder.pinned)).sum();
    let free = u128::from(burst)
        .checked_sub(pinned)
        .and_then(|free| u64::try_from(free).ok())
        .unwrap_or(0);
    let too_large = |holder: &Holder| holder.waiting > holder.part;
    let waiting = || {
        holders
            .iter()
            .enumerate()
            .filter(|(_, holder)| too_large(holder))
    };
    let refused = waiting()
        .filter(|(_, holder)| holder.waiting > free)
        .map(|(index, _)| index)
        .collect();
    let oldest = waiting()
        .filter(|(_, holder)| holder.waiting <= free)
        .min_by_key(|&(index, holder)| (core::cmp::Reverse(holder.age), index))
        .map(|(index, _)| index);
    let plan = oldest.map(|to| {
        let meanwhile = |(index, holder): (usize, &Holder)| match index == to {
            true => holder.pinned.saturating_add(free),
            false => holder.pinned,
        };
        (to, holders.iter().enumerate().map(meanwhile).collect())
    });
    Gathering { plan, refused }
}
