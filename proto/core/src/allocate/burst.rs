//! Burst capacity: rate never comes without it, and a large cost needs it in
//! one place.

use super::fill::fill;
use super::solver::Claim;
use crate::demand::DemandCurve;
use crate::share::apportion;
use alloc::vec::Vec;

/// A holder's part of the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Burst {
    /// So many units; 0 only for a holder without rate.
    Part(u64),
    /// There are fewer whole tokens than holders and this one is left without:
    /// its requests are to be decided centrally, and its rate is of no use to it.
    Central,
}

impl Burst {
    /// The part in units.
    #[must_use]
    pub const fn units(self) -> u64 {
        match self {
            Self::Part(units) => units,
            Self::Central => 0,
        }
    }
}

/// Deals `burst` (units, `per_token` of them to a token) in proportion to the
/// rates, in whole tokens, at least one to each holder that has a rate.
///
/// If there are fewer tokens than such holders, the highest rates get one each
/// (ties to the earlier). What is no whole token goes to the first holder that
/// has some.
#[must_use]
pub fn deal_burst(burst: u64, per_token: u64, rates: &[u64]) -> Vec<Burst> {
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

/// Whole tokens by rate: max-min fairness among holders who want them all, which
/// gives everybody the first one before anybody a second.
fn tokens_for(whole: u64, rates: &[u64]) -> Vec<u64> {
    let sum: u128 = rates.iter().map(|&rate| u128::from(rate)).sum();
    let shift = match sum > u128::from(u64::MAX) {
        true => sum.ilog2().saturating_sub(61),
        false => 0,
    };
    let weight = |rate: u64| rate.checked_shr(shift).unwrap_or(0).max(1);
    // Who has a rate has a token by its part alone, mostly: then that is all.
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

/// A holder of burst with somebody waiting, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The part it has, or would be dealt.
    pub part: u64,
    /// What of it floors pin down: no gathering moves this.
    pub pinned: u64,
    /// The largest cost that waits there; 0 if none does.
    pub waiting: u64,
    /// For how long it has waited, in any unit common to all holders.
    pub age: u64,
}

/// What the waiting costs call for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gathering {
    /// The holder to gather for and everybody's parts meanwhile: nobody else
    /// has more than its pinned floor. `None` if every cost fits where it waits.
    pub plan: Option<(usize, Vec<u64>)>,
    /// Holders whose waiting cost no gathering can serve: to be refused at once.
    pub refused: Vec<usize>,
}

/// Finds the cost to gather burst for: of those greater than the part where they
/// wait, the one that has waited longest (ties to the earlier holder).
///
/// A cost is served up to `burst − Σ pinned`; the holder gets all of that on
/// top of what is pinned there.
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
