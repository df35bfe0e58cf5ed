//! The part of a budget that each child should hold, for each kind of budget.

use super::candidate::{Candidate, Dealing, Room, WholeView};
use super::central_mode::{CentralPlacement, SmallPart};
use super::headroom;
use super::plan_changes::Plan;
use crate::allocate::{self, Change, Claimant, Headroom, Policy, Warm};
use crate::demand::{ESCROW, Level, WEIGHT_ONE};
use crate::edge::Vector;
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::unit::{Rate, Span, Tick, Tokens, mul_div_floor};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Number of slices in which a child's even part of a quota is dealt at least.
const SLICES: u64 = 16;

/// Returns the parts in central mode: floors, and everything else to the home if there is one.
pub(super) fn undivided_parts(
    candidates: &mut [Candidate<'_>],
    room: &Room,
    placement: CentralPlacement,
    kind: Kind,
) -> Vec<Vector> {
    let home = match placement {
        CentralPlacement::Here => None,
        CentralPlacement::Home => home(candidates, kind),
    };
    let mut left = Vector {
        rate: Rate::from_grains(room.rate),
        burst: Tokens::from_grains(room.burst),
        ..Vector::ZERO
    };
    if kind == Kind::Quota {
        left.tokens = Tokens::from_grains(room.tokens);
    }
    let mut parts: Vec<Vector> = candidates
        .iter_mut()
        .map(|candidate| {
            candidate.set_differs(None);
            // Here the whole budget is in central mode.
            candidate.set_central(false);
            let floor = carried(candidate.floor().meet(left), kind);
            left = left.ahead_of(floor);
            Vector {
                floor_rate: floor.rate,
                floor_burst: floor.burst,
                ..floor
            }
        })
        .collect();
    if let Some(part) = home.and_then(|home| parts.get_mut(home)) {
        *part = carried(part.plus(left).unwrap_or(*part), kind);
    }
    parts
}

/// Returns the part, or nothing for a rate without burst.
fn carried(part: Vector, kind: Kind) -> Vector {
    match part.burst.is_zero() && kind == Kind::Rate {
        true => Vector::ZERO,
        false => part,
    }
}

/// Returns the child that holds most of the budget, the first of equals. If none holds any, returns the first
/// that wants it. Every replica makes the same choice from the book.
fn home(candidates: &[Candidate<'_>], kind: Kind) -> Option<usize> {
    let staying = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| !candidate.leaving);
    staying
        .max_by_key(|(index, candidate)| {
            (
                candidate.booked.capacity(kind),
                candidate.wants(),
                Reverse(*index),
            )
        })
        .map(|(index, _)| index)
}

/// Returns the parts of a rate budget: rate by demand, damped against small changes, and burst in proportion.
pub(super) fn rate_parts(
    candidates: &mut [Candidate<'_>],
    room: &Room,
    view: &WholeView,
    (warm, free_since): (&mut Warm, &mut Option<Tick>),
    now: Tick,
    plan: &mut Plan,
) -> Vec<Vector> {
    let ceiling = view.ceiling.map(|ceiling| ceiling.rate.grains());
    // If there are fewer tokens than claimants, idle ones get none.
    let number = u64::try_from(candidates.len()).unwrap_or(u64::MAX);
    let too_few_tokens = room.whole_burst(view.scale) < number;
    let claimants: Vec<Claimant> = candidates
        .iter()
        .map(|candidate| match too_few_tokens && !candidate.wants() {
            true => candidate.floor_alone(candidate.requested_floor.rate.grains()),
            false => candidate.claimant(candidate.requested_floor.rate.grains(), ceiling),
        })
        .collect();
    let needed = needed_bursts(candidates, &claimants, room, view);
    let targets = match suits_all((candidates, &claimants, &needed), room, view, ceiling) {
        true => candidates.iter().map(|of| of.kept.rate.grains()).collect(),
        false => allocate::allocate(room.rate, &claimants, view.terms, warm),
    };
    let stay = headroom::stays((candidates, &needed), &targets, room, view);
    if let Some(stay) = stay.filter(|stay| !stay.ends(free_since, plan, now)) {
        for candidate in candidates.iter_mut() {
            candidate.set_differs(None);
        }
        return vectors(candidates, stay.parts.into_iter(), plan);
    }
    *free_since = None;
    let changes: Vec<Change> = candidates
        .iter_mut()
        .zip(&targets)
        .map(|(candidate, &target)| {
            // A part that stays at the parent is moved by planning it.
            let held = match candidate.central {
                true => target,
                false => candidate.kept.rate.grains(),
            };
            // A small difference that no child lacks is not worth a message. `damp` removes it once some
            // child lacks it.
            let content = candidate.is_content(ceiling) && allocate::is_small(held, target);
            let differs = match held == target || content {
                true => None,
                false => Some(candidate.differs.unwrap_or(now)),
            };
            candidate.set_differs(differs);
            let differs = differs.map_or(Span::ZERO, |since| now.since(since));
            let left = view.held_back.minus_or_zero(differs);
            let young = !left.is_zero();
            if held != target && !content {
                plan.look_again(now.after(if young { left } else { view.held_back }));
            }
            Change {
                held,
                target,
                young,
            }
        })
        .collect();
    let rates = allocate::damp(room.rate, &changes);
    let dealt = divided_burst((candidates, &needed), &rates, room, view);
    switch_small_parts((candidates, &dealt), room, view, now, plan);
    let bursts = collected(candidates, dealt, room, now);
    vectors(candidates, rates.into_iter().zip(bursts), plan)
}

/// Divides the burst in proportion to the rates. No part is less than its floor, or than what is needed beside the rate,
/// as far as both fit.
fn divided_burst(
    (candidates, needed): (&[Candidate<'_>], &[u64]),
    rates: &[u64],
    room: &Room,
    view: &WholeView,
) -> Vec<u64> {
    let floors = candidates
        .iter()
        .map(|of| of.requested_floor.burst.grains());
    let floors: Vec<u64> = floors.collect();
    let least = floors.iter().zip(needed);
    let least: Vec<u64> = least.map(|(&floor, &needed)| floor.max(needed)).collect();
    let sum = least
        .iter()
        .try_fold(0_u64, |sum, &part| sum.checked_add(part));
    let least = match sum.is_some_and(|sum| sum <= room.burst) {
        true => least,
        false => floors,
    };
    allocate::distribute_burst_above(&least, room.burst, view.scale.grains_per_token(), rates)
}

/// Returns the parts to hold. Of a part that stays at the parent, the child holds its floor.
fn vectors(
    candidates: &[Candidate<'_>],
    parts: impl Iterator<Item = (u64, u64)>,
    plan: &mut Plan,
) -> Vec<Vector> {
    parts
        .zip(candidates)
        .map(|((rate, burst), candidate)| {
            let (mut rate, mut burst) = (Rate::from_grains(rate), Tokens::from_grains(burst));
            if candidate.central {
                plan.central.push((candidate.child, rate));
                rate = rate.min(candidate.requested_floor.rate);
                burst = burst.min(candidate.requested_floor.burst);
            }
            let rate = if burst.is_zero() { Rate::ZERO } else { rate };
            Vector {
                rate,
                burst,
                floor_rate: candidate.requested_floor.rate.min(rate),
                floor_burst: candidate.requested_floor.burst.min(burst),
                ..Vector::ZERO
            }
        })
        .collect()
}

/// Decides which children's parts stay at the parent: small ones, of children that ask for decisions.
fn switch_small_parts(
    (candidates, bursts): (&mut [Candidate<'_>], &[u64]),
    room: &Room,
    view: &WholeView,
    now: Tick,
    plan: &mut Plan,
) {
    let asks = |candidate: &&mut Candidate<'_>| SmallPart::is_recent(candidate.asked, now);
    let requesters = candidates.iter_mut().filter(asks).count();
    for (candidate, &burst) in candidates.iter_mut().zip(bursts) {
        let part = SmallPart {
            burst: view.scale.whole(Tokens::from_grains(burst)),
            has_whole: room.burst > 0,
            waiting: candidate.waiting(view.scale),
            is_central: candidate.central,
            asked: candidate.asked,
        };
        let stays = part.stays(requesters, now) && !candidate.leaving;
        if candidate.set_central(stays) {
            plan.switched.push(candidate.child);
        }
        match part.asked {
            Some(at) if stays => plan.look_again(at.after(SmallPart::RECENT)),
            Some(_) if !SmallPart::is_recent(part.asked, now) => candidate.claim.set_asked(None),
            _ => {}
        }
    }
}

/// Returns the bursts that children need beside the rate: a node some tokens for each of its clients that want any, but
/// at most half of its part by weight.
///
/// Its part in proportion to the rate may be less than a token for each. It could not divide that among them, and would
/// decide for all of them in central mode, where callers that do not wait are refused.
fn needed_bursts(
    candidates: &[Candidate<'_>],
    claimants: &[Claimant],
    room: &Room,
    view: &WholeView,
) -> Vec<u64> {
    let token = view.scale.grains_per_token();
    let weights = claimants
        .iter()
        .fold(0_u64, |sum, claimant| sum.saturating_add(claimant.weight));
    let divides = view.placement == CentralPlacement::Home && !planted::is(Bug::ClientsUncounted);
    let needed = |(candidate, claimant): (&Candidate<'_>, &Claimant)| {
        let equal = mul_div_floor(room.burst, claimant.weight, weights.max(1)).unwrap_or(0);
        let most = (equal / 2).checked_div(token).unwrap_or(0);
        let tokens = candidate
            .wanting_clients()
            .saturating_mul(view.placement.least_burst());
        tokens.min(most).saturating_mul(token)
    };
    match divides {
        true => candidates.iter().zip(claimants).map(needed).collect(),
        false => candidates.iter().map(|_| 0).collect(),
    }
}

/// Returns true if everything is divided already and no child lacks anything, neither rate nor burst. A new plan would
/// move only headroom, which children with pulsing demand would give up and be granted again with every pulse. So it
/// stays where it was used last. A child without a claim has no weight and keeps nothing.
fn suits_all(
    (candidates, claimants, needed): (&[Candidate<'_>], &[Claimant], &[u64]),
    room: &Room,
    view: &WholeView,
    ceiling: Option<u64>,
) -> bool {
    let sum = candidates.iter().try_fold(0_u64, |sum, candidate| {
        sum.checked_add(candidate.kept.rate.grains())
    });
    let has_burst = |(of, &needed): (&Candidate<'_>, &u64)| of.kept.burst.grains() >= needed;
    let by_demand = view.terms.policy == Policy::MaxMin;
    by_demand
        && !planted::is(Bug::HeadroomRestless)
        && claimants.iter().all(|claimant| claimant.weight > 0)
        && sum.is_some_and(|sum| sum <= room.rate && allocate::is_small(sum, room.rate))
        && candidates
            .iter()
            .all(|candidate| candidate.is_at_ease(ceiling))
        && candidates.iter().zip(needed).all(has_burst)
}

/// Collects burst where a request with a large cost waits. What stays at the parent counts as one part.
fn collected(candidates: &[Candidate<'_>], dealt: Vec<u64>, room: &Room, now: Tick) -> Vec<u64> {
    let stays = |candidate: &Candidate<'_>| candidate.central;
    let here = candidates.iter().zip(&dealt);
    let here = here.filter(|(candidate, _)| stays(candidate));
    let here = here.fold(0_u64, |sum, (_, &part)| sum.saturating_add(part));
    let holders: Vec<allocate::Holder> = candidates
        .iter()
        .zip(&dealt)
        .map(|(candidate, &part)| {
            let (since, cost) = candidate.waits.unwrap_or((now, Tokens::ZERO));
            allocate::Holder {
                part: if stays(candidate) { here } else { part },
                pinned: candidate.kept.floor_burst.grains(),
                waiting: cost.grains(),
                age: now.since(since).nanos(),
            }
        })
        .collect();
    // A cost that no collection can serve is refused when it is requested.
    let gathering = allocate::gather(room.burst, &holders);
    gathering.plan.map_or(dealt, |(_, parts)| parts)
}

/// Returns the parts of a quota: an escrow for each child.
///
/// An escrow is as large as the demand, within the limit of [`slices`] at a parent that deals in slices. It is topped
/// up when half of it is used, or a quarter if it may be less than the demand, and recalled when it is twice too
/// large, so that spending causes little traffic. A cost that one token does not serve gets an escrow of its size.
/// If the quota is less than the demand, each child first gets what it can still use before the period ends. What is
/// held at the end is lost to all.
pub(super) fn quota_parts(
    candidates: &[Candidate<'_>],
    room: &Room,
    view: &WholeView,
    warm: &mut Warm,
) -> Vec<Vector> {
    let lacking = lacking(candidates, room);
    let slices = match view.dealing {
        Dealing::Slices if !planted::is(Bug::QuotaDealtWhole) => slices(candidates, room, view),
        _ => Vec::new(),
    };
    let mut claimants: Vec<Claimant> = candidates
        .iter()
        .zip(&lacking)
        .enumerate()
        .map(|(index, (candidate, &floor))| candidate.claimant(floor, slices.get(index).copied()))
        .collect();
    let terms = allocate::Terms {
        headroom: Headroom::Kept,
        ..view.terms
    };
    let rest = view
        .rest
        .filter(|rest| *rest < ESCROW && !planted::is(Bug::EndNotSeen));
    if let Some(rest) = rest {
        let mut soon = claimants.clone();
        for (claimant, candidate) in soon.iter_mut().zip(candidates) {
            let used = expected(candidate, rest).max(claimant.floor);
            claimant.ceiling = Some(claimant.most().min(used));
        }
        let used = allocate::allocate(room.tokens, &soon, terms, warm);
        for (claimant, used) in claimants.iter_mut().zip(used) {
            claimant.floor = used;
        }
    }
    let wants = allocate::allocate(room.tokens, &claimants, terms, warm);
    let settled: Vec<u64> = wants
        .iter()
        .enumerate()
        .zip(candidates.iter().zip(lacking))
        .map(|((index, &want), (candidate, lacking))| {
            let kept = candidate.kept.tokens.grains();
            // An escrow that is as large as the demand lasts for long, and is topped up later.
            let whole = slices.get(index).copied() >= Some(candidate.demand);
            let used = if whole { want / 2 } else { want / 4 };
            let settled = kept > want.saturating_sub(used) && kept <= want.saturating_mul(2);
            if settled && kept >= lacking {
                kept
            } else {
                want
            }
        })
        .collect();
    // Keeping settled escrows may add up to more than there is. Then the demand decides.
    let sum = settled
        .iter()
        .try_fold(0_u64, |sum, &part| sum.checked_add(part));
    let parts = match sum {
        Some(sum) if sum <= room.tokens => settled,
        _ => wants,
    };
    let escrow = |part| Vector {
        tokens: Tokens::from_grains(part),
        ..Vector::ZERO
    };
    parts.into_iter().map(escrow).collect()
}

/// Returns for each child the escrow that its largest lacking cost needs. A part of it would serve no request, so the
/// costs that have waited longest get all of theirs, as far as there is room.
fn lacking(candidates: &[Candidate<'_>], room: &Room) -> Vec<u64> {
    let mut parts: Vec<u64> = candidates.iter().map(|_| 0).collect();
    let staying = candidates.iter().enumerate().filter(|(_, of)| !of.leaving);
    let mut waiting: Vec<_> = staying
        .filter_map(|(index, of)| Some((of.waits?, index)))
        .collect();
    waiting.sort_unstable_by_key(|&((since, _), index)| (since, index));
    let mut left = room.tokens;
    for ((_, cost), index) in waiting {
        if let (Some(part), Some(rest)) = (parts.get_mut(index), left.checked_sub(cost.grains())) {
            (*part, left) = (cost.grains(), rest);
        }
    }
    parts
}

/// Returns the tokens of a quota that a child is expected to use within `span`, which is at most [`ESCROW`].
fn expected(candidate: &Candidate<'_>, span: Span) -> u64 {
    let wants = candidate.demand;
    mul_div_floor(wants, span.nanos(), ESCROW.nanos()).unwrap_or(wants)
}

/// Returns the largest escrow of each child, so that little is void if the child dies. It is the greatest of these:
///
/// - a sixteenth of an even part of what is left of the quota,
/// - what the child uses in one and a half times the silence after which it counts as gone, but no more than it is
///   known to have spent in this period. So a demand that nothing has proved is served in slices that double,
/// - for each claimant below the child one token, or two of the largest lacking cost, or less if it wants less.
fn slices(candidates: &[Candidate<'_>], room: &Room, view: &WholeView) -> Vec<u64> {
    let wanting = candidates.iter().filter(|of| of.wants()).count();
    let wanting = u64::try_from(wanting).unwrap_or(u64::MAX).max(1);
    let even = room.tokens.div_ceil(SLICES.saturating_mul(wanting));
    let soon = Span::from_nanos(view.silence.times_or_max(3).nanos() / 2).min(ESCROW);
    let slice = |candidate: &Candidate<'_>| {
        let proved = expected(candidate, soon).min(candidate.spent.grains());
        let lacking = candidate.waits;
        let lacking = lacking.map_or(0, |(_, cost)| cost.grains());
        let token = view.scale.grains_per_token();
        let one = Level::new(token.max(lacking.saturating_mul(2)), WEIGHT_ONE);
        let bands = candidate.claim.demand().iter();
        let ones = bands.fold(0_u64, |sum, band| sum.saturating_add(band.curve.at(one)));
        even.max(proved).max(ones).max(lacking)
    };
    candidates.iter().map(slice).collect()
}

/// Returns the parts of a concurrency budget: permits by demand.
pub(super) fn permit_parts(
    candidates: &[Candidate<'_>],
    room: &Room,
    view: &WholeView,
    warm: &mut Warm,
) -> Vec<Vector> {
    let ceiling = view.ceiling.map(|ceiling| ceiling.burst.grains());
    let claimants: Vec<Claimant> = candidates
        .iter()
        .map(|candidate| candidate.claimant(candidate.requested_floor.burst.grains(), ceiling))
        .collect();
    allocate::allocate(room.burst, &claimants, view.terms, warm)
        .into_iter()
        .zip(candidates)
        .map(|(part, candidate)| {
            let burst = Tokens::from_grains(part);
            Vector {
                burst,
                floor_burst: candidate.requested_floor.burst.min(burst),
                ..Vector::ZERO
            }
        })
        .collect()
}
