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
    /// All claims that were spoken of are added up at most so often. Clients report every
    /// 200 ms, nodes every 450 ms where nothing is urgent.
    const SUMMED_EVERY: Span = Span::from_millis(200);

    /// Where one in so many budgets or more is to be summed, all claims are walked over.
    const APART: usize = 8;

    /// Makes the node's own report: the sum of its clients' demand, and what came back, as far
    /// as it may be something else than what the leader is known to have.
    ///
    /// It costs what has changed. Of a budget that somebody waits for the demand is added up at
    /// once, of the others where that is 200 ms ago: of thousands of budgets a report every few
    /// milliseconds must look at those alone that it is made for.
    ///
    /// `None` once the node's edge is closed.
    pub fn report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        let all = now.since(self.summed) >= Self::SUMMED_EVERY;
        if all {
            self.summed = now;
        }
        self.return_what_is_owed(now);
        self.return_while_leaving(now);
        let which = if all { Spoken::All } else { Spoken::Asked };
        let spoken = self.ledger.take_spoken(which);
        let wants = self.sum_up(spoken);
        let report = self.holder.report(now, wall_ms, wants)?;
        debug_assert!(
            !all || planted::any() || self.has_said_what_is_wanted(),
            "a claim changed of which nobody spoke"
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

    /// Returns true if reports say of some budgets what their clients want: of the first ones, since to
    /// look at all with every report would take longer than any test may.
    fn has_said_what_is_wanted(&self) -> bool {
        const SOME: usize = 64;
        let said = |&budget: &BudgetId| {
            let wants = self.wants(budget, self.sum(budget));
            let line = self.holder.line(budget);
            self.holder.is_leaving()
                || line.is_none_or(|line| {
                    (&line.demand, line.floor, line.largest_wait)
                        == (&wants.demand, wants.floor, wants.largest_wait)
                })
        };
        self.desks.keys().take(SOME).all(said)
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
    fn sum_up(&self, budgets: BTreeSet<BudgetId>) -> BTreeMap<BudgetId, Wants> {
        let most = budgets.len().saturating_mul(Self::APART) >= self.desks.len();
        let sums: Vec<(BudgetId, Option<Wants>)> = match most {
            true => self.sum_together(budgets),
            false => {
                let sums = budgets.into_iter();
                sums.map(|budget| (budget, self.sum(budget))).collect()
            }
        };
        let wants = |(budget, sum)| (budget, self.wants(budget, sum));
        sums.into_iter().map(wants).collect()
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

    /// Returns what is wanted of a budget, given the sum of its clients' demand.
    fn wants(&self, budget: BudgetId, sum: Option<Wants>) -> Wants {
        let mut wants = sum.unwrap_or_default();
        if let Some(desk) = self.desks.get(&budget) {
            Self::keep(&mut wants, desk);
        }
        wants
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
