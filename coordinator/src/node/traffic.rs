//! What became of requests of late, budget by budget, over the whole cluster.

use aliquot_core::message::{Report, Tally};
use aliquot_core::unit::{BudgetId, Incarnation, Span, Tick, Tokens};
use std::collections::{BTreeMap, BTreeSet};

/// Grains per second, admitted and denied, and what all callers want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Let through, in grains per second.
    pub admitted: u64,
    /// Turned away, in grains per second.
    pub denied: u64,
    /// What all callers want, in the units of demand curves.
    pub demand: u64,
}

/// Tallies of all nodes as their reports say them, and how fast they grow.
///
/// Tallies only grow, so of what was said since the last sample only the latest is read, once for
/// a sample: nodes that do not lead read no other report.
///
/// Memory is bounded by lives × the budgets that they report.
#[derive(Debug, Default)]
pub struct Traffic {
    heard: BTreeMap<Incarnation, Heard>,
    spoke: BTreeSet<Incarnation>,
    sampled: Tick,
    rates: BTreeMap<BudgetId, Rates>,
}

#[derive(Debug, Default)]
struct Heard {
    at: Tick,
    latest: BTreeMap<BudgetId, (Tally, u64)>,
    sampled: BTreeMap<BudgetId, Tally>,
}

impl Traffic {
    /// Rates are made over this time: two reports of every node.
    const SAMPLE: Span = Span::from_secs(1);

    /// A life that says nothing for so long wants nothing any more.
    const SILENCE: Span = Span::from_secs(5);

    /// A life reported.
    pub(super) fn note(&mut self, life: Incarnation, now: Tick) {
        self.heard.entry(life).or_default().at = now;
        self.spoke.insert(life);
    }

    /// Whether a sample is due; who reported since the last is to be read before it.
    pub(super) fn is_due(&self, now: Tick) -> bool {
        now.since(self.sampled) >= Self::SAMPLE
    }

    /// Who reported since this was last asked.
    pub(super) fn take_spoke(&mut self) -> BTreeSet<Incarnation> {
        std::mem::take(&mut self.spoke)
    }

    /// Takes a node's report in. Of what one leaves out that is not whole, the last is kept.
    pub(super) fn hear(&mut self, report: &Report) {
        let heard = self.heard.entry(report.edge.child).or_default();
        if report.is_whole() {
            let spoken: BTreeSet<_> = report.lines.iter().map(|line| line.budget).collect();
            heard.latest.retain(|budget, _| spoken.contains(budget));
        }
        for line in &report.lines {
            let bands = line.demand.iter();
            let demand = bands.fold(0_u64, |sum, of| sum.saturating_add(of.curve.total()));
            let latest = heard.latest.entry(line.budget).or_default();
            // What did not move may be left out of a line, too.
            let tally = match report.is_whole() {
                true => line.tally,
                false => latest.0.merge(line.tally),
            };
            *latest = (tally, demand);
        }
    }

    /// Makes rates of what grew since the last sample, if that is long enough ago.
    pub(super) fn sample(&mut self, now: Tick) {
        if !self.is_due(now) {
            return;
        }
        let elapsed = now.since(self.sampled);
        self.sampled = now;
        self.heard
            .retain(|_, heard| now.since(heard.at) < Self::SILENCE);
        let mut grown: BTreeMap<BudgetId, (Tally, u64)> = BTreeMap::new();
        for heard in self.heard.values_mut() {
            for (&budget, &(tally, demand)) in &heard.latest {
                let before = heard.sampled.get(&budget).copied().unwrap_or(tally);
                let sum = grown.entry(budget).or_default();
                sum.0 = sum.0.plus(Tally {
                    admitted: tally.admitted.minus_or_zero(before.admitted),
                    denied: tally.denied.minus_or_zero(before.denied),
                });
                sum.1 = sum.1.saturating_add(demand);
            }
            let latest = heard.latest.iter();
            heard.sampled = latest
                .map(|(&budget, &(tally, _))| (budget, tally))
                .collect();
        }
        self.rates = grown
            .into_iter()
            .map(|(budget, (tally, demand))| {
                let rates = Rates {
                    admitted: per_second(tally.admitted, elapsed),
                    denied: per_second(tally.denied, elapsed),
                    demand,
                };
                (budget, rates)
            })
            .collect();
    }

    /// A budget's rates.
    #[must_use]
    pub fn of(&self, budget: BudgetId) -> Rates {
        self.rates.get(&budget).copied().unwrap_or_default()
    }

    /// When a life was last heard.
    #[must_use]
    pub fn heard(&self, life: Incarnation) -> Option<Tick> {
        self.heard.get(&life).map(|heard| heard.at)
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
    use aliquot_core::message::{Heard as Echo, Intent, ReportLine};
    use aliquot_core::unit::{Edge, PeriodId, Seq};

    fn report(life: u64, admitted: u64, denied: u64) -> Report {
        let tally = Tally {
            admitted: Tokens::from_grains(admitted),
            denied: Tokens::from_grains(denied),
        };
        let line = ReportLine {
            budget: BudgetId::new(1),
            period: PeriodId::new(0),
            returned: aliquot_core::edge::Vector::ZERO,
            demand: Vec::new(),
            floor: aliquot_core::share::Share::EMPTY,
            largest_wait: Tokens::ZERO,
            tally,
        };
        Report {
            edge: Edge {
                parent: Incarnation::new(0),
                child: Incarnation::new(life),
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
        traffic.note(report.edge.child, now);
        assert!(traffic.take_spoke().contains(&report.edge.child));
        traffic.hear(report);
    }

    #[test]
    fn rates_are_what_all_lives_counted_since_the_last_sample() {
        let mut traffic = Traffic::default();
        hear(&mut traffic, &report(1, 100, 0), at(1));
        hear(&mut traffic, &report(2, 1_000, 10), at(1));
        traffic.sample(at(1));
        assert_eq!(
            traffic.of(BudgetId::new(1)),
            Rates::default(),
            "nobody knows since when"
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
        silent.basis = Seq::new(1);
        let mut moved = silent.clone();
        moved.lines[0].tally.admitted = Tokens::from_grains(900);
        silent.lines.clear();
        hear(&mut traffic, &silent, at(2));
        hear(&mut traffic, &moved, at(2));
        traffic.sample(at(3));
        let rates = traffic.of(BudgetId::new(1));
        assert_eq!((rates.admitted, rates.denied), (200, 0));
        hear(&mut traffic, &silent, at(4));
        traffic.sample(at(5));
        assert_eq!(traffic.of(BudgetId::new(1)), Rates::default());
    }

    #[test]
    fn a_life_that_begins_anew_takes_nothing_back() {
        let mut traffic = Traffic::default();
        hear(&mut traffic, &report(1, 500, 0), at(1));
        traffic.sample(at(1));
        hear(&mut traffic, &report(1, 5, 0), at(2));
        traffic.sample(at(2));
        assert_eq!(traffic.of(BudgetId::new(1)).admitted, 0);
    }
}
