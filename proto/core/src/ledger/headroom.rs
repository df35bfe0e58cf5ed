//! The headroom of many children: it stays where it is, and newcomers get theirs from few.
//!
//! If all demand fits, a plan divides only what no child wants. Equal parts of that are worth little, and cost much:
//! of *n* children that come one after the other, each would take a little from all before it, *n*²/2 recalls and
//! grants. So among many children, one that has what it wants and at least a quarter of its fair part keeps what it
//! has. A newcomer gets between half of its fair part and all of it, from what is free, and else from those who have
//! most: each of these keeps what it wants, and at least half of its fair part. So a child is recalled from again
//! only when there are about twice as many, and the messages that a newcomer costs do not grow with their number.
//!
//! If someone lacks something, everything is divided anew. So it is if much has stayed free for a second. While clients
//! come, their node's own part grows again and again. Divided each time, it would cost a grant for each child, and what
//! the next newcomers get would have to be recalled.
//!
//! ```text
//!              much is free           for a second
//!  divided ───────────────────► free ──────────────► divided anew
//!     ▲                          │
//!     └──────────────────────────┘
//!       newcomers took most of it
//! ```

use super::candidate::{Candidate, Room, WholeView};
use super::plan_changes::Plan;
use crate::allocate::{Headroom, Policy, distribute_burst};
use crate::planted::{self, Bug};
use crate::unit::{Span, Tick, mul_div_floor};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Minimum number of children that are many. Fewer get equal parts, at the cost of a few messages.
const MANY: usize = 8;

/// Time for which much stays free before it is divided among all.
const FREE_FOR: Span = Span::from_secs(1);

/// Minimum number of whole tokens of burst for each child, so that half a part still has several.
const TOKENS_LEAST: u64 = 4;

/// A rate to hold, and the burst that comes with it.
pub(super) type Part = (u64, u64);

/// Parts to hold if all demand fits and only headroom would move.
pub(super) struct Stay {
    pub(super) parts: Vec<Part>,
    /// Set if more than an eighth stays free.
    pub(super) leaves_much: bool,
}

impl Stay {
    /// Returns true if what stays free is to be divided now. `free_since` is kept between plans of a budget: the time
    /// since which much has been free.
    pub(super) fn ends(&self, free_since: &mut Option<Tick>, plan: &mut Plan, now: Tick) -> bool {
        if !self.leaves_much {
            *free_since = None;
            return false;
        }
        let until = free_since.get_or_insert(now).after(FREE_FOR);
        let is_over = now >= until && !planted::is(Bug::FreeNeverDivided);
        if !is_over {
            plan.look_again(until);
        }
        is_over
    }
}

/// Returns the parts to hold if all demand fits and only headroom would move; `fair` has the equal rates, and `needed` the
/// least bursts. Returns `None` if everything is to be divided by `fair`.
pub(super) fn stays(
    (candidates, needed): (&[Candidate<'_>], &[u64]),
    fair: &[u64],
    room: &Room,
    view: &WholeView,
) -> Option<Stay> {
    let number = u64::try_from(candidates.len()).ok()?;
    let by_demand =
        view.terms.policy == Policy::MaxMin && view.terms.headroom == Headroom::ByWeight;
    let suits = by_demand
        && candidates.len() >= MANY
        && room.whole_burst(view.scale) >= number.saturating_mul(TOKENS_LEAST)
        && candidates
            .iter()
            .zip(fair)
            .all(|(of, &fair)| fits(of, fair))
        && !planted::is(Bug::CrowdDividedAnew);
    if !suits {
        return None;
    }
    let ceiling = view.ceiling.map(|ceiling| ceiling.rate.grains());
    let token = view.scale.grains_per_token();
    let keeps = |((candidate, &fair), &needed): ((&Candidate<'_>, &u64), &u64)| {
        let burst = mul_div_floor(room.burst, fair, room.rate.max(1)).unwrap_or(room.burst);
        let kept = candidate.kept;
        // A grant may have been cut to what was free of either.
        let has_both = kept.rate.grains() >= fair / 4
            && kept.burst.grains() >= token.max(burst / 4).max(needed);
        fair > 0 && has_both && candidate.is_at_ease(ceiling)
    };
    let keep: Vec<bool> = candidates.iter().zip(fair).zip(needed).map(keeps).collect();
    let (rates, free) = rates(candidates, fair, &keep, room.rate)?;
    let (bursts, free_burst) = bursts(candidates, &keep, &rates, room, view)?;
    Some(Stay {
        parts: rates.into_iter().zip(bursts).collect(),
        leaves_much: free > room.rate / 8 || free_burst > room.burst / 8,
    })
}

/// Returns true if a child has a usual claim that its fair part covers.
fn fits(candidate: &Candidate<'_>, fair: u64) -> bool {
    let usual = candidate.requested_floor.is_empty() && candidate.waits.is_none();
    let divided = !candidate.central && candidate.asked.is_none();
    let covered = candidate.demand <= fair;
    candidate.leaving || (usual && divided && covered)
}

/// Returns the rates and what they leave free: what is kept, and for who lacks a part an equal one, or half of it if that
/// must be taken from others. Returns `None` if they cannot spare enough.
fn rates(
    candidates: &[Candidate<'_>],
    fair: &[u64],
    keep: &[bool],
    whole: u64,
) -> Option<(Vec<u64>, u64)> {
    let parts = |of_lacking: &dyn Fn(&Candidate<'_>, u64) -> u64| -> Vec<u64> {
        let parts = candidates.iter().zip(fair).zip(keep);
        let part = |((candidate, &fair), &keep): ((&Candidate<'_>, &u64), &bool)| match keep {
            true => candidate.kept.rate.grains(),
            false if candidate.leaving => 0,
            false => of_lacking(candidate, fair).max(candidate.kept.rate.grains().min(fair)),
        };
        parts.map(part).collect()
    };
    let left = |rates: &[u64]| {
        let mut rates = rates.iter();
        let sum = rates.try_fold(0_u64, |sum, &rate| sum.checked_add(rate));
        sum.and_then(|sum| whole.checked_sub(sum))
    };
    let equal = parts(&|_, fair| fair);
    if let Some(left) = left(&equal) {
        return Some((equal, left));
    }
    let mut rates = parts(&|candidate, fair| least(candidate, fair, 2));
    take_from_few(candidates, fair, keep, whole, &mut rates)?;
    left(&rates).map(|left| (rates, left))
}

/// Returns `times` what a child wants, or half of its fair part if that is more, within the fair part.
fn least(candidate: &Candidate<'_>, fair: u64, times: u64) -> u64 {
    let wants = candidate.demand.saturating_mul(times);
    wants.max(fair / 2).min(fair)
}

/// Takes what is missing from the children that can spare most. Returns `None` if they cannot spare enough.
fn take_from_few(
    candidates: &[Candidate<'_>],
    fair: &[u64],
    keep: &[bool],
    whole: u64,
    rates: &mut [u64],
) -> Option<()> {
    let mut sum = rates
        .iter()
        .try_fold(0_u64, |sum, &rate| sum.checked_add(rate))?;
    let spare = candidates.iter().zip(fair).zip(keep).zip(rates.iter());
    let spare = spare.map(|(((candidate, &fair), &keep), &rate)| match keep {
        true => rate.saturating_sub(least(candidate, fair, 1)),
        false => 0,
    });
    let mut spare: Vec<(Reverse<u64>, usize)> = spare.map(Reverse).zip(0..).collect();
    if sum > whole {
        spare.sort_unstable();
    }
    for (Reverse(spare), place) in spare {
        if sum <= whole {
            break;
        }
        if let Some(rate) = rates.get_mut(place) {
            (*rate, sum) = (rate.saturating_sub(spare), sum.saturating_sub(spare));
        }
    }
    (sum <= whole).then_some(())
}

/// Returns the bursts and what they leave free: in proportion for a child that is recalled from, and for the others of
/// what is left.
fn bursts(
    candidates: &[Candidate<'_>],
    keep: &[bool],
    rates: &[u64],
    room: &Room,
    view: &WholeView,
) -> Option<(Vec<u64>, u64)> {
    let per_token = view.scale.grains_per_token();
    let mut open = Vec::with_capacity(rates.len());
    let mut parts = Vec::with_capacity(rates.len());
    let mut left = room.burst;
    for ((candidate, &keep), &rate) in candidates.iter().zip(keep).zip(rates) {
        let (held, burst) = (candidate.kept.rate.grains(), candidate.kept.burst.grains());
        let part = match keep {
            true if rate == held => burst,
            true => whole_tokens(mul_div_floor(burst, rate, held)?, per_token)?
                .max(per_token.min(burst)),
            false => 0,
        };
        left = left.checked_sub(part)?;
        parts.push(part);
        open.push(if keep { 0 } else { rate });
    }
    let wanted: u64 = open
        .iter()
        .try_fold(0_u64, |sum, &rate| sum.checked_add(rate))?;
    let number = u64::try_from(open.iter().filter(|rate| **rate > 0).count()).ok()?;
    let most = mul_div_floor(room.burst, wanted, room.rate.max(1))?;
    let most = most.checked_add(number.checked_mul(per_token)?)?;
    let dealt = distribute_burst(whole_tokens(left.min(most), per_token)?, per_token, &open);
    for ((part, dealt), &rate) in parts.iter_mut().zip(dealt).zip(&open) {
        if rate > 0 {
            *part = dealt.units();
            left = left.checked_sub(*part)?;
            // Rate without burst is of no use.
            (*part > 0).then_some(())?;
        }
    }
    Some((parts, left))
}

/// Rounds down to whole tokens.
fn whole_tokens(units: u64, per_token: u64) -> Option<u64> {
    units.checked_sub(units.checked_rem(per_token)?)
}
