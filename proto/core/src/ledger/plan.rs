//! What should move: one budget's holdings now against what they should be.

use super::children::Children;
use super::claim::Claim;
use super::keeping::{Keeping, Scarce};
use super::parts::{permit_parts, quota_parts, rate_parts, undivided_parts};
use crate::account::Account;
use crate::allocate::{self, Claimant, Warm};
use crate::edge::{Counters, Vector};
use crate::share::{Kind, Share, apportion};
use crate::unit::{BudgetId, Incarnation, Rate, Scale, Span, Tick, Tokens};
use alloc::vec::Vec;

/// How the whole is to be divided at this moment.
#[derive(Clone, Copy, Debug, Hash)]
pub struct WholeView {
    /// The rule.
    pub terms: allocate::Terms,
    /// The budget's fixed point.
    pub scale: Scale,
    /// What the parent itself has to return: it is not dealt any more.
    pub owed: Vector,
    /// The most that one session gets; a parent of nodes has none.
    pub ceiling: Option<Share>,
    /// What floors may add up to.
    pub floors: Share,
    /// Who has been silent for so long is neither granted nor recalled: it may be gone.
    pub silence: Span,
    /// A small difference waits for so long, which must be well within a lease.
    pub held_back: Span,
    /// What becomes of a budget that is too small to divide.
    pub scarce: Scarce,
    /// How much is left of a quota's period, where that is known.
    pub rest: Option<Span>,
    /// Whether the level above gathers it here: others ask for it, so nothing of it may be dealt.
    pub gathered: bool,
}

/// What should move.
#[derive(Clone, Debug, Default, Hash)]
pub struct Plan {
    /// What should be granted, within what is free; a rate's tokens are for the owner to add.
    pub wishes: Vec<Wish>,
    /// Children of whom something more is wanted back.
    pub recalled: Vec<Incarnation>,
    /// Those, in order, who wait, for whom an eighth or more of what they have is to change, or of
    /// whom is recalled what such a one or the parent lacks. Others hear with their next answer.
    pub hurried: Vec<Incarnation>,
    /// How many children were at the table.
    pub seats: usize,
    /// Whether the next plan may be another though nobody says anything.
    pub unsettled: bool,
    /// When the plan may be another though nobody says anything: a small difference is held back no longer.
    pub again: Option<Tick>,
    /// Whether somebody lacks what is not free yet.
    pub starved: bool,
    /// Children that hold something, asked for nothing, and have a claim from now on.
    pub(super) claimed: Vec<Incarnation>,
}

impl Plan {
    pub(super) fn look_again(&mut self, at: Tick) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }
}

/// One grant to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    /// To whom.
    pub child: Incarnation,
    /// How much more than it was given so far.
    pub more: Vector,
}

/// What a ledger remembers of a budget from plan to plan.
#[derive(Debug, Default, Hash)]
pub(super) struct Standing {
    pub(super) warm: Warm,
    pub(super) keeping: Keeping,
}

/// One child at the table.
pub(super) struct Seat<'a> {
    pub(super) child: Incarnation,
    pub(super) claim: &'a mut Claim,
    given: Vector,
    /// What the book says is held.
    pub(super) booked: Vector,
    /// What is held once all targets are met.
    pub(super) kept: Vector,
    pub(super) leaving: bool,
}

/// Plans a budget for those of the children that are at the table: they are named
/// in order, and may be others' names, too.
pub(super) fn plan(
    (children, around): (&mut Children, &[Incarnation]),
    budget: BudgetId,
    account: &Account,
    view: &WholeView,
    standing: &mut Standing,
    now: Tick,
) -> Plan {
    // What is out under no child's edge cannot be moved by any plan.
    let central = account.holding(Account::CENTRAL);
    let mut reserved = account.ghosts().plus(central).unwrap_or(account.held());
    let (mut seats, mut plan) = (Vec::new(), Plan::default());
    for (id, child) in children.among_mut(around) {
        let (muted, leaving) = (child.is_muted(), child.is_leaving());
        let counters = account.counters(id);
        let holding = counters.holding(account.kind());
        if muted || child.is_silent(now, view.silence) {
            child.skip();
            reserved = reserved.plus(holding).unwrap_or(account.held());
            continue;
        }
        // Who holds has a seat, whether it ever asked or not: it must be told, and may be recalled.
        let claim = match holding.is_zero() {
            true => child.claims.get_mut(&budget),
            false => Some(child.claims.entry(budget).or_insert_with(|| {
                plan.claimed.push(id);
                Claim::default()
            })),
        };
        if let Some(claim) = claim {
            if !holding.is_zero() && !claim.is_spoken_of() {
                // It was given this unasked, for somebody whose demand is on its way.
                reserved = reserved.plus(holding).unwrap_or(account.held());
                plan.unsettled = true;
                continue;
            }
            claim.begin(account.period());
            seats.push(Seat::new(
                (id, leaving),
                claim,
                (counters, holding),
                account.kind(),
            ));
        }
    }
    let room = Room::new(account, view, reserved);
    let together = room.is_too_small(&seats, account.kind(), view, &mut standing.keeping, now);
    plan.unsettled |= standing.keeping.is_easing();
    let warm = &mut standing.warm;
    let wanted = match account.kind() {
        _ if together => undivided_parts(&mut seats, &room, view.scarce, account.kind()),
        Kind::Rate => rate_parts(&mut seats, &room, view, warm, now, &mut plan),
        Kind::Quota => quota_parts(&seats, &room, view, warm),
        Kind::Concurrency => permit_parts(&seats, &room, view, warm),
    };
    plan.seats = seats.len().max(1);
    settle(&mut seats, &wanted, account, view, &mut plan);
    plan
}

/// What there is to divide among the seats.
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
    /// Whether the budget stays in one piece for now.
    fn is_too_small(
        &self,
        seats: &[Seat<'_>],
        kind: Kind,
        view: &WholeView,
        keeping: &mut Keeping,
        now: Tick,
    ) -> bool {
        let (whole, least) = match kind {
            Kind::Rate => (self.whole_burst(view.scale), view.scarce.least_burst()),
            Kind::Quota => (self.tokens, 1),
            Kind::Concurrency => (self.burst, 1),
        };
        let claimants = seats.iter().filter(|seat| seat.wants()).count();
        let claimants = u64::try_from(claimants).unwrap_or(u64::MAX);
        keeping.look(whole, least, claimants, now) || view.gathered
    }

    /// The burst in whole tokens.
    pub(super) fn whole_burst(&self, scale: Scale) -> u64 {
        scale.whole(Tokens::from_grains(self.burst))
    }
}

impl<'a> Seat<'a> {
    fn new(
        (child, leaving): (Incarnation, bool),
        claim: &'a mut Claim,
        (counters, booked): (Counters, Vector),
        kind: Kind,
    ) -> Self {
        let mut gone = counters.returned.merge(claim.returned);
        // Who claims to have returned more than it was given still holds it.
        if counters.admits(kind, gone).is_err() {
            gone = counters.returned;
        }
        gone.tokens = gone.tokens.plus(gone.spent).unwrap_or(Tokens::MAX);
        let mut kept = counters.given.ahead_of(gone.merge(claim.target));
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

    /// Whether it wants any of the budget now.
    pub(super) fn wants(&self) -> bool {
        let demand = self.claim.demand.iter().any(|band| band.curve.total() > 0);
        !self.leaving && (demand || self.claim.waiting.is_some())
    }

    /// The floor that it asks for.
    pub(super) fn floor(&self) -> Vector {
        let floor = match self.leaving {
            true => Share::EMPTY,
            false => self.claim.floor,
        };
        Vector {
            tokens: Tokens::ZERO,
            ..Vector::of(floor)
        }
    }

    /// The seat as a claimant of its floor and nothing more.
    pub(super) fn floor_alone(&self, floor: u64) -> Claimant {
        let floor = if self.leaving { 0 } else { floor };
        Claimant {
            floor,
            ceiling: Some(floor),
            ..Claimant::default()
        }
    }

    /// The seat as a claimant of the component that `floor` and `ceiling` are of.
    pub(super) fn claimant(&self, floor: u64, ceiling: Option<u64>) -> Claimant {
        if self.leaving {
            return Claimant {
                ceiling: Some(0),
                ..Claimant::default()
            };
        }
        let demand: Vec<_> = self
            .claim
            .demand
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

/// Raises a target where more is kept than wanted; where less is, wishes for
/// the difference, cut to what is free.
fn settle(
    seats: &mut [Seat<'_>],
    wanted: &[Vector],
    account: &Account,
    view: &WholeView,
    plan: &mut Plan,
) {
    let mut lacking = Vec::with_capacity(seats.len());
    let mut awaited = !view.owed.is_zero();
    for (seat, &want) in seats.iter_mut().zip(wanted) {
        let (excess, more) = (seat.kept.ahead_of(want), want.ahead_of(seat.kept));
        if seat.claim.waiting.is_some() || matters(seat.kept, want) {
            plan.hurried.push(seat.child);
            awaited |= !more.is_zero();
        }
        if !excess.is_zero() {
            let mut target = seat.given.ahead_of(want).to_array();
            for (slot, excess) in target.iter_mut().zip(excess.to_array()) {
                if excess == 0 {
                    *slot = 0;
                }
            }
            seat.claim.raise_target(Vector::from_array(target));
            plan.recalled.push(seat.child);
        }
        lacking.push(more);
        seat.kept = seat.kept.meet(want);
    }
    if awaited {
        plan.hurried.extend(&plan.recalled);
        plan.hurried.sort_unstable();
        plan.hurried.dedup();
    }
    let held = account.held();
    let free = Vector {
        floor_rate: view.floors.rate.minus_or_zero(held.floor_rate),
        floor_burst: view.floors.burst.minus_or_zero(held.floor_burst),
        spent: Tokens::ZERO,
        ..Vector::of(account.free())
    };
    plan.starved = cut(&mut lacking, free);
    let wishes = lacking.into_iter().zip(seats).filter_map(|(more, seat)| {
        let more = accompanied(seat, more);
        (!more.is_zero()).then_some(Wish {
            child: seat.child,
            more,
        })
    });
    plan.wishes = wishes.collect();
}

/// Whether an eighth or more of anything changes.
fn matters(kept: Vector, want: Vector) -> bool {
    let mut pairs = kept.to_array().into_iter().zip(want.to_array());
    pairs.any(|(kept, want)| kept != want && kept.abs_diff(want) >= kept.max(want) / 8)
}

/// Cuts what is lacking to what is free, each component in proportion; whether any was cut.
fn cut(lacking: &mut [Vector], free: Vector) -> bool {
    let mut starved = false;
    for (component, free) in free.to_array().into_iter().enumerate() {
        let of = |vector: &Vector| vector.to_array().get(component).copied().unwrap_or(0);
        let sum: u128 = lacking.iter().map(|vector| u128::from(of(vector))).sum();
        if sum <= u128::from(free) {
            continue;
        }
        starved = true;
        let wishes: Vec<u64> = lacking.iter().map(of).collect();
        for (vector, part) in lacking.iter_mut().zip(apportion(free, &wishes)) {
            let mut cut = vector.to_array();
            if let Some(slot) = cut.get_mut(component) {
                *slot = part;
            }
            *vector = Vector::from_array(cut);
        }
    }
    starved
}

/// Rate never comes without burst, and a floor never without its share: as
/// the book has it now, and as it will be when all targets are met.
fn accompanied(seat: &Seat<'_>, mut more: Vector) -> Vector {
    if more.is_zero() {
        return more;
    }
    if seat.kept.burst.is_zero() && more.burst.is_zero() {
        more.rate = Rate::ZERO;
    }
    for held in [seat.booked, seat.kept] {
        let rate = held.rate.plus(more.rate).unwrap_or(held.rate);
        let burst = held.burst.plus(more.burst).unwrap_or(held.burst);
        more.floor_rate = more.floor_rate.min(rate.minus_or_zero(held.floor_rate));
        more.floor_burst = more.floor_burst.min(burst.minus_or_zero(held.floor_burst));
    }
    more
}
