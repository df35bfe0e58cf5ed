//! Reports of a child: the lines that its parent may not know, as far as there is room.

use super::report_delta::Known;
use super::{Holder, Wants};
use crate::lease::LeaseState;
use crate::message::{BandDemand, FloorRelease, Intent, Report, ReportLine, Terms};
use crate::unit::{BudgetId, Rate, Seq, Tick};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl Holder {
    /// Releases a floor of a former edge that is not used any more. The release is repeated until it is
    /// answered. If there is no room for it, the floor ends at its parent after its time.
    pub fn release_floor(&mut self, floor: FloorRelease) {
        let known = self.floors.iter().any(|&(known, _)| known == floor);
        if !known && self.floors.len() < Self::FLOORS_MAX {
            self.floors.push((floor, None));
        }
    }

    fn floors_to_say(&mut self, seq: Seq) -> Vec<FloorRelease> {
        let answered = self.answered;
        self.floors
            .retain(|&(_, delta)| delta.is_none_or(|delta| delta > answered));
        let say = |(floor, delta): &mut (FloorRelease, Option<Seq>)| {
            delta.get_or_insert(seq);
            *floor
        };
        self.floors.iter_mut().map(say).collect()
    }

    /// Ends the claim on a budget with the next report.
    pub fn retire(&mut self, budget: BudgetId) {
        self.retired.insert(budget);
    }

    /// Sets the maximum number of lines of the next reports. Lines that were sent and not acknowledged are repeated
    /// even if they are more, and returns that another holder waits for are sent.
    pub fn limit_report(&mut self, lines_max: usize) {
        self.delta.limit(lines_max.min(ReportLine::LINES_MAX));
    }

    /// Returns the number of new lines for which the next report has room.
    pub(crate) fn room(&self) -> usize {
        self.delta.room()
    }

    /// Returns true if something of a budget was granted, or was reported, on this edge.
    pub(crate) fn knows(&self, budget: BudgetId) -> bool {
        self.entries.contains_key(&budget) || self.delta.has(budget)
    }

    /// Returns true if the next report should be sent at once: lines wait that it has room for, or the
    /// parent's lines wait for the echo.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.lease.state() != LeaseState::Closed && (self.echoes || self.delta.has_more())
    }

    /// Returns the line of a budget for the next report.
    #[must_use]
    pub fn line(&self, budget: BudgetId) -> Option<ReportLine> {
        self.delta.line(budget)
    }

    /// Returns the latest demand for a budget. Its line may still have one that differs a little.
    #[must_use]
    pub fn demand_of(&self, budget: BudgetId) -> &[BandDemand] {
        self.delta.demand(budget)
    }

    /// Returns true if the line of a budget has changed and was not sent since.
    #[must_use]
    pub fn is_waiting(&self, budget: BudgetId) -> bool {
        self.delta.is_waiting(budget)
    }

    /// Makes the next report at `now`. `wants` has the values of each budget for which they may differ from
    /// the last report. All others are unchanged. The holder itself knows what was granted and returned.
    ///
    /// Returns `None` once the edge is closed or out of numbers.
    pub fn report(
        &mut self,
        now: Tick,
        wall_ms: i64,
        mut wants: BTreeMap<BudgetId, Wants>,
    ) -> Option<Report> {
        if self.lease.state() == LeaseState::Closed {
            return None;
        }
        let seq = self.lease.send(now)?;
        for budget in core::mem::take(&mut self.retired) {
            wants.entry(budget).or_default();
        }
        let mut moved = core::mem::take(&mut self.moved);
        for (budget, wants) in wants {
            let urgent = moved.remove(&budget).unwrap_or_default();
            let entry = self.entries.get(&budget);
            let known = Known {
                given: entry.is_some(),
                urgent,
                sparse: entry.map_or(Terms::SPARSE, |entry| entry.terms.sparse()),
                empty: entry.is_none_or(|entry| entry.lacks_rate()),
                held: entry.map_or(Rate::ZERO, |entry| entry.held_rate()),
            };
            let line = self.line_of(budget, wants);
            self.delta.follow(line, known, seq, now);
        }
        for (budget, urgent) in moved {
            let counters = self.counters_of(budget).unwrap_or_default();
            let delta = &mut self.delta;
            delta.return_more(budget, &counters, urgent, (seq, now));
        }
        self.echoes = false;
        let (basis, lines) = self.delta.lines(seq, now);
        Some(Report {
            edge: self.edge,
            seq,
            basis,
            heard: self.heard,
            seen: self.seen,
            wall_ms,
            intent: self.intent,
            lines,
            floors: self.floors_to_say(seq),
        })
    }

    fn line_of(&self, budget: BudgetId, mut wants: Wants) -> ReportLine {
        if self.intent == Intent::Leave {
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
    }
}
