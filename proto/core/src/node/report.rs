//! What a node says upwards: the sum of its clients' demand, and what came back.

use super::Node;
use crate::demand::{DemandCurve, Segment};
use crate::edge::Vector;
use crate::holder::Wants;
use crate::ledger::Spoken;
use crate::message::{BandDemand, Report};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Band, BudgetId, Span, Tick, Tokens};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

impl Node {
    /// All claims are added up at most so often. Clients report every 200 ms, nodes every
    /// 500 ms where nothing is urgent.
    const SUMMED_EVERY: Span = Span::from_millis(200);

    /// Makes the node's own report: the sum of its clients' demand, and what came back, as
    /// far as it is not in the last whole report that the leader is known to have.
    ///
    /// `None` once the node's edge is closed.
    pub fn report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        let budgets: Vec<BudgetId> = self.desks.keys().copied().collect();
        for budget in budgets {
            self.report_spent(budget);
            let owed = self.holder.owed(budget);
            if !owed.is_zero() {
                self.give_back(budget, owed, now);
            }
        }
        self.return_while_leaving(now);
        let wants = self.wants(now);
        self.holder.report_on_whole(now, wall_ms, wants)
    }

    /// What clients spent of a quota, and what the dead never reported, is spent.
    pub(super) fn report_spent(&mut self, budget: BudgetId) {
        let Some(desk) = self.desks.get(&budget) else {
            return;
        };
        if desk.terms.kind != Kind::Quota {
            return;
        }
        let counters = self.holder.counters_of(budget);
        let reported = counters.map_or(Tokens::ZERO, |of| of.returned.spent);
        let spent = desk.account.spent().minus_or_zero(reported);
        let vector = Vector {
            spent,
            ..Vector::ZERO
        };
        // More than was given can only be a client's lie: it is not passed on.
        let _ = self.holder.give_back(budget, vector);
    }

    /// What all clients below want, per budget: demand curves add.
    ///
    /// What was not spoken of since is as it was. What nobody waits for has time until
    /// the next report that has nothing urgent to say, or until all were summed
    /// [`Node::SUMMED_EVERY`] ago: thousands of claims must not be added up every few milliseconds.
    fn wants(&mut self, now: Tick) -> BTreeMap<BudgetId, Wants> {
        let all = now.since(self.summed) >= Self::SUMMED_EVERY;
        let which = if all { Spoken::All } else { Spoken::Asked };
        if all {
            self.summed = now;
        }
        for budget in self.ledger.take_spoken(which) {
            match self.sum(budget) {
                Some(sum) => self.sums.insert(budget, sum),
                None => self.sums.remove(&budget),
            };
        }
        debug_assert!(
            planted::any()
                || !all
                || self
                    .sums
                    .iter()
                    .all(|(&id, sum)| self.sum(id).as_ref() == Some(sum)),
            "a claim changed of which nobody spoke"
        );
        let mut wants = self.sums.clone();
        // Floors of closed sessions stay booked here, so they must stay granted:
        // a recall of them could not be met before they are forgotten.
        for (&budget, desk) in &self.desks {
            let sum = wants.entry(budget).or_default();
            sum.tally = sum.tally.plus(desk.tally);
            let ghosts = desk.account.ghosts();
            let floored = !ghosts.floor_rate.is_zero() || !ghosts.floor_burst.is_zero();
            if floored && !planted::is(Bug::LastFloorUnasked) {
                let kept = Share {
                    rate: ghosts.floor_rate,
                    burst: ghosts.floor_burst,
                    tokens: Tokens::ZERO,
                };
                sum.floor = sum.floor.merge(kept).unwrap_or(sum.floor);
            }
        }
        wants
    }

    /// What those who claim a budget want together; `None` if nobody does.
    fn sum(&self, budget: BudgetId) -> Option<Wants> {
        let mut sum: Option<Wants> = None;
        let mut bands: BTreeMap<Reverse<Band>, Vec<Segment>> = BTreeMap::new();
        let claims = self.ledger.claims_on(budget);
        for (_, claim) in claims.filter(|(child, _)| !child.is_leaving()) {
            let sum = sum.get_or_insert_default();
            for band in &claim.demand {
                let segments = bands.entry(Reverse(band.band)).or_default();
                segments.extend(band.curve.segments());
            }
            sum.floor = sum.floor.merge(claim.floor).unwrap_or(sum.floor);
            let waits = match claim.waiting {
                Some((_, cost)) if !planted::is(Bug::WaitNotPassedOn) => cost,
                _ => Tokens::ZERO,
            };
            sum.largest_wait = sum.largest_wait.max(waits);
            sum.tally = sum.tally.plus(claim.tally);
        }
        if let Some(sum) = &mut sum {
            let demand = bands
                .into_iter()
                .map(|(Reverse(band), segments)| BandDemand {
                    band,
                    curve: DemandCurve::of_all(segments).compress(Self::BREAKPOINTS, None),
                });
            sum.demand = demand.collect();
        }
        sum
    }
}
