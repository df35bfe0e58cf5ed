//! What a node says upwards: the sum of its clients' demand, and what came back.

use super::{Desk, Node};
use crate::demand::{DemandCurve, Segment};
use crate::edge::Vector;
use crate::holder::Wants;
use crate::ledger::{Claim, Spoken};
use crate::message::{BandDemand, Report};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Band, BudgetId, Span, Tick, Tokens};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

impl Node {
    /// All claims are added up at most so often. Clients report every 200 ms, nodes every
    /// 450 ms where nothing is urgent.
    const SUMMED_EVERY: Span = Span::from_millis(200);

    /// Where one in so many budgets or more is to be summed, all claims are walked over.
    const APART: usize = 8;

    /// Makes the node's own report: the sum of its clients' demand, and what came back, as
    /// far as it is not in the last whole report that the leader is known to have.
    ///
    /// What nobody waits for has time until all were last looked at, 200 ms ago: of thousands of
    /// budgets a report every few milliseconds must look at those alone that it is made for.
    ///
    /// `None` once the node's edge is closed.
    pub fn report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        let all = now.since(self.summed) >= Self::SUMMED_EVERY;
        if !all && self.holder.may_report_some() {
            return self.report_some(now, wall_ms);
        }
        let budgets: Vec<BudgetId> = self.desks.keys().copied().collect();
        self.give_back_owed(budgets, now);
        self.return_while_leaving(now);
        self.returned.clear();
        if all {
            self.summed = now;
        }
        let which = if all { Spoken::All } else { Spoken::Asked };
        let spoken = self.ledger.take_spoken(which);
        self.sum_up(spoken);
        debug_assert!(
            !all || planted::any()
                || self
                    .sums
                    .iter()
                    .all(|(&id, sum)| self.sum(id).as_ref() == Some(sum)),
            "a claim changed of which nobody spoke"
        );
        let mut wants = self.sums.clone();
        for (&budget, desk) in &self.desks {
            Self::keep(wants.entry(budget).or_default(), desk);
        }
        self.holder.report_on_whole(now, wall_ms, wants)
    }

    /// The same of the budgets alone that somebody waits for, or of which something came back.
    fn report_some(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        let mut budgets = self.ledger.take_spoken(Spoken::Asked);
        self.sum_up(budgets.clone());
        budgets.append(&mut self.returned);
        self.give_back_owed(budgets.iter().copied(), now);
        budgets.append(&mut self.returned);
        let mut wants = BTreeMap::new();
        for &budget in &budgets {
            let mut sum = self.sums.get(&budget).cloned();
            if let Some(desk) = self.desks.get(&budget) {
                Self::keep(sum.get_or_insert_default(), desk);
            }
            wants.extend(sum.map(|sum| (budget, sum)));
        }
        self.holder.report_some(now, wall_ms, &budgets, wants)
    }

    fn give_back_owed(&mut self, budgets: impl IntoIterator<Item = BudgetId>, now: Tick) {
        for budget in budgets {
            self.report_spent(budget);
            let owed = self.holder.owed(budget);
            if !owed.is_zero() {
                self.give_back(budget, owed, now);
            }
        }
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

    /// Adds up what all clients below want of `budgets`: demand curves add.
    fn sum_up(&mut self, budgets: BTreeSet<BudgetId>) {
        let most = budgets.len().saturating_mul(Self::APART) >= self.sums.len();
        let sums: Vec<(BudgetId, Option<Wants>)> = match most {
            true => self.sum_together(budgets),
            false => {
                let sums = budgets.into_iter();
                sums.map(|budget| (budget, self.sum(budget))).collect()
            }
        };
        for (budget, sum) in sums {
            match sum {
                Some(sum) => self.sums.insert(budget, sum),
                None => self.sums.remove(&budget),
            };
        }
    }

    /// What those who claim these budgets want together, in one walk over all claims: a walk
    /// finds the next claim beside the last one, and who looks for each does not.
    fn sum_together(&self, budgets: BTreeSet<BudgetId>) -> Vec<(BudgetId, Option<Wants>)> {
        let ids: Vec<BudgetId> = budgets.into_iter().collect();
        let mut sums: Vec<Sum> = ids.iter().map(|_| Sum::default()).collect();
        for child in self.ledger.children().filter(|child| !child.is_leaving()) {
            for (budget, claim) in &child.claims {
                let place = ids.binary_search(budget).ok();
                if let Some(sum) = place.and_then(|place| sums.get_mut(place)) {
                    sum.add(claim);
                }
            }
        }
        let sums = ids.into_iter().zip(sums);
        sums.map(|(budget, sum)| (budget, sum.wants())).collect()
    }

    /// Adds what closed sessions counted, and the floors that they left: these stay booked here,
    /// so they must stay granted, as a recall of them could not be met before they are forgotten.
    fn keep(sum: &mut Wants, desk: &Desk) {
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

    /// What those who claim a budget want together; `None` if nobody does.
    fn sum(&self, budget: BudgetId) -> Option<Wants> {
        let mut sum = Sum::default();
        let claims = self.ledger.claims_on(budget);
        for (_, claim) in claims.filter(|(child, _)| !child.is_leaving()) {
            sum.add(claim);
        }
        sum.wants()
    }
}

/// What was added up so far of the claims on one budget.
#[derive(Default)]
struct Sum {
    wants: Option<Wants>,
    bands: BTreeMap<Reverse<Band>, Vec<Segment>>,
}

impl Sum {
    fn add(&mut self, claim: &Claim) {
        let wants = self.wants.get_or_insert_default();
        for band in &claim.demand {
            let segments = self.bands.entry(Reverse(band.band)).or_default();
            segments.extend(band.curve.segments());
        }
        wants.floor = wants.floor.merge(claim.floor).unwrap_or(wants.floor);
        let waits = match claim.waiting {
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
