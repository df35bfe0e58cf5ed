//! Decisions made through the machine itself.

use super::allotment::give_back;
use super::decider::{Decider, Plain};
use super::{Client, Denial, Permit};
use crate::budget::Claim;
use crate::demand::Observed;
use crate::edge::Vector;
use crate::holder::Holder;
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, PeriodId, Tick, Tokens};
use core::hint;

impl Client {
    /// Reads the memory that every input reads first. It has no other effect.
    ///
    /// Of thousands of clients in one process little is in the processor's cache. If the memory of several is read side
    /// by side, the processor waits for all of it at once.
    pub fn fetch(&self) {
        if let Some(holder) = &self.holder {
            holder.fetch();
        }
        hint::black_box((self.wanting, self.queue.looked(), self.queue.len()));
    }

    /// Reads what the memory of [`Client::fetch`] points to, and the state of the first budget if it is `used` or a
    /// report at `now` examines it.
    pub fn fetch_further(&self, used: bool, now: Tick) {
        if let Some(holder) = &self.holder {
            holder.fetch_further();
        }
        if !used && !self.queue.has_due(now) {
            return;
        }
        for (&budget, allotment) in self.allotments.iter().take(1) {
            allotment.fetch();
            if let Some(holder) = &self.holder {
                hint::black_box(holder.held(budget));
            }
        }
    }

    /// Claims a budget: from now on demand is observed and reported.
    pub fn claim(&mut self, budget: BudgetId, claim: Claim, now: Tick) {
        self.claim_with(budget, claim, Plain::empty(now), now);
    }

    /// Decides on `n` tokens of a rate or a quota at `now`, and counts the demand. Returns the quota period
    /// to which the admission belongs.
    ///
    /// # Errors
    ///
    /// [`Denial`]; nothing was taken.
    pub fn try_acquire_at(
        &mut self,
        budget: BudgetId,
        n: Tokens,
        now: Tick,
    ) -> Result<PeriodId, Denial> {
        let decision = self.retry_acquire_at(budget, n, now);
        if let Some(allotment) = self.allotments.get_mut(&budget) {
            let observed = Observed {
                admitted: if decision.is_ok() { n.grains() } else { 0 },
                denied: if decision.is_ok() { 0 } else { n.grains() },
                denied_largest: if decision.is_ok() { 0 } else { n.grains() },
                ..Observed::default()
            };
            allotment.observe(observed, now);
        }
        decision
    }

    /// Decides again on `n` tokens whose demand was counted when they were refused.
    ///
    /// # Errors
    ///
    /// [`Denial`]; nothing was taken.
    pub fn retry_acquire_at(
        &mut self,
        budget: BudgetId,
        n: Tokens,
        now: Tick,
    ) -> Result<PeriodId, Denial> {
        let leased = self.look_at_lease(now);
        let allotment = self.allotments.get_mut(&budget).ok_or(Denial::Unknown)?;
        self.queue.touch(budget, &mut allotment.naming);
        allotment.try_acquire_at(n, now, leased)
    }

    /// Returns true if the lease holds at the decision's own clock reading.
    fn look_at_lease(&mut self, now: Tick) -> bool {
        if planted::is(Bug::LeaseUnchecked) {
            return self.holder.is_some();
        }
        self.tick(now);
        self.is_leased(now) && !self.holder.as_ref().is_some_and(Holder::is_leaving)
    }

    /// Notes a request that waits for `n` tokens, for the next report.
    pub fn waits(&mut self, budget: BudgetId, n: Tokens, now: Tick) {
        if let Some(allotment) = self.allotments.get_mut(&budget) {
            self.queue.touch(budget, &mut allotment.naming);
            let waiting = n.grains();
            allotment.observe(
                Observed {
                    waiting,
                    waiting_largest: waiting,
                    ..Observed::default()
                },
                now,
            );
        }
    }

    /// Takes a permit.
    ///
    /// # Errors
    ///
    /// [`Denial`]; nothing was taken.
    pub fn try_permit_at(&mut self, budget: BudgetId, now: Tick) -> Result<Permit, Denial> {
        let leased = self.look_at_lease(now);
        let allotment = self.allotments.get_mut(&budget).ok_or(Denial::Unknown)?;
        self.queue.touch(budget, &mut allotment.naming);
        let decision = allotment.try_permit_at(now, leased);
        let one = |taken: bool| u64::from(taken);
        allotment.observe(
            Observed {
                admitted: one(decision.is_ok()),
                denied: one(decision.is_err()),
                ..Observed::default()
            },
            now,
        );
        decision
    }

    /// Releases a permit, and gives back what the parent wants back.
    pub fn release_permit(&mut self, budget: BudgetId, permit: Permit, now: Tick) {
        let leased = self.may_use(now);
        let (Some(allotment), holder) = (self.allotments.get_mut(&budget), &mut self.holder) else {
            return;
        };
        self.queue.touch(budget, &mut allotment.naming);
        allotment.release_permit(permit);
        let Some(holder) = holder else { return };
        let owed = if leased {
            holder.owed(budget)
        } else {
            allotment.idle_after_lapse(holder.holding(budget))
        };
        let taken_again = planted::is(Bug::RecalledPermitTaken);
        let owed = if taken_again { Vector::ZERO } else { owed };
        let back = allotment.yield_up(owed, now);
        give_back(holder, budget, back);
        self.owes_report |= !back.is_zero();
    }
}
