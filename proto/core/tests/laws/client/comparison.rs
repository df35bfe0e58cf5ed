//! Comparison of what a client that examines few budgets reports with what one that examines all does.

use super::{KEYS, scale};
use aliquot_core::holder::Holder;
use aliquot_core::message::{BandDemand, Report, ReportLine};
use aliquot_core::unit::{BudgetId, Rate};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::{BTreeMap, BTreeSet};

/// Comparison of the reports of both machines.
///
/// The lazy one examines a budget that is not used any more ever more rarely, so it tells later that the demand
/// fell. All else must be the same, but for demands that were observed at other times and differ by little.
#[derive(Default)]
pub(super) struct Comparison {
    /// Time of the last report.
    before: u64,
    /// Budgets that were used since then.
    pub(super) used: BTreeSet<u64>,
    /// Budgets whose demands differed, with the time of the last report before.
    differ: BTreeMap<u64, u64>,
    /// Demand that each machine told last, by budget.
    sent_totals: [BTreeMap<u64, Vec<BandDemand>>; 2],
}

impl Comparison {
    /// Longest time for which the lazy machine may tell a demand that fell.
    const COOLS: u64 = 1_000;

    /// Longest time for which it may tell a demand that is over, if changes of that demand may wait: a hundred silent
    /// ticks, the two in which the silence begins and ends, and the one with the last request.
    const ENDS: u64 = 10_300;

    /// Compares two reports made at `now`. `may_wait` tells whether a change of a budget's demand may wait.
    pub(super) fn reports(
        &mut self,
        reports: [Option<Report>; 2],
        may_wait: impl Fn(u64, u128) -> bool,
        now: u64,
    ) -> Result<(), TestCaseError> {
        for (sent_totals, report) in self.sent_totals.iter_mut().zip(&reports) {
            for line in report.iter().flat_map(|report| &report.lines) {
                sent_totals.insert(line.budget.get(), line.demand.clone());
            }
        }
        let [Some(lazy), Some(eager)] = reports else {
            prop_assert_eq!(reports[0].is_some(), reports[1].is_some(), "at {}", now);
            return Ok(());
        };
        let (lazy_lines, eager_lines) = (by_budget(&lazy), by_budget(&eager));
        let bare = |report: Report| Report {
            lines: Vec::new(),
            ..report
        };
        prop_assert_eq!(bare(lazy), bare(eager), "at {}", now);
        for id in 0..KEYS {
            let lines = [lazy_lines.get(&id), eager_lines.get(&id)];
            self.budget(id, lines, &may_wait, now)?;
        }
        self.before = now;
        self.used.clear();
        Ok(())
    }

    /// Compares what both machines told of one budget, and its lines if both reports have one.
    fn budget(
        &mut self,
        id: u64,
        lines: [Option<&ReportLine>; 2],
        may_wait: impl Fn(u64, u128) -> bool,
        now: u64,
    ) -> Result<(), TestCaseError> {
        let [lazy_sent, eager_sent] = self
            .sent_totals
            .each_ref()
            .map(|sent_totals| total(sent_totals.get(&id)));
        let waits = [lazy_sent, eager_sent].map(|sent| may_wait(id, sent)) == [true; 2];
        let waits = waits && (lazy_sent > 0) == (eager_sent > 0);
        // A line may also keep a sparse demand while it does not double, and each machine keeps its own.
        prop_assert!(
            waits || lazy_sent * 2 >= eager_sent,
            "b{} at {}: {} told, not {}",
            id,
            now,
            lazy_sent,
            eager_sent
        );
        let agree = waits || lazy_sent * 3 <= eager_sent * 4;
        if agree {
            self.differ.remove(&id);
        }
        let [Some(lazy), Some(eager)] = lines else {
            return Ok(());
        };
        // Counts alone are not told, so those of a line are as old as its demand.
        let same = ReportLine {
            demand: lazy.demand.clone(),
            tally: lazy.tally,
            ..eager.clone()
        };
        prop_assert_eq!(lazy, &same, "at {}", now);
        if agree {
            return Ok(());
        }
        let most = match may_wait(id, lazy_sent) {
            true => Self::ENDS,
            false => {
                prop_assert!(!self.used.contains(&id), "b{} in use at {}", id, now);
                Self::COOLS
            }
        };
        let since = *self.differ.entry(id).or_insert(self.before);
        prop_assert!(
            now - since < most,
            "b{} is late at {}: {:?} told, not {:?}",
            id,
            now,
            lazy,
            eager
        );
        Ok(())
    }

    /// Returns true if the last line of some budget tells more at the lazy machine, which looked at it earlier.
    pub(super) fn lazy_sent_more(&self) -> bool {
        (0..KEYS).any(|id| {
            let [lazy, eager] = self
                .sent_totals
                .each_ref()
                .map(|sent_totals| total(sent_totals.get(&id)));
            lazy > eager
        })
    }

    /// Compares what was told in the end.
    pub(super) fn end(&self) -> Result<(), TestCaseError> {
        for id in 0..KEYS {
            let [lazy, eager] = self
                .sent_totals
                .each_ref()
                .map(|sent_totals| total(sent_totals.get(&id)));
            prop_assert!(
                lazy * 3 <= eager * 4,
                "b{}: {} told, not {}",
                id,
                lazy,
                eager
            );
        }
        Ok(())
    }

    pub(super) fn reopen(&mut self) {
        self.sent_totals = Default::default();
    }
}

fn by_budget(report: &Report) -> BTreeMap<u64, ReportLine> {
    let lines = report.lines.iter();
    lines
        .map(|line| (line.budget.get(), line.clone()))
        .collect()
}

/// Returns true if a change of a demand may wait unless it begins or is over: it is an eighth at most of the rate that is
/// held of a budget, or nothing is held and it is eight tokens at most.
pub(super) fn may_wait(holder: Option<&Holder>, id: u64, demand: u128) -> bool {
    const SPARSE: u128 = 8;
    let (budget, is_rate) = (BudgetId::new(id), id % 4 < 2);
    let held = holder.map_or(Rate::ZERO, |of| of.holding(budget).rate);
    let held = u128::from(held.grains());
    let owes = holder.is_some_and(|of| !of.owed(budget).is_zero());
    let little = is_rate && !owes && demand * 8 <= held;
    // A client that does not know the terms counts whole tokens.
    let untold = holder.is_none_or(|of| of.terms(budget).is_none());
    let sparse =
        (is_rate && demand <= SPARSE * u128::from(scale())) || (untold && demand <= SPARSE);
    little || (held == 0 && sparse)
}

fn total(demand: Option<&Vec<BandDemand>>) -> u128 {
    let bands = demand.into_iter().flatten();
    bands.map(|band| u128::from(band.curve.total())).sum()
}
