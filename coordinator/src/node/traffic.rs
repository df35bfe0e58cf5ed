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
    latest: BTreeMap<BudgetId, (Tally, u64)>,
}

impl Traffic {
    /// Minimum time between two samples: two reports of every node at the default interval.
    const SAMPLE: Span = Span::from_secs(1);

    /// Time without a report after which an incarnation's demand no longer counts.
    const SILENCE: Span = Span::from_secs(5);

    /// Records that an incarnation reported.
    pub(super) fn note(&mut self, incarnation: Incarnation, now: Tick) {
        self.heard.entry(incarnation).or_default().at = now;
    }

    /// Starts anew when this node begins or ceases to lead: tallies of the time between are not known.
    pub(super) fn begin(&mut self) {
        for heard in self.heard.values_mut() {
            heard.latest.clear();
        }
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

    /// Computes rates from the growth since the last sample, if that is at least `SAMPLE` ago.
    pub(super) fn sample(&mut self, now: Tick) {
        let elapsed = now.since(self.sampled);
        if elapsed < Self::SAMPLE {
            return;
        }
        self.sampled = now;
        let demand = &mut self.demand;
        self.heard.retain(|_, heard| {
            let speaks = now.since(heard.at) < Self::SILENCE;
            if !speaks {
                for (&budget, &(_, wanted)) in &heard.latest {
                    change(demand, budget, wanted, 0);
                }
            }
            speaks
        });
        let rates = std::mem::take(&mut self.grown).into_iter();
        let rates = rates.map(|(budget, tally)| {
            let admitted = per_second(tally.admitted, elapsed);
            (budget, (admitted, per_second(tally.denied, elapsed)))
        });
        self.rates = rates.collect();
    }

    /// Drops everything about a budget that has ended.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        for heard in self.heard.values_mut() {
            heard.latest.remove(&budget);
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
mod tests {
    use super::*;
    use aliquot_core::demand::DemandCurve;
    use aliquot_core::message::{BandDemand, Heard as Echo, Intent, ReportLine};
    use aliquot_core::unit::{Band, Edge, Weight};

    fn report(incarnation: u64, admitted: u64, denied: u64) -> Report {
        let tally = Tally {
            admitted: Tokens::from_grains(admitted),
            denied: Tokens::from_grains(denied),
        };
        let line = ReportLine {
            tally,
            ..ReportLine::empty(BudgetId::new(1))
        };
        Report {
            edge: Edge {
                parent: Incarnation::new(0),
                child: Incarnation::new(incarnation),
            },
            seq: Seq::new(1),
            basis: Seq::new(0),
            heard: Echo::default(),
            seen: Echo::default(),
            wall_ms: 0,
            intent: Intent::Stay,
            lines: vec![line],
            floors: Vec::new(),
        }
    }

    fn at(secs: u64) -> Tick {
        Tick::from_nanos(secs * 1_000_000_000)
    }

    fn hear(traffic: &mut Traffic, report: &Report, now: Tick) {
        let seq = Seq::new(now.nanos());
        let report = &Report {
            seq,
            ..report.clone()
        };
        traffic.note(report.edge.child, now);
        traffic.hear(report);
    }

    #[test]
    fn rates_are_counted_since_the_last_sample() {
        let mut traffic = Traffic::default();
        hear(&mut traffic, &report(1, 100, 0), at(1));
        hear(&mut traffic, &report(2, 1_000, 10), at(1));
        traffic.sample(at(1));
        assert_eq!(
            traffic.of(BudgetId::new(1)),
            Rates::default(),
            "the time of the base is not known"
        );
        hear(&mut traffic, &report(1, 300, 0), at(3));
        hear(&mut traffic, &report(2, 1_100, 50), at(3));
        traffic.sample(at(3));
        let rates = traffic.of(BudgetId::new(1));
        assert_eq!((rates.admitted, rates.denied), (150, 20));
    }

    #[test]
    fn what_a_report_leaves_out_is_as_it_was() {
        let mut traffic = Traffic::default();
        hear(&mut traffic, &report(1, 500, 3), at(1));
        traffic.sample(at(1));
        let mut silent = report(1, 0, 0);
        let mut moved = silent.clone();
        moved.lines[0].tally.admitted = Tokens::from_grains(900);
        silent.lines.clear();
        hear(&mut traffic, &silent, at(2));
        hear(&mut traffic, &moved, at(3));
        // A report that was overtaken is ignored.
        hear(&mut traffic, &report(1, 500, 3), at(2));
        traffic.sample(at(3));
        let rates = traffic.of(BudgetId::new(1));
        assert_eq!((rates.admitted, rates.denied), (200, 0));
        hear(&mut traffic, &silent, at(4));
        traffic.sample(at(5));
        assert_eq!(traffic.of(BudgetId::new(1)), Rates::default());
    }

    #[test]
    fn demand_is_added_up_as_it_changes() {
        let wants = |incarnation, units| {
            let mut report = report(incarnation, 0, 0);
            report.lines[0].demand = vec![BandDemand {
                band: Band::default(),
                curve: DemandCurve::of(units, Weight::ONE),
            }];
            report
        };
        let mut traffic = Traffic::default();
        let demand = |traffic: &Traffic| traffic.of(BudgetId::new(1)).demand;
        hear(&mut traffic, &wants(1, 30), at(1));
        hear(&mut traffic, &wants(2, 12), at(1));
        assert_eq!(demand(&traffic), 42);
        hear(&mut traffic, &wants(1, 5), at(5));
        assert_eq!(demand(&traffic), 17);
        traffic.sample(at(6));
        assert_eq!(demand(&traffic), 5, "one incarnation is silent");
        traffic.forget(BudgetId::new(1));
        hear(&mut traffic, &wants(1, 7), at(7));
        assert_eq!(demand(&traffic), 7);
        traffic.begin();
        assert_eq!(demand(&traffic), 0);
    }

    #[test]
    fn an_incarnation_that_counts_anew_takes_nothing_back() {
        let mut traffic = Traffic::default();
        hear(&mut traffic, &report(1, 500, 0), at(1));
        traffic.sample(at(1));
        hear(&mut traffic, &report(1, 5, 0), at(2));
        traffic.sample(at(2));
        assert_eq!(traffic.of(BudgetId::new(1)).admitted, 0);
    }
}
