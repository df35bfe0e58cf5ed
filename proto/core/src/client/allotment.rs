//! One budget at one client: the part that is held, the right by which it is used, and the end of the lease.

mod expiry;
mod spend;
mod wants;

use super::decider::{Decider, Plain, Right};
use super::permits::Permits;
use super::report_queue::Naming;
use crate::budget::Claim;
use crate::demand::Estimator;
use crate::edge::Vector;
use crate::holder::Holder;
use crate::lease::child_span;
use crate::message::{FloorRelease, Tally, Terms};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Drift, PeriodId, Rate, Span, Tick, Tokens};
use alloc::boxed::Box;
use core::hint;

/// Rule by which an allotment admits requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By the share, under a lease.
    Leased,
    /// Nothing is admitted.
    Denied,
    /// By the floor of the edge, until the floor ends.
    Floor(Tick),
    /// By the last share, without a lease (policy `keep`).
    LastShare,
    /// By the last share of a former edge, which the present edge has not replaced (policy `keep`).
    FormerShare,
    /// By a bucket of the client's own (policy `local`).
    Local,
    /// Without a limit (policy `open`).
    Open,
}

/// The end of a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseEnd {
    /// Time at which it ended.
    pub(super) until: Tick,
    /// True if the parent's own lease was confirmed after it first renewed this one.
    pub(super) confirmed: bool,
}

/// A floor of a former edge, used until the new edge grants something.
#[derive(Clone, Copy, Debug, Hash)]
struct Remnant {
    release: FloorRelease,
    until: Tick,
}

/// One budget at one client.
///
/// There is one decider, whichever part it decides by: the share under the lease, the floor of this edge or
/// of the former one, the last share, or the bucket of policy `local`. While it decides by a part that this
/// edge did not grant, `parked` is the part that the edge still holds, without its level.
#[derive(Clone, Debug, Hash)]
pub struct Allotment<D = Plain> {
    claim: Claim,
    terms: Option<Terms>,
    drift: Drift,
    period: PeriodId,
    mode: Mode,
    decider: D,
    parked: Share,
    /// The share of a former edge that policy `keep` returns to, without its level, if the present edge ends
    /// before its node was confirmed again. A node that lost its quorum divides what it has among all who come.
    former: Option<Box<Share>>,
    /// The floor within the held share.
    floor: Share,
    remnant: Option<Remnant>,
    /// Tokens of a quota that were spent and not reported yet.
    unreported: Tokens,
    demand: Estimator,
    /// Counts of requests under the present edge.
    tally: Tally,
    last_report: LastReport,
    /// Time at which the budget must be examined even if it rests.
    pub(super) due: Option<Tick>,
    pub(super) naming: Naming,
}

/// Values of a budget in the last report.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct LastReport {
    demand: u64,
    largest_wait: Tokens,
    floor: Share,
}

impl Allotment<Plain> {
    /// Returns the permits.
    #[must_use]
    pub const fn permits(&self) -> &Permits {
        &self.decider.permits
    }

    /// Reads it, for [`Client::fetch`](super::Client::fetch).
    pub(super) fn fetch(&self) {
        hint::black_box((self.terms, self.mode, self.parked, self.floor));
        hint::black_box((self.tally, self.last_report, self.due, self.naming));
        hint::black_box(self.decider.bucket.clone());
        hint::black_box(self.decider.permits.held());
        hint::black_box(self.demand.clone());
    }
}

impl<D: Decider> Allotment<D> {
    /// Interval over which demand is summed: short enough that the next report shows a change, long enough to
    /// measure the rate of a stream.
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
            former: None,
            floor: Share::EMPTY,
            remnant: None,
            unreported: Tokens::ZERO,
            demand: Estimator::new(Self::DEMAND_TICK, u64::MAX >> 8, now),
            tally: Tally::default(),
            last_report: LastReport::default(),
            due: None,
            naming: Naming::Unnamed,
        }
    }

    /// Returns the claim's weight and band.
    #[must_use]
    pub const fn claim(&self) -> Claim {
        self.claim
    }

    /// Returns the terms of the last grant.
    #[must_use]
    pub const fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// Returns the rule by which requests are admitted.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Returns the decider.
    #[must_use]
    pub const fn decider(&self) -> &D {
        &self.decider
    }

    /// Returns the decider, for settings that are not part of the protocol.
    pub(super) const fn decider_mut(&mut self) -> &mut D {
        &mut self.decider
    }

    /// Returns the decider and ends the allotment.
    pub(super) fn into_decider(self) -> D {
        self.decider
    }

    /// Returns capacity and level of the part of a rate budget that the present edge granted, at `now`.
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

    /// Returns true if the decider's part came from the present edge.
    const fn decides_by_edge(&self) -> bool {
        self.remnant.is_none() && !self.is_apart()
    }

    /// Returns true if the mode decides by a bucket that is no part of the edge's share.
    const fn is_apart(&self) -> bool {
        matches!(self.mode, Mode::Local | Mode::FormerShare)
    }

    /// Returns the right that follows from the mode.
    fn right(&self) -> Right {
        if let Some(remnant) = &self.remnant {
            let permits = Tokens::ZERO;
            let until = remnant.until;
            return Right::Floor { until, permits };
        }
        match self.mode {
            Mode::Leased => Right::Leased,
            Mode::Denied => Right::Never,
            // A permit exists only if a parent counts it.
            Mode::Local | Mode::Open if self.has_permits() => Right::Never,
            Mode::Floor(until) => Right::Floor {
                until,
                permits: self.floor.burst,
            },
            Mode::LastShare | Mode::FormerShare | Mode::Local => Right::Forever,
            Mode::Open => Right::Open,
        }
    }

    fn go_by(&mut self, mode: Mode, now: Tick) {
        if self.is_apart() && mode != self.mode && self.remnant.is_none() {
            self.unpark(now);
        }
        self.mode = mode;
        self.decider.admit_by(self.right(), self.period, now);
    }

    /// Begins a new period of a quota. Tokens of the old one are void.
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

    /// Uses the lease, which holds again. Returns false if the share of a former edge stays in use: the present
    /// one granted nothing, and its lease is not `confirmed` anew.
    pub(super) fn renewed(&mut self, confirmed: bool, now: Tick) -> bool {
        if self.mode == Mode::FormerShare && !confirmed && self.parked.is_empty() {
            return false;
        }
        if self.mode != Mode::Leased {
            self.remember_former(now);
            self.go_by(Mode::Leased, now);
        }
        true
    }

    /// Remembers the share of the former edge, which the present one replaces.
    fn remember_former(&mut self, now: Tick) {
        if self.mode == Mode::FormerShare {
            let share = Share {
                tokens: Tokens::ZERO,
                ..self.decider.share_at(now)
            };
            self.former = Some(Box::new(share));
        }
    }

    /// Decides by the edge's own part again.
    fn unpark(&mut self, now: Tick) {
        let parked = core::mem::take(&mut self.parked);
        self.replace(parked, now);
    }

    /// Replaces the decider's part. Permits are not replaced: they end with their edge.
    fn replace(&mut self, share: Share, now: Tick) {
        if !self.has_permits() {
            self.decider.replace(share, now);
        }
    }

    /// Adds a grant under a lease that holds. A floor of the former edge ends here. Returns its release.
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
        if remnant.is_some() && !self.is_apart() {
            self.unpark(now);
        }
        self.remember_former(now);
        self.go_by(Mode::Leased, now);
        match terms.kind {
            Kind::Rate => self.decider.deposit(gift.share(), now),
            Kind::Quota => {
                // An escrow is a bucket that is never refilled.
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

    /// Reduces the part in use by up to `owed`. Returns the reduction.
    pub(super) fn yield_up(&mut self, owed: Vector, now: Tick) -> Vector {
        let mut back = Vector::ZERO;
        // A decider of permits is told as well that nothing is owed any more.
        if owed.is_zero() && !self.has_permits() {
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

    /// Takes up to `most` unspent tokens out of the escrow. Tokens that turn out to be spent are counted as
    /// unreported.
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

    /// Counts the empty capacity of an escrow as spent, and removes it.
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
            // Only a decider that rounds finds tokens in capacity that it reported as empty.
            let part = Share {
                rate: Rate::ZERO,
                burst: cut.tokens,
                tokens: cut.tokens,
            };
            self.decider.deposit(part, now);
        }
    }

    /// Returns the tokens of a quota that were spent and not reported yet. They count as reported from now
    /// on.
    pub(super) fn take_unreported(&mut self, now: Tick) -> Tokens {
        self.settle_spent(now);
        core::mem::take(&mut self.unreported)
    }

    /// Returns the part of `held` that is given back when a permit ends without a lease: all but what the
    /// policy keeps.
    pub(super) const fn idle_after_lapse(&self, held: Vector) -> Vector {
        match self.mode {
            Mode::LastShare | Mode::FormerShare => Vector::ZERO,
            _ => Vector {
                floor_rate: Rate::ZERO,
                floor_burst: Tokens::ZERO,
                ..held
            },
        }
    }

    /// Returns true if the budget limits concurrency.
    pub(super) fn has_permits(&self) -> bool {
        self.kind() == Some(Kind::Concurrency)
    }

    fn lower_floor(&mut self, by: Vector) {
        self.floor.rate = self.floor.rate.minus_or_zero(by.floor_rate);
        self.floor.burst = self.floor.burst.minus_or_zero(by.floor_burst);
    }

    /// Gives back what a report at `now` returns: spent tokens, and what `holder` owes as far as it is free.
    /// Returns true if some of the debt remains.
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

    /// Gives back the permits that the parent wants back and that callers have released since. Returns true if there
    /// were any.
    pub(super) fn return_permits(
        &mut self,
        budget: BudgetId,
        holder: &mut Holder,
        now: Tick,
    ) -> bool {
        let owed = holder.owed(budget);
        if !self.has_permits() || owed.is_zero() {
            return false;
        }
        let back = self.yield_up(owed, now);
        give_back(holder, budget, back);
        !back.is_zero()
    }
}

/// Gives back a part of an allotment, which its edge must have.
pub(super) fn give_back(holder: &mut Holder, budget: BudgetId, back: Vector) {
    if !back.is_zero() {
        let accepted = holder.give_back(budget, back);
        debug_assert!(
            accepted.is_ok() || planted::any(),
            "an allotment gave back what its edge never had: {back}"
        );
    }
}
