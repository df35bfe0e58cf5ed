//! One budget at one client: what is held, by what right it is used, and what
//! happens when the lease is over.

mod expiry;
mod spend;
mod wants;

use super::decider::{Decider, Plain, Right};
use super::give_back;
use super::permits::Permits;
use crate::budget::Claim;
use crate::demand::Estimator;
use crate::edge::Vector;
use crate::holder::Holder;
use crate::lease::child_span;
use crate::message::{FloorRelease, Tally, Terms};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Drift, PeriodId, Rate, Span, Tick, Tokens};

/// By what right requests are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By the share, under a lease.
    Leased,
    /// By nothing.
    Denied,
    /// By the floor that the edge carries, until it ends.
    Floor(Tick),
    /// By the last share, without a lease.
    Kept,
    /// By a bucket of one's own.
    Local,
    /// By no limit.
    Open,
}

/// A floor of a former edge, in use until the new edge gives something.
#[derive(Clone, Copy, Debug, Hash)]
struct Remnant {
    release: FloorRelease,
    until: Tick,
}

/// One budget at one client.
///
/// There is one decider, whatever it decides by: the share under the lease, the
/// floor of this edge or of the former one, the last share, or a part of one's
/// own. While it decides by something that this edge did not give, `parked` is
/// what the edge still holds, without a level.
#[derive(Clone, Debug, Hash)]
pub struct Allotment<D = Plain> {
    claim: Claim,
    terms: Option<Terms>,
    drift: Drift,
    period: PeriodId,
    mode: Mode,
    decider: D,
    parked: Share,
    /// The floor within what is held.
    floor: Share,
    remnant: Option<Remnant>,
    /// Spent of a quota and not reported yet.
    unreported: Tokens,
    demand: Estimator,
    /// What became of requests under the present edge.
    tally: Tally,
    said: Said,
    /// When it is looked at though it rests.
    pub(super) due: Option<Tick>,
}

/// What the last report said of a budget.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Said {
    demand: u64,
    largest_wait: Tokens,
    floor: Share,
}

impl Allotment<Plain> {
    /// Its permits.
    #[must_use]
    pub const fn permits(&self) -> &Permits {
        &self.decider.permits
    }
}

impl<D: Decider> Allotment<D> {
    /// Demand is added up over this time: short enough that a shift is
    /// reported with the next report, long enough to see a stream's rate.
    const DEMAND_TICK: Span = Span::from_millis(100);

    pub(super) fn new(claim: Claim, decider: D, drift: Drift, now: Tick) -> Self {
        Self {
            claim,
            terms: None,
            drift,
            period: PeriodId::new(0),
            mode: Mode::Denied,
            decider,
            parked: Share::EMPTY,
            floor: Share::EMPTY,
            remnant: None,
            unreported: Tokens::ZERO,
            demand: Estimator::new(Self::DEMAND_TICK, u64::MAX >> 8, now),
            tally: Tally::default(),
            said: Said::default(),
            due: None,
        }
    }

    /// Weight and band.
    #[must_use]
    pub const fn claim(&self) -> Claim {
        self.claim
    }

    /// The terms on which it was last given something.
    #[must_use]
    pub const fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// By what right it admits.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// What decides, to look at.
    #[must_use]
    pub const fn decider(&self) -> &D {
        &self.decider
    }

    /// What decides, to be told what is no part of the protocol.
    pub(super) const fn decider_mut(&mut self) -> &mut D {
        &mut self.decider
    }

    /// What decides; the allotment is not used any more.
    pub(super) fn into_decider(self) -> D {
        self.decider
    }

    /// Capacity and level of what the present edge gave of a rate, at `now`.
    #[must_use]
    pub fn share_at(&self, now: Tick) -> Share {
        match self.kind() {
            Some(Kind::Rate) if self.decides_by_edge() => self.decider.share_at(now),
            Some(Kind::Rate) => self.parked,
            _ => Share::EMPTY,
        }
    }

    fn kind(&self) -> Option<Kind> {
        self.terms.map(|terms| terms.kind)
    }

    /// Whether what the decider decides on came from the present edge.
    const fn decides_by_edge(&self) -> bool {
        self.remnant.is_none() && !matches!(self.mode, Mode::Local)
    }

    /// The right that follows from the mode.
    fn right(&self) -> Right {
        if let Some(remnant) = &self.remnant {
            let permits = Tokens::ZERO;
            let until = remnant.until;
            return Right::Floor { until, permits };
        }
        match self.mode {
            Mode::Leased => Right::Leased,
            Mode::Denied => Right::Never,
            // There is no such thing as a permit that no parent counts.
            Mode::Local | Mode::Open if self.has_permits() => Right::Never,
            Mode::Floor(until) => Right::Floor {
                until,
                permits: self.floor.burst,
            },
            Mode::Kept | Mode::Local => Right::Forever,
            Mode::Open => Right::Open,
        }
    }

    fn go_by(&mut self, mode: Mode, now: Tick) {
        // Whatever ends a part of one's own, it is no part of the edge's.
        if self.mode == Mode::Local && mode != Mode::Local && self.remnant.is_none() {
            self.unpark(now);
        }
        self.mode = mode;
        self.decider.admit_by(self.right(), self.period, now);
    }

    /// A new period of a quota: tokens of the old one are dead.
    pub(super) fn begin(&mut self, period: PeriodId, now: Tick) {
        if period > self.period {
            self.period = period;
            self.unreported = Tokens::ZERO;
            if self.decides_by_edge() {
                self.replace(Share::EMPTY, now);
            }
            self.decider.admit_by(self.right(), period, now);
        }
    }

    /// The lease holds (again): what it allows is what counts.
    pub(super) fn renewed(&mut self, now: Tick) {
        if self.mode == Mode::Leased {
            return;
        }
        self.go_by(Mode::Leased, now);
    }

    /// Goes on with what the edge itself gave.
    fn unpark(&mut self, now: Tick) {
        let parked = core::mem::take(&mut self.parked);
        self.replace(parked, now);
    }

    /// Permits are not replaced: they go with their edge.
    fn replace(&mut self, share: Share, now: Tick) {
        if !self.has_permits() {
            self.decider.replace(share, now);
        }
    }

    /// Takes a gift under a lease that holds. What the former edge's floor
    /// allowed ends here, and is to be released.
    pub(super) fn take(
        &mut self,
        gift: Vector,
        terms: &Terms,
        period: PeriodId,
        drift: Drift,
        now: Tick,
    ) -> Option<FloorRelease> {
        self.drift = drift;
        if self.terms != Some(*terms) {
            self.decider
                .agree(terms, child_span(terms.max_hold, drift), now);
        }
        self.terms = Some(*terms);
        self.demand.counts_in(terms.scale.grains_per_token(), now);
        self.begin(period, now);
        if gift.is_zero() {
            return None;
        }
        let remnant = self.remnant.take();
        if remnant.is_some() && self.mode != Mode::Local {
            self.unpark(now);
        }
        self.go_by(Mode::Leased, now);
        match terms.kind {
            Kind::Rate => self.decider.deposit(gift.share(), now),
            Kind::Quota => {
                // An escrow is a bucket that nothing refills.
                let part = Share {
                    rate: Rate::ZERO,
                    burst: gift.tokens,
                    tokens: gift.tokens,
                };
                self.decider.deposit(part, now);
            }
            Kind::Concurrency => self.decider.gain(gift.burst, now),
        }
        let floor = Share {
            rate: gift.floor_rate,
            burst: gift.floor_burst,
            tokens: Tokens::ZERO,
        };
        self.floor = self.floor.merge(floor).unwrap_or(self.floor);
        remnant.map(|remnant| remnant.release)
    }

    /// Lowers what is used by up to `owed`, and says by how much.
    pub(super) fn yield_up(&mut self, owed: Vector, now: Tick) -> Vector {
        let mut back = Vector::ZERO;
        if owed.is_zero() {
            return back;
        }
        match self.kind() {
            Some(Kind::Rate) => {
                back.floor_rate = owed.floor_rate.min(self.floor.rate);
                back.floor_burst = owed.floor_burst.min(self.floor.burst);
                self.lower_floor(back);
                let share = self.share_at(now);
                let rate = owed.rate.min(share.rate.minus_or_zero(self.floor.rate));
                let burst = owed.burst.min(share.burst.minus_or_zero(self.floor.burst));
                let cut = self.withdraw(rate, burst, now);
                (back.rate, back.burst, back.tokens) = (cut.rate, cut.burst, cut.tokens);
            }
            Some(Kind::Quota) => back.tokens = self.withdraw_escrow(owed.tokens, now),
            Some(Kind::Concurrency) => {
                back.floor_burst = owed.floor_burst.min(self.floor.burst);
                self.lower_floor(back);
                back.burst = self
                    .decider
                    .withdraw_idle(owed.burst, self.floor.burst, now);
            }
            None => {}
        }
        back
    }

    fn withdraw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share {
        if self.decides_by_edge() {
            if planted::is(Bug::ReturnedNotLowered) {
                let tokens = Tokens::ZERO;
                return Share {
                    rate,
                    burst,
                    tokens,
                };
            }
            return self.decider.withdraw(rate, burst, now);
        }
        let part = Share {
            rate: rate.min(self.parked.rate),
            burst: burst.min(self.parked.burst),
            tokens: Tokens::ZERO,
        };
        self.parked = self.parked.without(part).unwrap_or(Share::EMPTY);
        part
    }

    /// Takes up to `most` unspent tokens out of the escrow. What is found spent
    /// meanwhile is kept, to be reported.
    fn withdraw_escrow(&mut self, most: Tokens, now: Tick) -> Tokens {
        if !self.decides_by_edge() {
            return Tokens::ZERO;
        }
        self.settle_spent(now);
        let cut = self.decider.withdraw(Rate::ZERO, most, now);
        let spent = cut.burst.minus_or_zero(cut.tokens);
        self.unreported = self.unreported.plus(spent).unwrap_or(Tokens::MAX);
        cut.tokens
    }

    /// Turns the empty capacity of an escrow into what was spent.
    fn settle_spent(&mut self, now: Tick) {
        if self.kind() != Some(Kind::Quota) || !self.decides_by_edge() {
            return;
        }
        let share = self.decider.share_at(now);
        let missing = share.burst.minus_or_zero(share.tokens);
        if missing.is_zero() {
            return;
        }
        let cut = self.decider.withdraw(Rate::ZERO, missing, now);
        let spent = cut.burst.minus_or_zero(cut.tokens);
        self.unreported = self.unreported.plus(spent).unwrap_or(Tokens::MAX);
        if !cut.tokens.is_zero() {
            // Only a decider that rounds finds tokens in capacity that it called empty.
            let part = Share {
                rate: Rate::ZERO,
                burst: cut.tokens,
                tokens: cut.tokens,
            };
            self.decider.deposit(part, now);
        }
    }

    /// What was spent of a quota and not reported yet; it counts as reported now.
    pub(super) fn take_unreported(&mut self, now: Tick) -> Tokens {
        self.settle_spent(now);
        core::mem::take(&mut self.unreported)
    }

    /// What of `held` goes back when a permit ends without a lease: all but
    /// what the policy lets go on.
    pub(super) const fn idle_after_lapse(&self, held: Vector) -> Vector {
        match self.mode {
            Mode::Kept => Vector::ZERO,
            _ => Vector {
                floor_rate: Rate::ZERO,
                floor_burst: Tokens::ZERO,
                ..held
            },
        }
    }

    /// Whether permits are what it limits.
    pub(super) fn has_permits(&self) -> bool {
        self.kind() == Some(Kind::Concurrency)
    }

    fn lower_floor(&mut self, by: Vector) {
        self.floor.rate = self.floor.rate.minus_or_zero(by.floor_rate);
        self.floor.burst = self.floor.burst.minus_or_zero(by.floor_burst);
    }

    /// Gives back what a report at `now` is to say returned: what was spent, and what `holder`
    /// owes as far as it can be had. Whether some of that is left.
    pub(super) fn settle(
        &mut self,
        budget: BudgetId,
        holder: &mut Holder,
        usable: bool,
        now: Tick,
    ) -> bool {
        self.decider.cancel_overheld(now);
        let spent = Vector {
            spent: self.take_unreported(now),
            ..Vector::ZERO
        };
        give_back(holder, budget, spent);
        let owed = match usable {
            true => holder.owed(budget),
            false if self.has_permits() => self.idle_after_lapse(holder.holding(budget)),
            false => Vector::ZERO,
        };
        let back = self.yield_up(owed, now);
        give_back(holder, budget, back);
        back != owed
    }
}
