//! The part of a budget that each child should hold, for each kind of budget.

use super::claim::total;
use super::keeping::Scarce;
use super::plan::{Plan, Room, Seat, WholeView};
use crate::allocate::{self, Burst, Change, Claimant, Headroom, Policy, Warm};
use crate::demand::ESCROW;
use crate::edge::Vector;
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::unit::{Rate, Span, Tick, Tokens, mul_div_floor};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Returns the parts in central mode: floors, and everything else to the home if there is one.
pub(super) fn undivided_parts(
    seats: &mut [Seat<'_>],
    room: &Room,
    scarce: Scarce,
    kind: Kind,
) -> Vec<Vector> {
    let home = match scarce {
        Scarce::Kept => None,
        Scarce::Gathered => home(seats, kind),
    };
    let mut left = Vector {
        rate: Rate::from_grains(room.rate),
        burst: Tokens::from_grains(room.burst),
        ..Vector::ZERO
    };
    if kind == Kind::Quota {
        left.tokens = Tokens::from_grains(room.tokens);
    }
    let mut parts: Vec<Vector> = seats
        .iter_mut()
        .map(|seat| {
            seat.claim.set_differs(None);
            let floor = carried(seat.floor().meet(left), kind);
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
fn home(seats: &[Seat<'_>], kind: Kind) -> Option<usize> {
    let staying = seats.iter().enumerate().filter(|(_, seat)| !seat.leaving);
    staying
        .max_by_key(|(index, seat)| (seat.booked.capacity(kind), seat.wants(), Reverse(*index)))
        .map(|(index, _)| index)
}

/// Returns the parts of a rate budget: rate by demand, damped against small changes, and burst in proportion.
pub(super) fn rate_parts(
    seats: &mut [Seat<'_>],
    room: &Room,
    view: &WholeView,
    warm: &mut Warm,
    now: Tick,
    plan: &mut Plan,
) -> Vec<Vector> {
    let ceiling = view.ceiling.map(|ceiling| ceiling.rate.grains());
    // If there are fewer tokens than claimants, idle ones get none.
    let everybody = u64::try_from(seats.len()).unwrap_or(u64::MAX);
    let few = room.whole_burst(view.scale) < everybody;
    let claimants: Vec<Claimant> = seats
        .iter()
        .map(|seat| match few && !seat.wants() {
            true => seat.floor_alone(seat.claim.floor().rate.grains()),
            false => seat.claimant(seat.claim.floor().rate.grains(), ceiling),
        })
        .collect();
    let targets = match suits_all((seats, &claimants), room, view, ceiling) {
        true => seats.iter().map(|seat| seat.kept.rate.grains()).collect(),
        false => allocate::allocate(room.rate, &claimants, view.terms, warm),
    };
    let changes: Vec<Change> = seats
        .iter_mut()
        .zip(&targets)
        .map(|(seat, &target)| {
            let held = seat.kept.rate.grains();
            // A small difference that no child lacks is not worth a message. `damp` removes it once some
            // child lacks it.
            let content = seat.is_content(ceiling) && allocate::is_small(held, target);
            let differs = match held == target || content {
                true => None,
                false => Some(seat.claim.differs().unwrap_or(now)),
            };
            seat.claim.set_differs(differs);
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
    let bursts = burst_parts(seats, &rates, room, view, now);
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
                floor_rate: seat.claim.floor().rate.min(rate),
                floor_burst: seat.claim.floor().burst.min(burst),
                ..Vector::ZERO
            }
        })
        .collect()
}

impl Seat<'_> {
    /// Returns true if the child wants some rate, keeps as much as it wants, and is within the ceiling.
    fn is_content(&self, ceiling: Option<u64>) -> bool {
        self.wants() && self.is_at_ease(ceiling)
    }

    /// Returns true if the child keeps some rate, as much as it wants if it wants any, and is within the
    /// ceiling.
    fn is_at_ease(&self, ceiling: Option<u64>) -> bool {
        let kept = self.kept.rate.grains();
        let wants = total(self.claim.demand()).max(self.claim.floor().rate.grains());
        let stays = self.claim.waiting().is_none() && !self.leaving;
        stays && kept > 0 && wants <= kept && ceiling.is_none_or(|most| kept <= most)
    }
}

/// Returns true if everything is divided already and no child lacks anything. A new plan would move only
/// headroom, which children with pulsing demand would give up and be granted again with every pulse. So it
/// stays where it was used last. A child without a claim has no weight and keeps nothing.
fn suits_all(
    (seats, claimants): (&[Seat<'_>], &[Claimant]),
    room: &Room,
    view: &WholeView,
    ceiling: Option<u64>,
) -> bool {
    let sum = seats
        .iter()
        .try_fold(0_u64, |sum, seat| sum.checked_add(seat.kept.rate.grains()));
    let by_demand = view.terms.policy == Policy::MaxMin;
    by_demand
        && !planted::is(Bug::HeadroomRestless)
        && claimants.iter().all(|claimant| claimant.weight > 0)
        && sum.is_some_and(|sum| sum <= room.rate && allocate::is_small(sum, room.rate))
        && seats.iter().all(|seat| seat.is_at_ease(ceiling))
}

/// Returns burst in proportion to rate, in whole tokens. If a request with a large cost waits at a child,
/// burst is collected there.
fn burst_parts(
    seats: &[Seat<'_>],
    rates: &[u64],
    room: &Room,
    view: &WholeView,
    now: Tick,
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
            let (since, cost) = seat.claim.waiting().unwrap_or((now, Tokens::ZERO));
            allocate::Holder {
                part,
                pinned: seat.kept.floor_burst.grains(),
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
/// An escrow is as large as the demand. It is topped up when half of it is used and recalled when it is twice
/// too large, so that spending causes no traffic. If the quota is less than the demand, each child first gets
/// what it can still use before the period ends. What is held at the end is lost to all.
pub(super) fn quota_parts(
    seats: &[Seat<'_>],
    room: &Room,
    view: &WholeView,
    warm: &mut Warm,
) -> Vec<Vector> {
    let mut claimants: Vec<Claimant> = seats.iter().map(|seat| seat.claimant(0, None)).collect();
    let terms = allocate::Terms {
        headroom: Headroom::Kept,
        ..view.terms
    };
    let rest = view
        .rest
        .filter(|rest| *rest < ESCROW && !planted::is(Bug::EndNotSeen));
    if let Some(rest) = rest {
        let mut soon = claimants.clone();
        for (claimant, seat) in soon.iter_mut().zip(seats) {
            let wants = total(seat.claim.demand());
            claimant.ceiling = mul_div_floor(wants, rest.nanos(), ESCROW.nanos());
        }
        let used = allocate::allocate(room.tokens, &soon, terms, warm);
        for (claimant, used) in claimants.iter_mut().zip(used) {
            claimant.floor = used;
        }
    }
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

/// Returns the parts of a concurrency budget: permits by demand.
pub(super) fn permit_parts(
    seats: &[Seat<'_>],
    room: &Room,
    view: &WholeView,
    warm: &mut Warm,
) -> Vec<Vector> {
    let ceiling = view.ceiling.map(|ceiling| ceiling.burst.grains());
    let claimants: Vec<Claimant> = seats
        .iter()
        .map(|seat| seat.claimant(seat.claim.floor().burst.grains(), ceiling))
        .collect();
    allocate::allocate(room.burst, &claimants, view.terms, warm)
        .into_iter()
        .zip(seats)
        .map(|(part, seat)| {
            let burst = Tokens::from_grains(part);
            Vector {
                burst,
                floor_burst: seat.claim.floor().burst.min(burst),
                ..Vector::ZERO
            }
        })
        .collect()
}
