//! The children that take part in a plan, and the amounts to divide among them.

use super::central_mode::{CentralMode, CentralPlacement, Claims};
use super::claim::{Claim, total};
use crate::account::Account;
use crate::allocate::{self, Claimant};
use crate::demand::WEIGHT_ONE;
use crate::edge::{Counters, Vector};
use crate::few::Few;
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Incarnation, Scale, Span, Tick, Tokens};

/// Size of the escrows of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dealing {
    /// As large as the demand: by a parent whose own part was dealt in slices.
    Whole,
    /// Limited, so that little is void if a child dies.
    Slices,
}

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
    /// Size of the escrows of a quota.
    pub dealing: Dealing,
    /// True if the level above made this parent the home in central mode. Nothing of it may then be divided,
    /// since other nodes send their requests here.
    pub central_mode: bool,
}

/// One child that takes part in a plan.
///
/// It has a copy of what the plan needs of the claim: a plan iterates over its candidates about ten times, and the
/// claims of thousands of children do not stay in the processor's cache.
pub(super) struct Candidate<'a> {
    pub(super) child: Incarnation,
    pub(super) claim: &'a mut Claim,
    /// The sum of the demand of all bands.
    pub(super) demand: u64,
    pub(super) requested_floor: Share,
    /// The time since which a request waits, and the largest cost that waits.
    pub(super) waits: Option<(Tick, Tokens)>,
    /// Time at which the child last asked for a central decision, as of the begin of the plan.
    pub(super) asked: Option<Tick>,
    /// Time since which the held part differs from the planned one.
    pub(super) differs: Option<Tick>,
    /// Set if the child's part stays at the parent.
    pub(super) central: bool,
    /// Set if something is wanted back.
    pub(super) has_target: bool,
    pub(super) given: Vector,
    /// The part that is held by the book.
    pub(super) booked: Vector,
    /// The part that is held once all targets are met.
    pub(super) kept: Vector,
    /// Tokens of a quota that it is known to have spent in this period.
    pub(super) spent: Tokens,
    /// Set if it returned tokens that are not booked yet.
    pub(super) returns: bool,
    pub(super) leaving: bool,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
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
        let (spent, returns) = (gone.spent, gone.tokens > counters.returned.tokens);
        gone.tokens = gone.tokens.plus(gone.spent).unwrap_or(Tokens::MAX);
        let mut kept = counters.given.ahead_of(gone.merge(claim.target()));
        if kind == Kind::Rate {
            kept.tokens = Tokens::ZERO;
        }
        kept.spent = Tokens::ZERO;
        Self {
            child,
            demand: total(claim.demand()),
            requested_floor: claim.floor(),
            waits: claim.waiting(),
            asked: claim.asked(),
            differs: claim.differs(),
            central: claim.is_central(),
            has_target: claim.has_target(),
            claim,
            given: counters.given,
            booked,
            kept,
            spent,
            returns,
            leaving,
        }
    }

    /// Sets the time since which the held part differs from the planned one.
    pub(super) fn set_differs(&mut self, since: Option<Tick>) {
        if self.differs != since {
            self.differs = since;
            self.claim.set_differs(since);
        }
    }

    /// Sets whether the child's part stays at the parent. Returns true if that changed.
    pub(super) fn set_central(&mut self, central: bool) -> bool {
        let changed = self.central != central;
        if changed {
            self.central = central;
            self.claim.set_central(central);
        }
        changed
    }

    /// Raises the target.
    pub(super) fn raise_target(&mut self, target: Vector) {
        self.claim.raise_target(target);
        self.has_target = self.claim.has_target();
    }

    /// Returns true if the child wants any of the budget now.
    pub(super) fn wants(&self) -> bool {
        !self.leaving && (self.demand > 0 || self.waits.is_some())
    }

    /// Returns true if the child wants some rate, keeps as much as it wants, and is within the ceiling.
    pub(super) fn is_content(&self, ceiling: Option<u64>) -> bool {
        self.wants() && self.is_at_ease(ceiling)
    }

    /// Returns true if the child keeps some rate, as much as it wants if it wants any, and is within the
    /// ceiling.
    pub(super) fn is_at_ease(&self, ceiling: Option<u64>) -> bool {
        let kept = self.kept.rate.grains();
        let wants = self.demand.max(self.requested_floor.rate.grains());
        let stays = self.waits.is_none() && !self.leaving;
        stays && kept > 0 && wants <= kept && ceiling.is_none_or(|most| kept <= most)
    }

    /// Returns the sum of the weights of a node's clients that want some, in weights of one.
    pub(super) fn wanting_clients(&self) -> u64 {
        let bands = self.claim.demand().iter().filter(|_| !self.leaving);
        let segments = bands.flat_map(|band| band.curve.segments());
        let wanting = segments.filter(|segment| segment.demand > 0);
        let weight = wanting.fold(0_u64, |sum, of| sum.saturating_add(of.weight));
        weight.div_ceil(WEIGHT_ONE)
    }

    /// Returns the largest cost that waits at the child, in whole tokens.
    pub(super) fn waiting(&self, scale: Scale) -> u64 {
        let waiting = self.waits.filter(|_| !self.leaving);
        waiting.map_or(0, |(_, cost)| scale.whole_up(cost))
    }

    /// Returns the requested floor.
    pub(super) fn floor(&self) -> Vector {
        let floor = match self.leaving {
            true => Share::EMPTY,
            false => self.requested_floor,
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
        let demand: Few<_> = self
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

/// The amounts to divide among the children that take part.
pub(super) struct Room {
    pub(super) rate: u64,
    pub(super) burst: u64,
    pub(super) tokens: u64,
    /// Permits that were given out by central decisions and come back here.
    central: u64,
}

impl Room {
    pub(super) fn new(account: &Account, view: &WholeView, reserved: Vector) -> Self {
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
            central: account.holding(Account::CENTRAL).burst.grains(),
        }
    }

    /// Updates the central mode of the budget. Returns true if the budget is in central mode.
    ///
    /// Permits in flight by central decisions count as divisible. If they did not, the mode would keep itself up: as
    /// long as all permits are in use, nothing else is left to divide.
    pub(super) fn is_too_small(
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
            Kind::Concurrency => (self.permits(), 1),
        };
        let wanting = candidates.iter().filter(|candidate| candidate.wants());
        let wanting = u64::try_from(wanting.count()).unwrap_or(u64::MAX);
        // The parent of clients collects burst for a large cost, and serves it from there itself.
        let waits = kind == Kind::Rate && view.placement == CentralPlacement::Home;
        let waiting = candidates.iter().filter(|_| waits);
        let waiting = waiting.map(|candidate| candidate.waiting(view.scale)).max();
        let claims = Claims {
            wanting,
            least,
            waiting: waiting.unwrap_or(0),
        };
        central_mode.look(whole, claims, now) || view.central_mode
    }

    /// Returns the permits that can be divided, now or once they are released.
    fn permits(&self) -> u64 {
        match planted::is(Bug::CentralPermitsUncounted) {
            true => self.burst,
            false => self.burst.saturating_add(self.central),
        }
    }

    /// Returns the burst in whole tokens.
    pub(super) fn whole_burst(&self, scale: Scale) -> u64 {
        scale.whole(Tokens::from_grains(self.burst))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ledger/candidate.rs"]
mod tests;
