//! The running periods of quotas, and the conditions for the next ones.

use crate::budget::{Period, WallTime, Zones};
use crate::planted::{self, Bug};
use crate::state::Generation;
use crate::unit::{BudgetId, PeriodId, Span, Tick};
use alloc::collections::{BTreeMap, BTreeSet};

/// A period ends at the earliest after its shortest length divided by this, measured by boot clocks.
///
/// Wall clocks that are right never wait for it. If those of a quorum run wild, let `c(i)` be the age with which
/// period `i` begins (`Leader::age_at_start`) and `a(i) ≥ L / 2` the one at which it ends. From
/// `c(i + 1) ≤ max(0, a(i) − L)` follows `Σ (a(i) − c(i)) ≥ n · L / 2 − c(1)`: a leader at most doubles the pace
/// of a quota, and begins at most three periods more.
pub(super) const AGE_MIN_PART: u64 = 2;

pub(super) const NANOS_PER_MILLI: u64 = 1_000_000;

/// Age of a quota's running period.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct RunningPeriod {
    pub(super) period: PeriodId,
    /// Time at which this leader first saw the period running.
    pub(super) since: Tick,
    /// Age of the period at that time, or `None` until the clocks of a quorum are known.
    pub(super) base: Option<Span>,
    /// Condition for the next period.
    pub(super) next: Next,
}

/// Condition for the next period to begin.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Next {
    /// The clocks of a quorum have reached this time, in milliseconds.
    Wall(i64),
    /// The running period is old enough at this time.
    Age(Tick),
}

/// Running periods of all quotas, ordered by the time of their next event.
#[derive(Debug, Default, Hash)]
pub(super) struct RunningPeriods {
    pub(super) all: BTreeMap<BudgetId, RunningPeriod>,
    /// Periods by the wall-clock time of their end.
    pub(super) by_wall: BTreeSet<(i64, BudgetId)>,
    /// Periods that have ended by wall clocks and are too young to be replaced.
    pub(super) by_age: BTreeSet<(Tick, BudgetId)>,
    /// The latest time of a quorum's clocks, or `None` if some period was not compared with them.
    pub(super) wall: Option<WallTime>,
}

impl RunningPeriods {
    pub(super) fn put(&mut self, budget: BudgetId, running_period: RunningPeriod) {
        self.all.insert(budget, running_period);
        match running_period.next {
            Next::Wall(end) => self.by_wall.insert((end, budget)),
            Next::Age(at) => self.by_age.insert((at, budget)),
        };
    }

    pub(super) fn take(&mut self, budget: BudgetId) -> Option<RunningPeriod> {
        let running_period = self.all.remove(&budget)?;
        match running_period.next {
            Next::Wall(end) => self.by_wall.remove(&(end, budget)),
            Next::Age(at) => self.by_age.remove(&(at, budget)),
        };
        Some(running_period)
    }

    /// Changes the condition for the next period.
    pub(super) fn wait(&mut self, budget: BudgetId, next: Next) {
        if let Some(running_period) = self.take(budget) {
            self.put(
                budget,
                RunningPeriod {
                    next,
                    ..running_period
                },
            );
        }
    }
}

impl RunningPeriod {
    pub(super) fn age(&self, now: Tick) -> Span {
        let base = self.base.unwrap_or(Span::ZERO);
        base.plus_or_max(now.since(self.since))
    }
}

/// Returns the shortest length of a period, divided by `divisor`.
pub(super) fn part(period: Period, divisor: u64) -> Span {
    let nanos = period.shortest().nanos().checked_div(divisor);
    Span::from_nanos(nanos.unwrap_or(0))
}

/// Returns the wall-clock end of a period in milliseconds. Period 0 (none) has ended, and so has a period
/// outside the calendar.
pub(super) fn end(period: Period, running: PeriodId, zones: &dyn Zones) -> i64 {
    let known = (running > PeriodId::new(0)).then(|| period.end(running, zones));
    known.map_or(i64::MIN, |end| end.map_or(i64::MIN, WallTime::millis))
}

/// Returns the time from the start of a period to `wall`, or `None` if it has not started.
pub(super) fn elapsed(
    period: Period,
    id: PeriodId,
    wall: WallTime,
    zones: &dyn Zones,
) -> Option<Span> {
    let start = period.start(id, zones).ok()?;
    let millis = wall.millis().checked_sub(start.millis())?;
    Some(Span::from_millis(u64::try_from(millis).ok()?))
}

/// Returns the rest of a quota's running period, by the clocks of a quorum.
pub(super) fn rest_of_period(
    generation: &Generation,
    wall: Option<WallTime>,
    zones: &dyn Zones,
) -> Option<Span> {
    let period = generation.budget.period()?;
    let end = boundary(period, generation.account.period(), wall, zones);
    let left = end.checked_sub(wall?.millis())?;
    Some(Span::from_millis(u64::try_from(left).unwrap_or(0)))
}

/// Returns the wall-clock time at which the period after `running` begins, in milliseconds.
///
/// A period that has not started, because the clocks were set back, ends when the clocks' own period does.
pub(super) fn boundary(
    period: Period,
    running: PeriodId,
    wall: Option<WallTime>,
    zones: &dyn Zones,
) -> i64 {
    let by_clocks = wall.and_then(|wall| period.id_at(wall, zones).ok());
    let by_clocks = by_clocks.filter(|_| !planted::is(Bug::SetBackWaits));
    end(
        period,
        by_clocks.map_or(running, |id| running.min(id)),
        zones,
    )
}
