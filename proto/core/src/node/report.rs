//! The node's report to the leader: the sum of its clients' demand, and the parts that were returned.

use super::{BudgetState, Node};
use crate::demand::{DemandCurve, Segment};
use crate::edge::Vector;
use crate::holder::Wants;
use crate::ledger::{Claim, SumScope};
use crate::message::{BandDemand, Report};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Band, BudgetId, Span, Tick, Tokens};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

impl Node {
    /// Minimum time between two sums over the claims of all changed budgets. Clients report every 200 ms, and
    /// nodes every 450 ms unless something is urgent.
    const SUMMED_EVERY: Span = Span::from_millis(200);

    /// Maximum number of claims that are summed for one report. Summing one and making its line takes up to ten
    /// microseconds, and renewals of leases wait meanwhile. The rest follows in the next report, which is urgent.
    /// A report with as many lines is long: the leader acknowledges it at once.
    pub const SUMS_MAX: usize = 1_024;

    /// Maximum number of lines of a report. With twice as many, of which most are repeated, making one took 22 ms, and
    /// renewals of leases wait meanwhile.
    pub const LINES_MAX: usize = 2_048;

    /// If at least one in this many budgets is to be summed, all claims are visited in one walk.
    const APART: usize = 8;

    /// Makes the node's report: the sum of its clients' demand, and the returned parts. It has the lines that
    /// may differ from what the leader is known to have.
    ///
    /// Its cost is proportional to the number of changes, and bounded by [`Self::SUMS_MAX`]. Budgets that a client
    /// waits for are summed in every report, other changed budgets at most every 200 ms. With thousands of budgets
    /// and a report every few milliseconds, the report must visit only the budgets that it is made for.
    ///
    /// Returns `None` once the node's edge is closed.
    pub fn report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        let all = now.since(self.summed) >= Self::SUMMED_EVERY;
        self.return_what_is_owed(now);
        self.return_while_leaving(now);
        let which = if all { SumScope::All } else { SumScope::Urgent };
        let unsummed = self.ledger.take_unsummed(which, Self::SUMS_MAX);
        let wants = self.sum_up(unsummed);
        let rest = self.ledger.has_unsummed(which);
        self.report_urgent |= rest;
        if all && !rest {
            self.summed = now;
        }
        let report = self.holder.report(now, wall_ms, wants)?;
        self.report_urgent |= self.holder.has_more();
        debug_assert!(
            !all || rest
                || planted::any()
                || self.ledger.has_to_sweep()
                || self.has_reported_all_demand(),
            "a claim changed and was not marked"
        );
        Some(report)
    }

    fn return_what_is_owed(&mut self, now: Tick) {
        for budget in core::mem::take(&mut self.spent) {
            self.report_spent(budget);
        }
        let owing: Vec<BudgetId> = self.holder.owing().collect();
        for budget in owing {
            self.report_spent(budget);
            let owed = self.holder.owed(budget);
            self.give_back(budget, owed, now);
        }
    }

    /// Returns true if the reported demand of the first budgets equals their clients' demand. Checks only the
    /// first ones, since checking all with every report would make tests too slow.
    fn has_reported_all_demand(&self) -> bool {
        const SOME: usize = 64;
        let is_reported = |&budget: &BudgetId| {
            let wants = self.wants(budget, self.sum(budget));
            let line = self.holder.line(budget);
            self.holder.is_leaving()
                || line.is_none_or(|line| {
                    let demand = self.holder.demand_of(budget);
                    (demand, line.floor, line.largest_wait)
                        == (&wants.demand, wants.floor, wants.largest_wait)
                })
        };
        self.budgets.keys().take(SOME).all(is_reported)
    }

    /// Reports the spent tokens of a quota: those that clients reported, and those that closed sessions held.
    pub(super) fn report_spent(&mut self, budget: BudgetId) {
        let Some(budget_state) = self.budgets.get(&budget) else {
            return;
        };
        if budget_state.terms.kind != Kind::Quota {
            return;
        }
        let counters = self.holder.counters_of(budget);
        let reported = counters.map_or(Tokens::ZERO, |of| of.returned.spent);
        let spent = budget_state.account.spent().minus_or_zero(reported);
        let vector = Vector {
            spent,
            ..Vector::ZERO
        };
        // Only a client that reports wrongly can have spent more than it was given. That is not passed on.
        let _ = self.holder.give_back(budget, vector);
    }

    /// Sums the demand of all clients for `budgets`: demand curves are added.
    fn sum_up(&self, budgets: BTreeSet<BudgetId>) -> BTreeMap<BudgetId, Wants> {
        let most = budgets.len().saturating_mul(Self::APART) >= self.budgets.len();
        let sums: Vec<(BudgetId, Option<Wants>)> = match most {
            true => self.sum_in_one_walk(budgets),
            false => {
                let sums = budgets.into_iter();
                sums.map(|budget| (budget, self.sum(budget))).collect()
            }
        };
        let wants = |(budget, sum)| (budget, self.wants(budget, sum));
        sums.into_iter().map(wants).collect()
    }

    /// Sums the demand for these budgets in one walk over all claims. A walk reads claims in order, which is
    /// faster than a lookup for each.
    fn sum_in_one_walk(&self, budgets: BTreeSet<BudgetId>) -> Vec<(BudgetId, Option<Wants>)> {
        let ids: Vec<BudgetId> = budgets.into_iter().collect();
        let mut sums: Vec<Sum> = ids.iter().map(|_| Sum::default()).collect();
        let Some(&first) = ids.first() else {
            return Vec::new();
        };
        self.ledger.visit_children(first, |child| {
            if child.is_leaving() {
                return;
            }
            for (budget, claim) in child.claims.iter() {
                let place = ids.binary_search(budget).ok();
                if let Some(sum) = place.and_then(|place| sums.get_mut(place)) {
                    sum.add(claim);
                }
            }
        });
        let sums = ids.into_iter().zip(sums);
        sums.map(|(budget, sum)| (budget, sum.wants())).collect()
    }

    /// Returns the demand to report for a budget, given the sum of its clients' demand.
    fn wants(&self, budget: BudgetId, sum: Option<Wants>) -> Wants {
        let mut wants = sum.unwrap_or_default();
        if let Some(budget_state) = self.budgets.get(&budget) {
            Self::keep(&mut wants, budget_state);
        }
        wants
    }

    /// Adds the counts of closed sessions, and the floors that they left. These floors stay booked here, so
    /// they must stay granted: a recall could not be met before they are forgotten.
    fn keep(sum: &mut Wants, budget_state: &BudgetState) {
        sum.tally = sum.tally.plus(budget_state.tally);
        let lingering = budget_state.account.lingering();
        let floored = !lingering.floor_rate.is_zero() || !lingering.floor_burst.is_zero();
        if floored && !planted::is(Bug::LastFloorUnasked) {
            let kept = Share {
                rate: lingering.floor_rate,
                burst: lingering.floor_burst,
                tokens: Tokens::ZERO,
            };
            sum.floor = sum.floor.merge(kept).unwrap_or(sum.floor);
        }
    }

    /// Sums the demand of all claims on a budget. Returns `None` if there is no claim.
    fn sum(&self, budget: BudgetId) -> Option<Wants> {
        let mut sum = Sum::default();
        let claims = self.ledger.claims_on(budget);
        for (_, claim) in claims.filter(|(child, _)| !child.is_leaving()) {
            sum.add(claim);
        }
        sum.wants()
    }
}

/// Running sum of the claims on one budget.
#[derive(Default)]
struct Sum {
    wants: Option<Wants>,
    bands: BTreeMap<Reverse<Band>, Vec<Segment>>,
}

impl Sum {
    fn add(&mut self, claim: &Claim) {
        let wants = self.wants.get_or_insert_default();
        for band in claim.demand() {
            let segments = self.bands.entry(Reverse(band.band)).or_default();
            segments.extend(band.curve.segments());
        }
        wants.floor = wants.floor.merge(claim.floor()).unwrap_or(wants.floor);
        let waits = match claim.waiting() {
            Some((_, cost)) if !planted::is(Bug::WaitNotPassedOn) => cost,
            _ => Tokens::ZERO,
        };
        wants.largest_wait = wants.largest_wait.max(waits);
        wants.tally = wants.tally.plus(claim.tally);
    }

    fn wants(self) -> Option<Wants> {
        let mut wants = self.wants?;
        let demand = self
            .bands
            .into_iter()
            .map(|(Reverse(band), segments)| BandDemand {
                band,
                curve: DemandCurve::of_all(segments).compress(Node::BREAKPOINTS, None),
            });
        wants.demand = demand.collect();
        Some(wants)
    }
}
