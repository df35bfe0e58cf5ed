//! Rates of admitted and denied requests, by budget, over the whole cluster.

use aliquot_core::message::{Report, Tally};
use aliquot_core::unit::{BudgetId, Incarnation, Seq, Span, Tick, Tokens};
use std::collections::BTreeMap;

/// Rates of one budget: admitted and denied grains per second, and the demand of all callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Admitted grains per second.
    pub admitted: u64,
    /// Denied grains per second.
    pub denied: u64,
    /// Demand of all callers, in the units of demand curves.
    pub demand: u64,
}

/// Tallies of all nodes as reported, and their rates of growth.
///
/// Only the leader receives all tallies and demand. Any other node knows no more than when each
/// incarnation was last heard from. The cost of a sample is proportional to what has changed since the
/// last one.
///
/// Memory is bounded by incarnations × the budgets that they report and that have not ended.
#[derive(Debug, Default)]
pub struct Traffic {
    heard: BTreeMap<Incarnation, Heard>,
    /// The latest of incarnations that fell silent, whose demand is subtracted bit by bit.
    silent: Vec<Latest>,
    /// Growth of the tallies since the last sample.
    grown: BTreeMap<BudgetId, Tally>,
    /// Sum of the demand of all incarnations.
    demand: BTreeMap<BudgetId, u64>,
    sampled: Tick,
    /// Admitted and denied grains per second between the last two samples. Has no entry if nothing was
    /// counted.
    rates: BTreeMap<BudgetId, (u64, u64)>,
}

#[derive(Debug, Default)]
struct Heard {
    at: Tick,
    /// Sequence number of the latest report that was taken in.
    seq: Seq,
    latest: Latest,
}

/// Tally and demand of each budget, as an incarnation reported them last.
type Latest = BTreeMap<BudgetId, (Tally, u64)>;

impl Traffic {
    /// Minimum time between two samples: two reports of every node at the default interval.
    const SAMPLE: Span = Span::from_secs(1);

    /// Time without a report after which an incarnation's demand no longer counts.
    const SILENCE: Span = Span::from_secs(5);

    /// Maximum number of budgets whose demand of silent incarnations is subtracted at once. Renewals of leases wait
    /// meanwhile.
    const SUBTRACTED_AT_ONCE: usize = 2_048;

    /// Records that an incarnation reported.
    pub(super) fn note(&mut self, incarnation: Incarnation, now: Tick) {
        self.heard.entry(incarnation).or_default().at = now;
    }

    /// Starts anew when this node begins or ceases to lead: tallies of the time between are not known.
    pub(super) fn begin(&mut self) {
        for heard in self.heard.values_mut() {
            heard.latest.clear();
        }
        self.silent.clear();
        self.grown.clear();
        self.demand.clear();
        self.rates.clear();
    }

    /// Takes in a node's report, unless a later one was taken. A budget without a line keeps its last
    /// tally.
    pub(super) fn hear(&mut self, report: &Report) {
        let heard = self.heard.entry(report.edge.child).or_default();
        if report.seq <= heard.seq {
            return;
        }
        heard.seq = report.seq;
        for line in &report.lines {
            let bands = line.demand.iter();
            let wanted = bands.fold(0_u64, |sum, of| sum.saturating_add(of.curve.total()));
            let before = heard.latest.insert(line.budget, (line.tally, wanted));
            // The first tally of a budget does not show when it was counted, so it only sets the
            // base.
            let (tally, demand) = before.unwrap_or((line.tally, 0));
            if line.tally != tally {
                let grown = self.grown.entry(line.budget).or_default();
                *grown = grown.plus(Tally {
                    admitted: line.tally.admitted.minus_or_zero(tally.admitted),
                    denied: line.tally.denied.minus_or_zero(tally.denied),
                });
            }
            change(&mut self.demand, line.budget, demand, wanted);
        }
    }

    /// Computes rates from the growth since the last sample, if that is at least `SAMPLE` ago. Subtracts some of the
    /// demand of silent incarnations.
    pub(super) fn sample(&mut self, now: Tick) {
        let elapsed = now.since(self.sampled);
        if elapsed < Self::SAMPLE {
            return self.subtract_silent(Self::SUBTRACTED_AT_ONCE);
        }
        self.sampled = now;
        let silent = &mut self.silent;
        self.heard.retain(|_, heard| {
            let speaks = now.since(heard.at) < Self::SILENCE;
            if !speaks {
                silent.push(std::mem::take(&mut heard.latest));
            }
            speaks
        });
        self.subtract_silent(Self::SUBTRACTED_AT_ONCE);
        let rates = std::mem::take(&mut self.grown).into_iter();
        let rates = rates.map(|(budget, tally)| {
            let admitted = per_second(tally.admitted, elapsed);
            (budget, (admitted, per_second(tally.denied, elapsed)))
        });
        self.rates = rates.collect();
    }

    fn subtract_silent(&mut self, most: usize) {
        for _ in 0..most {
            let Some(latest) = self.silent.last_mut() else {
                return;
            };
            match latest.pop_first() {
                Some((budget, (_, wanted))) => change(&mut self.demand, budget, wanted, 0),
                None => drop(self.silent.pop()),
            }
        }
    }

    /// Drops everything about a budget that has ended.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        let heard = self.heard.values_mut().map(|heard| &mut heard.latest);
        for latest in heard.chain(&mut self.silent) {
            latest.remove(&budget);
        }
        self.grown.remove(&budget);
        self.demand.remove(&budget);
        self.rates.remove(&budget);
    }

    /// Returns the rates of a budget.
    #[must_use]
    pub fn of(&self, budget: BudgetId) -> Rates {
        let (admitted, denied) = self.rates.get(&budget).copied().unwrap_or_default();
        Rates {
            admitted,
            denied,
            demand: self.demand.get(&budget).copied().unwrap_or_default(),
        }
    }

    /// Returns the budgets for which requests were admitted or denied between the last two samples.
    pub fn busy(&self) -> impl Iterator<Item = BudgetId> {
        self.rates.keys().copied()
    }

    /// Returns the time at which an incarnation was last heard from.
    #[must_use]
    pub fn heard(&self, incarnation: Incarnation) -> Option<Tick> {
        self.heard.get(&incarnation).map(|heard| heard.at)
    }
}

/// Changes the demand of one incarnation for a budget.
fn change(demand: &mut BTreeMap<BudgetId, u64>, budget: BudgetId, before: u64, after: u64) {
    if before == after {
        return;
    }
    let sum = demand.entry(budget).or_default();
    *sum = sum.saturating_sub(before).saturating_add(after);
    if *sum == 0 {
        demand.remove(&budget);
    }
}

fn per_second(grown: Tokens, elapsed: Span) -> u64 {
    let nanos = u128::from(elapsed.nanos().max(1));
    let rate = u128::from(grown.grains()) * 1_000_000_000 / nanos;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "../../tests/unit/node/traffic.rs"]
mod tests;
