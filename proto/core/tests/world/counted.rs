//! Worlds with a quota or with permits, judged by the checkers of these kinds (invariant 1).

use super::clock::MS;
use super::net::NODES;
use super::plan::Plan;
use super::{Timer, World};
use aliquot_core::check::{ConcurrencyCheck, QuotaCheck, Verdict};
use aliquot_core::client::Permit;
use aliquot_core::share::Kind;
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, PeriodId, Span, Tick, Tokens};

/// A permit in flight: client, its process, budget, and the permit there.
type Flight = (usize, u64, BudgetId, Permit);

/// Admissions of a quota, and the permits in flight.
#[derive(Debug)]
pub(crate) struct Counted {
    quota: QuotaCheck,
    permits: ConcurrencyCheck<Flight>,
    period: PeriodId,
    one: Tokens,
}

impl Counted {
    /// Returns the state without admissions. No limit of the plan is greater than the one judged by.
    pub(crate) fn new(plan: &Plan) -> Self {
        let greatest = if plan.changes_limits() { 200 } else { 100 };
        let budget = plan.budget(greatest);
        Self {
            quota: QuotaCheck::new(budget.whole().tokens),
            permits: ConcurrencyCheck::new(Tick::from_nanos(0), budget.whole().burst, Span::ZERO),
            period: PeriodId::new(0),
            one: Tokens::from_grains(budget.scale().grains_per_token()),
        }
    }
}

impl World {
    /// Makes one request at one client, decided there.
    pub(super) fn decide_counted(&mut self, of: usize) {
        let service = &mut self.services[of];
        let Some(budget) = service.budget.filter(|_| !service.leaving) else {
            return;
        };
        let now = service.clock.read(self.now);
        let admitted = match self.plan.kind {
            Kind::Concurrency => {
                let permit = service.client.try_permit_at(budget, now).ok();
                permit.map(|permit| self.fly(of, budget, permit))
            }
            _ => {
                let one = self.counted.one;
                let period = service.client.try_acquire_at(budget, one, now).ok();
                period.map(|period| self.count(period, one))
            }
        };
        self.note(if admitted.is_some() { 3 } else { 4 }, of as u64);
        if let Some(verdict) = admitted {
            self.seen.counted += 1;
            self.judge.hear("envelope", self.now, verdict);
        }
    }

    fn count(&mut self, period: PeriodId, cost: Tokens) -> Verdict {
        let quota = &mut self.counted.quota;
        quota.admit(Tick::from_nanos(self.now), period, cost);
        quota.verdict()
    }

    /// A permit is in flight for less than its maximum hold, most of the time.
    fn fly(&mut self, of: usize, budget: BudgetId, permit: Permit) -> Verdict {
        self.land();
        let process = self.services[of].process.number;
        let name = (of, process, budget, permit);
        let one = Tokens::from_grains(1);
        let permits = &mut self.counted.permits;
        permits.acquire(Tick::from_nanos(self.now), name, one);
        let verdict = permits.verdict();
        let service = &self.services[of];
        let edge = service.client.edge();
        let span = self.rng.range(50, 1_100) * MS;
        self.inspect_admission(of, edge, budget);
        self.services[of]
            .flights
            .push((self.now + span, budget, permit));
        self.set(NODES + of, span, Timer::Release);
        verdict
    }

    /// Ends permits that are over by the client's own clock.
    fn land(&mut self) {
        let (services, now) = (&self.services, self.now);
        let over = |&(of, process, budget, permit): &Flight| {
            let service = &services[of];
            let local = service.clock.read(now);
            let mut allotments = service.client.allotments();
            let flies = allotments
                .any(|(id, allotment)| id == budget && allotment.permits().is_valid(permit, local));
            !flies || service.process.number != process
        };
        self.counted.permits.close(Tick::from_nanos(now), over);
    }

    /// Lets callers release their permits.
    pub(super) fn release_permits(&mut self, of: usize) {
        let (service, true_now) = (&mut self.services[of], self.now);
        let now = service.clock.read(true_now);
        let (done, flying) = service
            .flights
            .iter()
            .partition::<Vec<_>, _>(|(until, ..)| *until <= true_now);
        service.flights = flying;
        for (_, budget, permit) in done {
            service.client.release_permit(budget, permit, now);
        }
        self.land();
    }

    /// Ends a process, and all that it did.
    pub(super) fn end_flights(&mut self, of: usize) {
        self.services[of].flights.clear();
        let at = Tick::from_nanos(self.now);
        self.counted.permits.close(at, |flight| flight.0 == of);
    }

    /// Once a period's stamp is applied anywhere, a holder that does not learn of it uses the tokens of the
    /// former period for a lease at most.
    pub(super) fn watch_stamps(&mut self, effects: &[Effect]) {
        for effect in effects {
            let Effect::Stamped(_, period) = effect else {
                continue;
            };
            if *period > self.counted.period {
                let end = Tick::from_nanos(self.now + self.plan.lease_ms * MS);
                let before = std::mem::replace(&mut self.counted.period, *period);
                self.counted.quota.end(end, before);
            }
        }
    }
}
