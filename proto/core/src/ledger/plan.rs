//! Plans: compares the parts that children hold with those that they should hold.

use super::candidate::{Candidate, Room, WholeView};
use super::central_mode::CentralMode;
use super::children::{self, Children, FETCHED};
use super::claim::Claim;
use super::parts::{permit_parts, quota_parts, rate_parts, undivided_parts};
use super::plan_changes::{GrantRequest, Plan};
use crate::account::Account;
use crate::allocate::{Levels, Warm};
use crate::edge::{Counters, Vector};
use crate::planted::{self, Bug};
use crate::share::{Kind, apportion};
use crate::unit::{BudgetId, Incarnation, Rate, Tick, Tokens};
use alloc::vec::Vec;

/// State of a budget that a ledger keeps between plans, unless it is empty.
#[derive(Debug, Default, Hash)]
pub(super) struct PlanMemory {
    /// Kept only for several claimants: two or three are divided as fast without it, and most keys have no
    /// more.
    levels: Levels,
    pub(super) central_mode: CentralMode,
    /// Time since which much of a rate has been free that no child lacks.
    free_since: Option<Tick>,
}

impl PlanMemory {
    /// Number of claimants from which on a division profits from the last one.
    const MANY: usize = 4;

    /// Returns true if nothing needs to be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
            && self.central_mode == CentralMode::default()
            && self.free_since.is_none()
    }
}

/// Plans a budget for the children in `around`, which is sorted and may have names of other children too. `warm` is
/// the working memory of all budgets.
pub(super) fn plan(
    (children, around, warm): (&mut Children, &[Incarnation], &mut Warm),
    budget: BudgetId,
    account: &Account,
    view: &WholeView,
    memory: &mut PlanMemory,
    now: Tick,
) -> Plan {
    let mut plan = Plan::default();
    let (mut candidates, reserved) =
        take_part((children, around), budget, account, view, now, &mut plan);
    let room = Room::new(account, view, reserved);
    let is_central = room.is_too_small(
        &candidates,
        account.kind(),
        view,
        &mut memory.central_mode,
        now,
    );
    plan.unsettled |= memory.central_mode.is_easing();
    warm.exchange(core::mem::take(&mut memory.levels));
    let wanted = match account.kind() {
        _ if is_central => undivided_parts(&mut candidates, &room, view.placement, account.kind()),
        Kind::Rate => {
            let free_since = &mut memory.free_since;
            rate_parts(
                &mut candidates,
                &room,
                view,
                (warm, free_since),
                now,
                &mut plan,
            )
        }
        Kind::Quota => quota_parts(&candidates, &room, view, warm),
        Kind::Concurrency => permit_parts(&candidates, &room, view, warm),
    };
    let levels = warm.exchange(Levels::default());
    if candidates.len() >= PlanMemory::MANY {
        memory.levels = levels;
    }
    plan.candidates = candidates.len().max(1);
    settle(&mut candidates, &wanted, account, view, &mut plan);
    plan
}

/// Returns the children that take part, and the parts that cannot be moved by this plan.
fn take_part<'a>(
    (children, around): (&'a mut Children, &'a [Incarnation]),
    budget: BudgetId,
    account: &Account,
    view: &WholeView,
    now: Tick,
    plan: &mut Plan,
) -> (Vec<Candidate<'a>>, Vector) {
    let kind = account.kind();
    // Parts that belong to no child's edge cannot be moved by a plan.
    let central = account.holding(Account::CENTRAL);
    let mut reserved = account.lingering().plus(central).unwrap_or(account.held());
    let mut candidates = Vec::with_capacity(around.len());
    let mut edges = account.open().peekable();
    let mut all = children.among_mut(around);
    let mut some = Vec::with_capacity(FETCHED.min(around.len()));
    loop {
        some.extend(all.by_ref().take(FETCHED));
        if some.is_empty() {
            return (candidates, reserved);
        }
        children::fetch(some.iter().map(|(_, child)| &**child), budget);
        for (id, child) in some.drain(..) {
            // Both are ordered by incarnation.
            while edges.next_if(|(open, _)| *open < id).is_some() {}
            let edge = edges.next_if(|(open, _)| *open == id);
            let counters = edge.map_or(Counters::new(account.period()), |(_, slot)| slot.counters);
            let (fenced, leaving) = (child.is_fenced(), child.is_leaving());
            let holding = counters.holding(kind);
            if fenced || child.is_silent(now, view.silence) {
                child.skip(budget);
                reserved = reserved.plus(holding).unwrap_or(account.held());
                continue;
            }
            // A child that holds something takes part even if it never reported the budget: it must be told, and
            // may be recalled.
            let claim = match holding.is_zero() {
                true => child.claims.get_mut(&budget),
                false => Some(child.claims.get_or_insert_with(budget, || {
                    plan.claimed.push(id);
                    Claim::default()
                })),
            };
            let Some(claim) = claim else { continue };
            if !holding.is_zero() && !claim.is_reported() {
                // It was granted this without a request, for a client whose demand has not arrived yet.
                reserved = reserved.plus(holding).unwrap_or(account.held());
                plan.unsettled = true;
                continue;
            }
            claim.begin(account.period());
            candidates.push(Candidate::new(
                (id, leaving),
                claim,
                (counters, holding),
                kind,
            ));
        }
    }
}

/// Raises the target of a child that keeps more than planned. Otherwise adds a grant of the difference, cut
/// to what is free.
fn settle(
    candidates: &mut [Candidate<'_>],
    wanted: &[Vector],
    account: &Account,
    view: &WholeView,
    plan: &mut Plan,
) {
    let mut lacking = Vec::with_capacity(candidates.len());
    let mut awaited = !view.owed.is_zero();
    for (candidate, &want) in candidates.iter_mut().zip(wanted) {
        let (excess, more) = (candidate.kept.ahead_of(want), want.ahead_of(candidate.kept));
        if candidate.waits.is_some() || matters(candidate.kept, want) {
            plan.urgent.push(candidate.child);
            awaited |= !more.is_zero();
        }
        if !excess.is_zero() {
            let mut target = candidate.given.ahead_of(want).to_array();
            for (slot, excess) in target.iter_mut().zip(excess.to_array()) {
                if excess == 0 {
                    *slot = 0;
                }
            }
            candidate.raise_target(Vector::from_array(target));
            plan.recalled.push(candidate.child);
        }
        plan.returning |= candidate.has_target || candidate.returns;
        lacking.push(more);
        candidate.kept = candidate.kept.meet(want);
    }
    if awaited {
        plan.urgent.extend(&plan.recalled);
        plan.urgent.sort_unstable();
        plan.urgent.dedup();
    }
    let held = account.held();
    let free = Vector {
        floor_rate: view.floors.rate.minus_or_zero(held.floor_rate),
        floor_burst: view.floors.burst.minus_or_zero(held.floor_burst),
        spent: Tokens::ZERO,
        ..Vector::of(account.free())
    };
    plan.starved = cut(&mut lacking, free);
    for (more, candidate) in lacking.into_iter().zip(candidates) {
        let more = accompanied(candidate, more);
        if more.is_zero() {
            continue;
        }
        if outlasted_by_floors(candidate, more) && !planted::is(Bug::FloorsOutlastParts) {
            plan.starved = true;
            continue;
        }
        plan.grant_requests.push(GrantRequest {
            child: candidate.child,
            more,
        });
    }
}

/// Returns true if any component changes by an eighth or more.
fn matters(kept: Vector, want: Vector) -> bool {
    let mut pairs = kept.to_array().into_iter().zip(want.to_array());
    pairs.any(|(kept, want)| kept != want && kept.abs_diff(want) >= kept.max(want) / 8)
}

/// Cuts the differences to what is free, each component in proportion. Returns true if any was cut.
fn cut(lacking: &mut [Vector], free: Vector) -> bool {
    let mut starved = false;
    for (component, free) in free.to_array().into_iter().enumerate() {
        let of = |vector: &Vector| vector.to_array().get(component).copied().unwrap_or(0);
        let sum: u128 = lacking.iter().map(|vector| u128::from(of(vector))).sum();
        if sum <= u128::from(free) {
            continue;
        }
        starved = true;
        let lacks: Vec<u64> = lacking.iter().map(of).collect();
        for (vector, part) in lacking.iter_mut().zip(apportion(free, &lacks)) {
            let mut cut = vector.to_array();
            if let Some(slot) = cut.get_mut(component) {
                *slot = part;
            }
            *vector = Vector::from_array(cut);
        }
    }
    starved
}

/// Removes rate without burst, and floors without their share, both by the present book and by the book once
/// all targets are met.
fn accompanied(candidate: &Candidate<'_>, mut more: Vector) -> Vector {
    if more.is_zero() {
        return more;
    }
    if candidate.kept.burst.is_zero() && more.burst.is_zero() {
        more.rate = Rate::ZERO;
    }
    for held in [candidate.booked, candidate.kept] {
        let rate = held.rate.plus(more.rate).unwrap_or(held.rate);
        let burst = held.burst.plus(more.burst).unwrap_or(held.burst);
        more.floor_rate = more.floor_rate.min(rate.minus_or_zero(held.floor_rate));
        more.floor_burst = more.floor_burst.min(burst.minus_or_zero(held.floor_burst));
    }
    more
}

/// Returns true if the book would refuse a grant: a part was returned before the floor that it carried, whose return is
/// still wanted.
fn outlasted_by_floors(candidate: &Candidate<'_>, more: Vector) -> bool {
    let after = candidate.booked.plus(more);
    after.is_some_and(|after| !after.carries_floors())
}
