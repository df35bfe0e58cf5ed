//! The demand that an allotment reports, and its urgency.

use super::{Allotment, LastReport};
use crate::budget::OnLeaseExpiry;
use crate::client::decider::Decider;
use crate::demand::{CALLER_SEGMENTS_MAX, DemandCurve, ESCROW, Observed};
use crate::holder::Wants;
use crate::ledger::{DemandChange, is_little};
use crate::message::{BandDemand, Tally, Terms};
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

    /// Returns a demand, of a rate by callers.
    ///
    /// The last level is about the one at which they take what is held. There the curve is kept most exactly.
    fn curve(&self, demand: u64, now: Tick) -> DemandCurve {
        let weight = self.claim.weight;
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

    /// Returns the demand of a report.
    fn demand_of(&self, report: LastReport, now: Tick) -> [BandDemand; 1] {
        [BandDemand {
            band: self.claim.band,
            curve: self.curve(report.demand, now),
        }]
    }

    /// Returns the values of the last report.
    fn reported_wants(&self, now: Tick) -> Wants {
        Wants {
            demand: self.demand_of(self.last_report, now).into(),
            floor: self.last_report.floor,
            largest_wait: self.last_report.largest_wait,
            tally: self.tally,
        }
    }

    /// Returns true if the last report had any demand.
    pub(in crate::client) const fn wants_any(&self) -> bool {
        self.last_report.demand > 0
    }

    /// Returns true if the last report wanted anything at all.
    pub(in crate::client) fn asks_for_anything(&self) -> bool {
        let last = &self.last_report;
        last.demand > 0 || !last.largest_wait.is_zero() || !last.floor.is_empty()
    }

    /// Returns true if the parent should learn of this before the next report is due: the demand rose by more
    /// than half and no share serves it, or it fell by more than half, was not little of what is held, and other
    /// clients may use what is held for it. The same holds for a demand that moved among callers: see
    /// [`DemandChange::of_callers`]. `reported` is the demand that the parent was told. Every request before `since`
    /// has been seen.
    pub(in crate::client) fn is_urgent(
        &mut self,
        reported: &[BandDemand],
        since: Tick,
        now: Tick,
    ) -> bool {
        let (before, next) = (self.last_report, self.next_report(since, now));
        let moved = self.moved(reported, next, now);
        let risen = next.demand > before.demand.saturating_add(before.demand >> 1);
        let unserved = next.demand > self.capacity_at(now);
        let fallen = next.demand < before.demand >> 1;
        (risen && unserved)
            || (fallen && !unserved && !self.holds_much(now))
            || match moved {
                DemandChange::Up => unserved,
                DemandChange::Down => !self.holds_much(now),
                DemandChange::None => false,
            }
            || next.largest_wait > before.largest_wait
            || next.floor != before.floor
    }

    /// Compares the callers of the reported demand with those of the next report. Most budgets have no callers, and
    /// cost nothing here.
    fn moved(&self, reported: &[BandDemand], next: LastReport, now: Tick) -> DemandChange {
        if self.kind() != Some(Kind::Rate) || self.decider.callers().is_none() {
            return DemandChange::None;
        }
        let next = self.demand_of(next, now);
        DemandChange::of_callers(reported, &next, self.capacity_at(now))
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
    /// is held, no fall matters before the last one. While nothing is held, falls of a sparse one matter little.
    pub(in crate::client) fn next_look(&self, now: Tick) -> Option<Tick> {
        let cooled = (!self.rests()).then(|| match self.holds_much(now) {
            true => self.demand.over_at(now),
            false if self.lacks_rate(now) => self.demand.fades_until(now),
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

    /// Returns true if the reported demand is sparse, and nothing is held of a rate. The parent knows that something is
    /// wanted.
    fn lacks_rate(&self, now: Tick) -> bool {
        let sparse = match self.terms {
            Some(terms) if terms.kind == Kind::Rate => terms.sparse(),
            Some(_) => 0,
            None => Terms::SPARSE,
        };
        self.last_report.demand <= sparse && self.capacity_at(now) == 0
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
#[path = "../../../tests/unit/client/allotment/wants.rs"]
mod tests;
