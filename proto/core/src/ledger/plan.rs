//! What should move: one budget's holdings now against what they should be.

use super::child::Child;
use super::claim::Claim;
use crate::account::Account;
use crate::allocate::{self, Burst, Change, Claimant, Headroom, Warm};
use crate::edge::Vector;
use crate::share::{Kind, Share, apportion};
use crate::unit::{BudgetId, Incarnation, Rate, Scale, Span, Tick, Tokens};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How the whole is to be divided at this moment.
#[derive(Clone, Copy, Debug)]
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
    /// Who has been silent for so long is neither granted nor recalled:
    /// nobody knows what it wants, and it may be gone.
    pub silence: Span,
}

/// What should move.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What should be granted, within what is free; a rate's tokens are for the owner to add.
    pub wishes: Vec<Wish>,
    /// Children of whom something more is wanted back.
    pub recalled: Vec<Incarnation>,
    /// Whether time alone can change the plan: a small difference is being held back.
    pub unsettled: bool,
    /// Children whose waiting cost no gathering of burst can ever serve.
    pub hopeless: Vec<Incarnation>,
}

/// One grant to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// To whom.
    pub child: Incarnation,
    /// How much more than it was given so far.
    pub more: Vector,
}

/// One child at the table.
struct Seat<'a> {
    child: Incarnation,
    claim: &'a mut Claim,
    given: Vector,
    /// What is held once all targets are met.
    kept: Vector,
    leaving: bool,
}

pub(super) fn plan(
    children: &mut BTreeMap<Incarnation, Child>,
    budget: BudgetId,
    account: &Account,
    view: &WholeView,
    warm: &mut Warm,
    now: Tick,
) -> Plan {
    let mut reserved = account.ghosts();
    let mut seats = Vec::new();
    for (&id, child) in children.iter_mut() {
        let (muted, leaving) = (child.is_muted(), child.is_leaving());
        let holding = account.holding(id);
        if muted || child.is_silent(now, view.silence) {
            child.skip();
            reserved = reserved.plus(holding).unwrap_or(account.held());
            continue;
        }
        // Who holds has a seat, whether it ever asked or not: it must be told, and may be recalled.
        let claim = match holding.is_zero() {
            true => child.claims.get_mut(&budget),
            false => Some(child.claims.entry(budget).or_default()),
        };
        if let Some(claim) = claim {
            claim.begin(account.period());
            seats.push(Seat::new(id, claim, account, leaving));
        }
    }
    let room = Room::new(account, view, reserved);
    let mut plan = Plan::default();
    let wanted = match account.kind() {
        Kind::Rate => rate_parts(&mut seats, &room, view, warm, now, &mut plan),
        Kind::Quota => quota_parts(&seats, &room, view, warm),
        Kind::Concurrency => permit_parts(&seats, &room, view, warm),
    };
    plan.wishes = settle(&mut seats, &wanted, account, view, &mut plan.recalled);
    plan
}

/// What there is to divide among the seats.
struct Room {
    rate: u64,
    burst: u64,
    tokens: u64,
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

impl<'a> Seat<'a> {
    fn new(child: Incarnation, claim: &'a mut Claim, account: &Account, leaving: bool) -> Self {
        let counters = account.counters(child);
        let mut gone = counters.returned.merge(claim.returned);
        // Who claims to have returned more than it was given still holds it.
        if counters.admits(account.kind(), gone).is_err() {
            gone = counters.returned;
        }
        gone.tokens = gone.tokens.plus(gone.spent).unwrap_or(Tokens::MAX);
        let mut kept = counters.given.ahead_of(gone.merge(claim.target));
        if account.kind() == Kind::Rate {
            kept.tokens = Tokens::ZERO;
        }
        kept.spent = Tokens::ZERO;
        Self {
            child,
            claim,
            given: counters.given,
            kept,
            leaving,
        }
    }

    /// The seat as a claimant of the component that `floor` and `ceiling` are of.
    fn claimant(&self, floor: u64, ceiling: Option<u64>) -> Claimant {
        let demand: Vec<_> = self
            .claim
            .demand
            .iter()
            .map(|band| (band.band, band.curve.clone()))
            .collect();
        if self.leaving {
            return Claimant {
                ceiling: Some(0),
                ..Claimant::default()
            };
        }
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

/// Rate by demand, damped against wobble, and burst after it.
fn rate_parts(
    seats: &mut [Seat<'_>],
    room: &Room,
    view: &WholeView,
    warm: &mut Warm,
    now: Tick,
    plan: &mut Plan,
) -> Vec<Vector> {
    let ceiling = view.ceiling.map(|ceiling| ceiling.rate.grains());
    let claimants: Vec<Claimant> = seats
        .iter()
        .map(|seat| seat.claimant(seat.claim.floor.rate.grains(), ceiling))
        .collect();
    let targets = allocate::allocate(room.rate, &claimants, view.terms, warm);
    let changes: Vec<Change> = seats
        .iter_mut()
        .zip(&targets)
        .map(|(seat, &target)| {
            let held = seat.kept.rate.grains();
            seat.claim.differs = match held == target {
                true => 0,
                false => seat.claim.differs.saturating_add(1),
            };
            plan.unsettled |= held != target;
            Change {
                held,
                target,
                ticks: seat.claim.differs,
            }
        })
        .collect();
    let rates = allocate::damp(room.rate, &changes);
    let bursts = burst_parts(seats, &rates, room, view, now, plan);
    rates
        .into_iter()
        .zip(bursts)
        .zip(seats)
        .map(|((rate, burst), seat)| {
            let (rate, burst) = (Rate::from_grains(rate), Tokens::from_grains(burst));
            let rate = if burst.is_zero() { Rate::ZERO } else { rate };
            Vector {
                rate,
                burst,
                floor_rate: seat.claim.floor.rate.min(rate),
                floor_burst: seat.claim.floor.burst.min(burst),
                ..Vector::ZERO
            }
        })
        .collect()
}

/// Burst in proportion to rate, in whole tokens, unless a large cost waits
/// somewhere: then it is gathered there.
fn burst_parts(
    seats: &[Seat<'_>],
    rates: &[u64],
    room: &Room,
    view: &WholeView,
    now: Tick,
    plan: &mut Plan,
) -> Vec<u64> {
    let per_token = view.scale.grains_per_token();
    let dealt: Vec<u64> = allocate::deal_burst(room.burst, per_token, rates)
        .into_iter()
        .map(Burst::units)
        .collect();
    let holders: Vec<allocate::Holder> = seats
        .iter()
        .zip(&dealt)
        .map(|(seat, &part)| {
            let (since, cost) = seat.claim.waiting.unwrap_or((now, Tokens::ZERO));
            allocate::Holder {
                part,
                pinned: seat.kept.floor_burst.grains(),
                waiting: cost.grains(),
                age: now.since(since).nanos(),
            }
        })
        .collect();
    let gathering = allocate::gather(room.burst, &holders);
    let hopeless = gathering
        .refused
        .iter()
        .filter_map(|&index| seats.get(index));
    plan.hopeless = hopeless.map(|seat| seat.child).collect();
    gathering.plan.map_or(dealt, |(_, parts)| parts)
}

/// A quota's escrow: as much as is wanted, topped up when half of it is used
/// and recalled when it is twice too much, so that spending is no traffic.
fn quota_parts(seats: &[Seat<'_>], room: &Room, view: &WholeView, warm: &mut Warm) -> Vec<Vector> {
    let claimants: Vec<Claimant> = seats.iter().map(|seat| seat.claimant(0, None)).collect();
    let terms = allocate::Terms {
        headroom: Headroom::Kept,
        ..view.terms
    };
    let wants = allocate::allocate(room.tokens, &claimants, terms, warm);
    let settled: Vec<u64> = wants
        .iter()
        .zip(seats)
        .map(|(&want, seat)| {
            let kept = seat.kept.tokens.grains();
            let settled = kept > want.div_ceil(2) && kept <= want.saturating_mul(2);
            if settled { kept } else { want }
        })
        .collect();
    // Leaving well alone may come to more than there is: then wants count.
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

/// Permits by demand.
fn permit_parts(seats: &[Seat<'_>], room: &Room, view: &WholeView, warm: &mut Warm) -> Vec<Vector> {
    let ceiling = view.ceiling.map(|ceiling| ceiling.burst.grains());
    let claimants: Vec<Claimant> = seats
        .iter()
        .map(|seat| seat.claimant(seat.claim.floor.burst.grains(), ceiling))
        .collect();
    allocate::allocate(room.burst, &claimants, view.terms, warm)
        .into_iter()
        .zip(seats)
        .map(|(part, seat)| {
            let burst = Tokens::from_grains(part);
            Vector {
                burst,
                floor_burst: seat.claim.floor.burst.min(burst),
                ..Vector::ZERO
            }
        })
        .collect()
}

/// Raises a target where more is kept than wanted; where less is, wishes for
/// the difference, cut to what is free.
fn settle(
    seats: &mut [Seat<'_>],
    wanted: &[Vector],
    account: &Account,
    view: &WholeView,
    recalled: &mut Vec<Incarnation>,
) -> Vec<Wish> {
    let mut lacking = Vec::with_capacity(seats.len());
    for (seat, &want) in seats.iter_mut().zip(wanted) {
        let excess = seat.kept.ahead_of(want);
        if !excess.is_zero() {
            let mut target = seat.given.ahead_of(want).to_array();
            for (slot, excess) in target.iter_mut().zip(excess.to_array()) {
                if excess == 0 {
                    *slot = 0;
                }
            }
            seat.claim.raise_target(Vector::from_array(target));
            recalled.push(seat.child);
        }
        lacking.push(want.ahead_of(seat.kept));
        seat.kept = seat.kept.meet(want);
    }
    let free = account.free();
    let floors = view.floors.rate.minus_or_zero(account.held().floor_rate);
    let floor_bursts = view.floors.burst.minus_or_zero(account.held().floor_burst);
    let cut = |component: fn(&Vector) -> u64, free: u64| {
        let wishes: Vec<u64> = lacking.iter().map(component).collect();
        let sum: u128 = wishes.iter().map(|&wish| u128::from(wish)).sum();
        if sum <= u128::from(free) {
            wishes
        } else {
            apportion(free, &wishes)
        }
    };
    let rates = cut(|vector| vector.rate.grains(), free.rate.grains());
    let bursts = cut(|vector| vector.burst.grains(), free.burst.grains());
    let tokens = cut(|vector| vector.tokens.grains(), free.tokens.grains());
    let floor_rates = cut(|vector| vector.floor_rate.grains(), floors.grains());
    let floor_bursts = cut(|vector| vector.floor_burst.grains(), floor_bursts.grains());
    let columns = rates.into_iter().zip(bursts).zip(tokens);
    columns
        .zip(floor_rates.into_iter().zip(floor_bursts))
        .zip(seats)
        .filter_map(
            |((((rate, burst), tokens), (floor_rate, floor_burst)), seat)| {
                let more = Vector::from_array([rate, burst, tokens, 0, floor_rate, floor_burst]);
                let more = accompanied(seat, account, more);
                (!more.is_zero()).then_some(Wish {
                    child: seat.child,
                    more,
                })
            },
        )
        .collect()
}

/// Rate never comes without burst, and a floor never without its share: as
/// the book has it now, and as it will be when all targets are met.
fn accompanied(seat: &Seat<'_>, account: &Account, mut more: Vector) -> Vector {
    if more.is_zero() {
        return more;
    }
    if seat.kept.burst.is_zero() && more.burst.is_zero() {
        more.rate = Rate::ZERO;
    }
    for held in [account.holding(seat.child), seat.kept] {
        let rate = held.rate.plus(more.rate).unwrap_or(held.rate);
        let burst = held.burst.plus(more.burst).unwrap_or(held.burst);
        more.floor_rate = more.floor_rate.min(rate.minus_or_zero(held.floor_rate));
        more.floor_burst = more.floor_burst.min(burst.minus_or_zero(held.floor_burst));
    }
    more
}
