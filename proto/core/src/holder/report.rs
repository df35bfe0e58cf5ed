//! What a child says: everything, or what its parent does not know.

use super::{Holder, Wants};
use crate::lease::LeaseState;
use crate::message::{FloorRelease, Intent, Report, ReportLine};
use crate::unit::{BudgetId, Seq, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

impl Holder {
    /// A floor of a former edge is not used any more: says so until it is
    /// answered. One that finds no room waits out its time at its parent.
    pub fn release_floor(&mut self, floor: FloorRelease) {
        let known = self.floors.iter().any(|&(known, _)| known == floor);
        if !known && self.floors.len() < Self::FLOORS_MAX {
            self.floors.push((floor, None));
        }
    }

    fn floors_to_say(&mut self, seq: Seq) -> Vec<FloorRelease> {
        let answered = self.answered;
        self.floors
            .retain(|&(_, said)| said.is_none_or(|said| said > answered));
        let say = |(floor, said): &mut (FloorRelease, Option<Seq>)| {
            said.get_or_insert(seq);
            *floor
        };
        self.floors.iter_mut().map(say).collect()
    }

    /// Whether the parent said that it lacks what reports build on, and has not been told
    /// everything since.
    #[must_use]
    pub(crate) fn owes_whole(&self) -> bool {
        self.said.owes_whole()
    }

    /// Makes the next report at `now`, a whole one, with what `wants` says of each
    /// budget in `budgets` besides those of which something was given.
    ///
    /// `None` once the edge is closed or out of numbers.
    pub fn report(
        &mut self,
        now: Tick,
        wall_ms: i64,
        wants: BTreeMap<BudgetId, Wants>,
    ) -> Option<Report> {
        let mut report = self.begin_report(now, wall_ms)?;
        report.lines = self.lines(wants);
        Some(report)
    }

    /// The same as [`Holder::report`], without what the parent knows already. An
    /// edge's reports are made by the one or by the other.
    ///
    /// `None` as for that.
    pub fn report_changes(
        &mut self,
        now: Tick,
        wall_ms: i64,
        wants: BTreeMap<BudgetId, Wants>,
    ) -> Option<Report> {
        let mut report = self.begin_report(now, wall_ms)?;
        let lines = self.lines(wants);
        (report.basis, report.lines) = self.said.changes(report.seq, now, lines);
        Some(report)
    }

    /// The same as [`Holder::report`], without what the parent knows from a whole report,
    /// where that is at least half of it: with the latest whole one and this one, whoever
    /// becomes the parent knows all. An edge's reports are all made by the same way.
    ///
    /// `None` as for that.
    pub fn report_on_whole(
        &mut self,
        now: Tick,
        wall_ms: i64,
        wants: BTreeMap<BudgetId, Wants>,
    ) -> Option<Report> {
        let mut report = self.begin_report(now, wall_ms)?;
        let lines = self.lines(wants);
        (report.basis, report.lines) = self.said.changes_of_whole(report.seq, now, lines);
        Some(report)
    }

    /// Whether [`Holder::report_some`] may be made: the parent has a whole report.
    #[must_use]
    pub fn may_report_some(&self) -> bool {
        self.said.knows_whole() && self.intent == Intent::Stay
    }

    /// The same as [`Holder::report_on_whole`] of some budgets, each with what `wants` says of it:
    /// of all others what was said last is said again, at no cost. Only where
    /// [`Holder::may_report_some`].
    ///
    /// `None` as for [`Holder::report`].
    pub fn report_some(
        &mut self,
        now: Tick,
        wall_ms: i64,
        budgets: &BTreeSet<BudgetId>,
        mut wants: BTreeMap<BudgetId, Wants>,
    ) -> Option<Report> {
        debug_assert!(self.may_report_some(), "a report of some builds on nothing");
        let mut report = self.begin_report(now, wall_ms)?;
        wants.retain(|budget, _| budgets.contains(budget));
        for &budget in budgets {
            if self.entries.contains_key(&budget) {
                wants.entry(budget).or_default();
            }
        }
        let lines = self.said_of(wants);
        let said = &mut self.said;
        (report.basis, report.lines) = said.changes_of_some(report.seq, now, budgets, lines);
        Some(report)
    }

    fn begin_report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        if self.lease.state() == LeaseState::Closed {
            return None;
        }
        let seq = self.lease.send(now)?;
        Some(Report {
            edge: self.edge,
            seq,
            basis: Seq::new(0),
            heard: self.heard,
            seen: self.seen,
            wall_ms,
            intent: self.intent,
            lines: Vec::new(),
            floors: self.floors_to_say(seq),
        })
    }

    /// Everything that there is to say.
    fn lines(&self, mut wants: BTreeMap<BudgetId, Wants>) -> Vec<ReportLine> {
        for &budget in self.entries.keys() {
            wants.entry(budget).or_default();
        }
        self.said_of(wants)
    }

    fn said_of(&self, wants: BTreeMap<BudgetId, Wants>) -> Vec<ReportLine> {
        let asking = self.intent == Intent::Stay;
        let line = |(budget, mut wants): (BudgetId, Wants)| {
            if !asking {
                wants = Wants {
                    tally: wants.tally,
                    ..Wants::default()
                };
            }
            let counters = self.counters_of(budget).unwrap_or_default();
            ReportLine {
                budget,
                period: counters.period,
                returned: counters.returned,
                demand: wants.demand,
                floor: wants.floor,
                largest_wait: wants.largest_wait,
                tally: wants.tally,
            }
        };
        wants.into_iter().map(line).collect()
    }
}
