//! What a node says upwards: the sum of its clients' demand, and what came back.

use super::Node;
use crate::holder::Wants;
use crate::message::{BandDemand, Report};
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{BudgetId, Tick, Tokens};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl Node {
    /// Makes the node's own report: the sum of its clients' demand, and what came back.
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
        self.holder.report(now, wall_ms, wants)
    }

    /// What all clients below want, per budget: demand curves add.
    fn wants(&self, _now: Tick) -> BTreeMap<BudgetId, Wants> {
        let mut wants: BTreeMap<BudgetId, Wants> = BTreeMap::new();
        for child in self.ledger.children().filter(|child| !child.is_leaving()) {
            for (&budget, claim) in &child.claims {
                let sum = wants.entry(budget).or_default();
                for band in &claim.demand {
                    add_band(&mut sum.demand, band);
                }
                sum.floor = sum.floor.merge(claim.floor).unwrap_or(sum.floor);
                let waits = match claim.waiting {
                    Some((_, cost)) if !planted::is(Bug::WaitNotPassedOn) => cost,
                    _ => Tokens::ZERO,
                };
                sum.largest_wait = sum.largest_wait.max(waits);
                sum.tally = sum.tally.plus(claim.tally);
            }
        }
        // Floors of closed sessions stay booked here, so they must stay granted:
        // a recall of them could not be met before they are forgotten.
        for (&budget, desk) in &self.desks {
            let sum = wants.entry(budget).or_default();
            sum.tally = sum.tally.plus(desk.tally);
            let ghosts = desk.account.ghosts();
            let floored = !ghosts.floor_rate.is_zero() || !ghosts.floor_burst.is_zero();
            if floored && !planted::is(Bug::LastFloorUnasked) {
                let sum = wants.entry(budget).or_default();
                let kept = Share {
                    rate: ghosts.floor_rate,
                    burst: ghosts.floor_burst,
                    tokens: Tokens::ZERO,
                };
                sum.floor = sum.floor.merge(kept).unwrap_or(sum.floor);
            }
        }
        for wants in wants.values_mut() {
            for band in &mut wants.demand {
                band.curve = band.curve.compress(Self::BREAKPOINTS, None);
            }
        }
        wants
    }
}

fn add_band(sum: &mut Vec<BandDemand>, band: &BandDemand) {
    match sum.iter_mut().find(|of| of.band == band.band) {
        // A sum out of range is more than any budget: the larger part stands for it.
        Some(of) => {
            of.curve = of
                .curve
                .plus(&band.curve)
                .unwrap_or_else(|| of.curve.clone())
        }
        None => {
            sum.push(band.clone());
            sum.sort_by_key(|of| core::cmp::Reverse(of.band));
        }
    }
}
