//! Plans: compares the parts that children hold with those that they should hold.

use super::central_mode::{CentralMode, CentralPlacement};
use super::children::Children;
use super::claim::Claim;
use super::parts::{permit_parts, quota_parts, rate_parts, undivided_parts};
use crate::account::Account;
use crate::allocate::{self, Claimant, Warm};
use crate::edge::{Counters, Vector};
use crate::share::{Kind, Share, apportion};
use crate::unit::{BudgetId, Incarnation, Rate, Scale, Span, Tick, Tokens};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The whole to divide, and the terms of the division.
#[derive(Clone, Copy, Debug, Hash)]
pub struct WholeView {
    /// The rule of division.
    pub terms: allocate::Terms,
    /// The budget's fixed point.
    pub scale: Scale,
    /// The part that the parent itself has to return: it is not granted any more.
    pub owed: Vector,
    /// Maximum part of one session. `None` for a parent of nodes.
    pub ceiling: Option<Share>,
    /// Maximum sum of floors.
    pub floors: Share,
    /// Time without a report after which a child is neither granted nor recalled anything, since it may be
    /// gone.
    pub silence: Span,
    /// Time for which a small difference is left alone. It must be well within a lease.
    pub held_back: Span,
    /// Treatment of a budget in central mode.
    pub placement: CentralPlacement,
    /// Rest of a quota's period, if known.
    pub rest: Option<Span>,
    /// True if the level above made this parent the home in central mode. Nothing of it may then be divided,
    /// since other nodes send their requests here.
    pub central_mode: bool,
}

/// The changes that a plan proposes.
#[derive(Clone, Debug, Default, Hash)]
pub struct Plan {
    /// Grants to make, within what is free. The owner adds the tokens of a rate.
    pub grant_requests: Vec<GrantRequest>,
    /// Children of which something more is wanted back.
    pub recalled: Vec<Incarnation>,
    /// Sorted children to be told at once: those that wait, those whose part changes by an eighth or more,
    /// and those whose recalled part such a child or the parent lacks. Others are told with their next
    /// answer.
    pub urgent: Vec<Incarnation>,
    /// Number of children that took part.
    pub candidates: usize,
    /// Set if the next plan may differ without any new report.
    pub unsettled: bool,
    /// Time at which the plan may differ without any new report: a small difference is not left alone any
    /// longer.
    pub again: Option<Tick>,
    /// Set if a child lacks something that is not free yet.
    pub starved: bool,
    /// Children that hold something, had no claim, and have one from now on.
    pub(super) claimed: Vec<Incarnation>,
}

impl Plan {
    pub(super) fn look_again(&mut self, at: Tick) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }
}

/// One grant to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrantRequest {
    /// The child to grant to.
    pub child: Incarnation,
    /// The increase over what it was granted so far.
    pub more: Vector,
}

/// State of a budget that a ledger keeps between plans, unless it is empty.
#[derive(Debug, Default, Hash)]
pub(super) struct Standing {
    /// Kept only for several claimants: two or three are divided as fast without it, and most keys have no
    /// more.
    warm: Option<Box<Warm>>,
    pub(super) central_mode: CentralMode,
}

impl Standing {
    /// Number of claimants from which on a division profits from the last one.
    const MANY: usize = 4;

    /// Returns true if nothing needs to be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.warm.is_none() && self.central_mode == CentralMode::default()
    }
}

/// One child that takes part in a plan (a seat at the table).
pub(super) struct Candidate<'a> {
    pub(super) child: Incarnation,
    pub(super) claim: &'a mut Claim,
    given: Vector,
    /// The part that is held by the book.
    pub(super) booked: Vector,
    /// The part that is held once all targets are met.
    pub(super) kept: Vector,
    pub(super) leaving: bool,
}

/// Plans a budget for the children in `around`, which is sorted and may have names of other children too.
pub(super) fn plan(
    (children, around): (&mut Children, &[Incarnation]),
    budget: BudgetId,
    account: &Account,
    view: &WholeView,
    standing: &mut Standing,
    now: Tick,
) -> Plan {
    // Parts that belong to no child's edge cannot be moved by a plan.
    let central = account.holding(Account::CENTRAL);
    let mut reserved = account.lingering().plus(central).unwrap_or(account.held());
    let (mut candidates, mut plan) = (Vec::new(), Plan::default());
    for (id, child) in children.among_mut(around) {
        let (fenced, leaving) = (child.is_fenced(), child.is_leaving());
        let counters = account.counters(id);
        let holding = counters.holding(account.kind());
        if fenced || child.is_silent(now, view.silence) {
            child.skip();
            reserved = reserved.plus(holding).unwrap_or(account.held());
            continue;
        }
        // A child that holds something takes part even if it never reported the budget: it must be told, and
        // may be recalled.
        let claim = match holding.is_zero() {
            true => child.claims.get_mut(&budget),
            false => Some(child.claims.entry(budget).or_insert_with(|| {
                plan.claimed.push(id);
                Box::default()
            })),
        };
        if let Some(claim) = claim {
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
                account.kind(),
            ));
        }
    }
    let room = Room::new(account, view, reserved);
    let is_central = room.is_too_small(
        &candidates,
        account.kind(),
        view,
        &mut standing.central_mode,
        now,
    );
    plan.unsettled |= standing.central_mode.is_easing();
    let mut warm = standing.warm.take().unwrap_or_default();
    let wanted = match account.kind() {
        _ if is_central => undivided_parts(&mut candidates, &room, view.placement, account.kind()),
        Kind::Rate => rate_parts(&mut candidates, &room, view, &mut warm, now, &mut plan),
        Kind::Quota => quota_parts(&candidates, &room, view, &mut warm),
        Kind::Concurrency => permit_parts(&candidates, &room, view, &mut warm),
    };
    standing.warm = (candidates.len() >= Standing::MANY).then_some(warm);
    plan.candidates = candidates.len().max(1);
    settle(&mut candidates, &wanted, account, view, &mut plan);
    plan
}

/// The amounts to divide among the children that take part.
pub(super) struct Room {
    pub(super) rate: u64,
    pub(super) burst: u64,
    pub(super) tokens: u64,
}

impl Room {
    fn new(account: &Account, view: &WholeView, reserved: Vector) -> Self {
        let whole = account.whole();
        let less = |whole: Tokens, owed: Tokens, reserved: Tokens| {
            whole.minus_or_zero(owed).minus_or_zero(reserved).grains()
        };
        Self {
            rate: whole
                .rate
                .minus_or_zero(view.owed.rate)
                .minus_or_zero(reserved.rate)
                .grains(),
            burst: less(whole.burst, view.owed.burst, reserved.burst),
            tokens: less(
                whole.tokens.minus_or_zero(account.spent()),
                view.owed.tokens,
                reserved.tokens,
            ),
        }
    }
}

impl Room {
    /// Updates the central mode of the budget. Returns true if the budget is in central mode.
    fn is_too_small(
        &self,
        candidates: &[Candidate<'_>],
        kind: Kind,
        view: &WholeView,
        central_mode: &mut CentralMode,
        now: Tick,
    ) -> bool {
        let (whole, least) = match kind {
            Kind::Rate => (self.whole_burst(view.scale), view.placement.least_burst()),
            Kind::Quota => (self.tokens, 1),
            Kind::Concurrency => (self.burst, 1),
        };
        let claimants = candidates
            .iter()
            .filter(|candidate| candidate.wants())
            .count();
        let claimants = u64::try_from(claimants).unwrap_or(u64::MAX);
        central_mode.look(whole, least, claimants, now) || view.central_mode
    }

    /// Returns the burst in whole tokens.
    pub(super) fn whole_burst(&self, scale: Scale) -> u64 {
        scale.whole(Tokens::from_grains(self.burst))
    }
}

impl<'a> Candidate<'a> {
    fn new(
        (child, leaving): (Incarnation, bool),
        claim: &'a mut Claim,
        (counters, booked): (Counters, Vector),
        kind: Kind,
    ) -> Self {
        let mut gone = counters.returned.merge(claim.returned());
        // A child that reports more returned than it was granted still counts as holding it.
        if counters.admits(kind, gone).is_err() {
            gone = counters.returned;
        }
        gone.tokens = gone.tokens.plus(gone.spent).unwrap_or(Tokens::MAX);
        let mut kept = counters.given.ahead_of(gone.merge(claim.target()));
        if kind == Kind::Rate {
            kept.tokens = Tokens::ZERO;
        }
        kept.spent = Tokens::ZERO;
        Self {
            child,
            claim,
            given: counters.given,
            booked,
            kept,
            leaving,
        }
    }

    /// Returns true if the child wants any of the budget now.
    pub(super) fn wants(&self) -> bool {
        let demand = self
            .claim
            .demand()
            .iter()
            .any(|band| band.curve.total() > 0);
        !self.leaving && (demand || self.claim.waiting().is_some())
    }

    /// Returns the requested floor.
    pub(super) fn floor(&self) -> Vector {
        let floor = match self.leaving {
            true => Share::EMPTY,
            false => self.claim.floor(),
        };
        Vector {
            tokens: Tokens::ZERO,
            ..Vector::of(floor)
        }
    }

    /// Returns a claimant of the child's floor and nothing more.
    pub(super) fn floor_alone(&self, floor: u64) -> Claimant {
        let floor = if self.leaving { 0 } else { floor };
        Claimant {
            floor,
            ceiling: Some(floor),
            ..Claimant::default()
        }
    }

    /// Returns the child as a claimant of the component that `floor` and `ceiling` belong to.
    pub(super) fn claimant(&self, floor: u64, ceiling: Option<u64>) -> Claimant {
        if self.leaving {
            return Claimant {
                ceiling: Some(0),
                ..Claimant::default()
            };
        }
        let demand: Vec<_> = self
            .claim
            .demand()
            .iter()
            .map(|band| (band.band, band.curve.clone()))
            .collect();
        let weight = demand
            .iter()
            .fold(0_u64, |sum, (_, curve)| sum.saturating_add(curve.weight()));
        Claimant {
            weight,
            demand,
            floor,
            ceiling,
            fixed: weight,
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
        if candidate.claim.waiting().is_some() || matters(candidate.kept, want) {
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
            candidate.claim.raise_target(Vector::from_array(target));
            plan.recalled.push(candidate.child);
        }
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
    let grant_requests = lacking
        .into_iter()
        .zip(candidates)
        .filter_map(|(more, candidate)| {
            let more = accompanied(candidate, more);
            (!more.is_zero()).then_some(GrantRequest {
                child: candidate.child,
                more,
            })
        });
    plan.grant_requests = grant_requests.collect();
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
