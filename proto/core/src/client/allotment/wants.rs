//! The demand that an allotment reports, and its urgency.

use super::{Allotment, LastReport};
use crate::budget::OnLeaseExpiry;
use crate::client::decider::Decider;
use crate::demand::{CALLER_SEGMENTS_MAX, DemandCurve, ESCROW, Observed};
use crate::holder::Wants;
use crate::ledger::is_little;
use crate::message::{BandDemand, Tally};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Tick, Tokens, mul_div_floor};

impl<D: Decider> Allotment<D> {
    pub(in crate::client) fn observe(&mut self, observed: Observed, now: Tick) {
        self.count(observed);
        self.demand.observe(observed, now);
    }

    fn count(&mut self, observed: Observed) {
        self.tally = self.tally.plus(Tally {
            admitted: Tokens::from_grains(observed.admitted),
            denied: Tokens::from_grains(observed.denied),
        });
    }

    /// Adds what the decider observed by itself. None of it was observed before `since`.
    fn drain_observed(&mut self, since: Tick, now: Tick) {
        if let Some(observed) = self.decider.observed() {
            self.demand.observe_calm(since);
            self.count(observed);
            self.demand.observe_since(observed, now);
        }
    }

    fn demand_at(&mut self, now: Tick) -> u64 {
        let demand = match self.kind() {
            Some(Kind::Quota) => self.demand.ahead_at(ESCROW, now),
            Some(Kind::Concurrency) => {
                let rate = self.demand.rate_at(now);
                rate.saturating_add(self.decider.in_flight())
            }
            Some(Kind::Rate) | None => self.beyond_savings(now),
        };
        self.most().map_or(demand, |most| demand.min(most))
    }

    /// Returns the largest cost that lacks tokens. An escrow is never refilled by time, so a cost that a quota
    /// denied, or that waited and is waited for no more, still needs an escrow of its size.
    fn largest_lacking_at(&mut self, now: Tick) -> u64 {
        let waiting = self.demand.largest_waiting_at(now);
        match self.kind() {
            Some(Kind::Quota) if !planted::is(Bug::DeniedCostUnseen) => {
                waiting.max(self.demand.lacked_at(now))
            }
            _ => waiting,
        }
    }

    /// Returns the demand on a rate beyond what savings cover.
    ///
    /// While the bucket is more than a quarter full, it is no more than the mean demand, which refills the
    /// bucket between pulses. As that quarter is used up, it rises to the full demand. Clients that pulse in
    /// step are thereby granted what they need in the long run.
    fn beyond_savings(&mut self, now: Tick) -> u64 {
        let wanted = self.demand.rate_at(now);
        let mean = self.demand.lately_at(now).unwrap_or(wanted);
        let beyond = wanted.saturating_sub(mean);
        if beyond == 0 || planted::is(Bug::SavingsUnseen) {
            return wanted;
        }
        let share = self.share_at(now);
        let quarter = share.burst.grains().div_ceil(4).max(1);
        let saved = share.tokens.grains().min(quarter);
        wanted.saturating_sub(mul_div_floor(beyond, saved, quarter).unwrap_or(0))
    }

    /// Returns the maximum that the budget's ceiling allows one session.
    fn most(&self) -> Option<u64> {
        let terms = self.terms?;
        let ceiling = terms.ceiling?;
        Some(match terms.kind {
            Kind::Rate => ceiling.rate.grains(),
            Kind::Quota => ceiling.tokens.grains(),
            Kind::Concurrency => ceiling.burst.grains(),
        })
    }

    fn floor_wanted(&self) -> Share {
        match self.terms {
            Some(terms) if terms.on_lease_expiry == OnLeaseExpiry::Floor => terms.floor,
            _ => Share::EMPTY,
        }
    }

    fn next_report(&mut self, since: Tick, now: Tick) -> LastReport {
        self.drain_observed(since, now);
        LastReport {
            demand: self.demand_at(now),
            largest_wait: Tokens::from_grains(self.largest_lacking_at(now)),
            floor: self.floor_wanted(),
        }
    }

    /// Returns the values for the report at `now`, and keeps them as reported. Every request before `since`
    /// has been seen.
    pub(in crate::client) fn wants(&mut self, since: Tick, now: Tick) -> Wants {
        self.last_report = self.next_report(since, now);
        self.reported_wants(now)
    }

    /// Returns the demand of the last report, of a rate by callers.
    ///
    /// The last level is about the one at which they take what is held. There the curve is kept most exactly.
    fn curve(&self, now: Tick) -> DemandCurve {
        let (demand, weight) = (self.last_report.demand, self.claim.weight);
        let by_caller = |callers: DemandCurve| {
            let near = callers.level_at(self.capacity_at(now));
            let curve = callers.with_total(demand);
            curve
                .compress(CALLER_SEGMENTS_MAX, Some(near))
                .reweighed(weight.get(), 1)
        };
        let callers = match self.kind() {
            Some(Kind::Rate) => self.decider.callers(),
            _ => None,
        };
        let curve = callers.and_then(by_caller);
        curve.unwrap_or_else(|| DemandCurve::of(demand, weight))
    }

    /// Returns the values of the last report.
    fn reported_wants(&self, now: Tick) -> Wants {
        Wants {
            demand: [BandDemand {
                band: self.claim.band,
                curve: self.curve(now),
            }]
            .into(),
            floor: self.last_report.floor,
            largest_wait: self.last_report.largest_wait,
            tally: self.tally,
        }
    }

    /// Returns true if the last report had any demand.
    pub(in crate::client) const fn wants_any(&self) -> bool {
        self.last_report.demand > 0
    }

    /// Returns true if the parent should learn of this before the next report is due: the demand rose by more
    /// than half and no share serves it, or it fell by more than half, was not little of what is held, and other clients
    /// may use what is held for it. Every request before `since` has been seen.
    pub(in crate::client) fn is_urgent(&mut self, since: Tick, now: Tick) -> bool {
        let (before, next) = (self.last_report, self.next_report(since, now));
        let risen = next.demand > before.demand.saturating_add(before.demand >> 1);
        let unserved = next.demand > self.capacity_at(now);
        let fallen = next.demand < before.demand >> 1;
        (risen && unserved)
            || (fallen && !unserved && !self.holds_much(now))
            || next.largest_wait > before.largest_wait
            || next.floor != before.floor
    }

    /// Returns true if every report must examine the budget, because its values may change at any time without
    /// a request: a caller waits, a permit is in flight, or other limits follow its share.
    pub(in crate::client) fn is_busy(&self, now: Tick) -> bool {
        !self.rests()
            && (self.decider.in_flight() > 0
                || !self.last_report.largest_wait.is_zero()
                || self.decider.rests_until(now).is_some_and(|at| at <= now))
    }

    /// Returns the time at which the budget must be examined even if nothing is requested or granted before:
    /// when its demand may have fallen by much, or when the decider must be. If the reported demand is little of what
    /// is held, no fall matters before the last one.
    pub(in crate::client) fn next_look(&self, now: Tick) -> Option<Tick> {
        let cooled = (!self.rests()).then(|| match self.holds_much(now) {
            true => self.demand.over_at(now),
            false => self.demand.cools_until(now),
        });
        let needed = self.decider.rests_until(now);
        cooled.into_iter().chain(needed).min()
    }

    /// Returns true if the next reports repeat the last one as long as nothing is requested or granted.
    fn rests(&self) -> bool {
        self.last_report.demand == 0
            && self.last_report.largest_wait.is_zero()
            && self.demand.is_at_rest()
            && self.decider.in_flight() == 0
    }

    /// Returns true if the reported demand is little of the rate that is held.
    fn holds_much(&self, now: Tick) -> bool {
        self.kind() == Some(Kind::Rate)
            && self.decides_by_edge()
            && is_little(self.last_report.demand, self.decider.share_at(now).rate)
    }

    /// Returns the held capacity that demand is compared with.
    fn capacity_at(&self, now: Tick) -> u64 {
        let share = self.decider.share_at(now);
        match self.kind() {
            Some(Kind::Rate) if self.decides_by_edge() => share.rate.grains(),
            Some(Kind::Quota) if self.decides_by_edge() => share.tokens.grains(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::Claim;
    use crate::client::Client;
    use crate::unit::{BudgetId, Drift, Edge, Incarnation, Tick, Tokens};

    const BUDGET: BudgetId = BudgetId::new(1);

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    /// Returns a client that made its first report.
    fn reporting() -> Client {
        let mut client = Client::new(Drift::default());
        assert!(!client.is_urgent(at(0)), "there is no node to tell");
        let edge = Edge {
            parent: Incarnation::new(1),
            child: Incarnation::new(1),
        };
        client.open(edge, at(0));
        assert!(client.is_urgent(at(0)), "the first report");
        assert!(client.report(at(0), 0).is_some());
        assert!(!client.is_urgent(at(0)));
        client
    }

    #[test]
    fn a_claim_and_a_demand_that_nothing_serves_are_urgent_once() {
        let mut client = reporting();
        client.claim(BUDGET, Claim::default(), at(1));
        assert!(client.is_urgent(at(1)), "a claim");
        assert!(client.report(at(1), 0).is_some());
        assert!(
            !client.is_urgent(at(2)),
            "reported, and no caller wants any"
        );
        let denied = client.try_acquire_at(BUDGET, Tokens::from_grains(8), at(2));
        assert!(denied.is_err() && client.is_urgent(at(2)), "a refusal");
        assert!(client.report(at(2), 0).is_some());
        assert!(!client.is_urgent(at(3)), "the same demand was said");
        let one = Tokens::from_grains(1);
        assert!(client.try_acquire_at(BUDGET, one, at(3)).is_err());
        assert!(!client.is_urgent(at(3)), "hardly more");
        assert!(
            client
                .try_acquire_at(BUDGET, Tokens::from_grains(9), at(4))
                .is_err()
        );
        assert!(client.is_urgent(at(4)), "half as much again");
    }

    #[test]
    fn a_greater_cost_that_waits_is_urgent() {
        let mut client = reporting();
        client.claim(BUDGET, Claim::default(), at(1));
        assert!(client.report(at(1), 0).is_some());
        client.waits(BUDGET, Tokens::from_grains(3), at(2));
        assert!(client.is_urgent(at(2)));
        assert!(client.report(at(2), 0).is_some());
        client.waits(BUDGET, Tokens::from_grains(2), at(3));
        assert!(!client.is_urgent(at(3)));
        client.waits(BUDGET, Tokens::from_grains(4), at(4));
        assert!(client.is_urgent(at(4)));
    }

    #[test]
    fn reports_examine_what_is_used_and_seldom_what_is_not_used_any_more() {
        const OLD: u64 = 1_000;
        let mut client = reporting();
        let one = Tokens::from_grains(1);
        let use_once = |client: &mut Client, budget: u64, millis: u64| {
            let budget = BudgetId::new(budget);
            client.claim(budget, Claim::default(), at(millis));
            assert!(client.try_acquire_at(budget, one, at(millis)).is_err());
        };
        (1..=OLD).for_each(|budget| use_once(&mut client, budget, 10));
        assert!(client.report(at(10), 0).is_some());
        client.queue.examined = 0;
        for turn in 0..100 {
            let millis = 20 + 20 * turn;
            use_once(&mut client, OLD + 1 + turn, millis);
            assert!(client.is_urgent(at(millis)));
            assert!(client.report(at(millis), 0).is_some());
        }
        // Seven or eight times in two seconds each of the old ones, not once in each report.
        let examined = u64::try_from(client.queue.examined).unwrap();
        assert!(examined < 10 * OLD, "{examined}");
        assert!(examined > 4 * OLD, "their demand fell: {examined}");
        // At rest after ten seconds of silence, and then never.
        for turn in 0..60 {
            let millis = 2_020 + 200 * turn;
            assert!(client.report(at(millis), 0).is_some());
        }
        assert!(!client.wants_any());
        client.queue.examined = 0;
        assert!(client.report(at(14_020), 0).is_some());
        assert!(!client.is_urgent(at(15_000)));
        assert_eq!(client.queue.examined, 0);
    }
}
