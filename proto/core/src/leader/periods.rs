//! Beginnings of quota periods, decided by the clocks of a quorum and never by a single clock.

use super::Leader;
use super::due::Due;
use crate::budget::{Period, WallTime};
use crate::planted::{self, Bug};
use crate::state::{Generation, State};
use crate::unit::{BudgetId, PeriodId, Span, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A period ends at the earliest after its shortest length divided by this, measured by boot clocks.
/// Corrections by a time service move wall clocks by less. If a quorum of wall clocks runs wild, a quota's
/// pace is at most doubled.
const AGE_MIN_PART: u64 = 2;

/// The age is logged each time that this part of a period has passed.
const AGE_LOGGED_PART: u64 = 8;

/// Age of a quota's running period.
#[derive(Clone, Copy, Debug, Hash)]
struct Course {
    period: PeriodId,
    /// Time at which this leader first saw the period running.
    since: Tick,
    /// Age of the period at that time.
    base: Span,
    /// Condition for the next period.
    next: Next,
}

/// Condition for the next period to begin.
#[derive(Clone, Copy, Debug, Hash)]
enum Next {
    /// The clocks of a quorum have reached this time, in milliseconds.
    Wall(i64),
    /// The running period is old enough at this time.
    Age(Tick),
}

/// Running periods of all quotas, ordered by the time of their next event.
#[derive(Debug, Default, Hash)]
pub(super) struct Courses {
    all: BTreeMap<BudgetId, Course>,
    /// Periods by the wall-clock time of their end.
    by_wall: BTreeSet<(i64, BudgetId)>,
    /// Periods that have ended by wall clocks and are too young to be replaced.
    by_age: BTreeSet<(Tick, BudgetId)>,
    /// Waits until an age is logged.
    ages: Due<BudgetId>,
}

impl Courses {
    fn put(&mut self, budget: BudgetId, course: Course) {
        self.all.insert(budget, course);
        match course.next {
            Next::Wall(end) => self.by_wall.insert((end, budget)),
            Next::Age(at) => self.by_age.insert((at, budget)),
        };
    }

    /// Removes a period, except for its entry in `ages`.
    fn take(&mut self, budget: BudgetId) -> Option<Course> {
        let course = self.all.remove(&budget)?;
        match course.next {
            Next::Wall(end) => self.by_wall.remove(&(end, budget)),
            Next::Age(at) => self.by_age.remove(&(at, budget)),
        };
        Some(course)
    }

    /// Changes the condition for the next period.
    fn wait(&mut self, budget: BudgetId, next: Next) {
        if let Some(course) = self.take(budget) {
            self.put(budget, Course { next, ..course });
        }
    }

    fn age(&self, budget: BudgetId, now: Tick) -> Option<(PeriodId, Span)> {
        let course = self.all.get(&budget)?;
        let age = course.base.plus_or_max(now.since(course.since));
        Some((course.period, age))
    }
}

/// Returns the shortest length of a period, divided by `divisor`.
fn part(period: Period, divisor: u64) -> Span {
    let nanos = period.shortest().nanos().checked_div(divisor);
    Span::from_nanos(nanos.unwrap_or(0))
}

/// Returns the wall-clock end of a period in milliseconds. Period 0 (none) has ended, and so has a period
/// outside the calendar.
fn end(period: Period, running: PeriodId) -> i64 {
    let known = (running > PeriodId::new(0)).then(|| period.end(running));
    known.map_or(i64::MIN, |end| end.map_or(i64::MIN, WallTime::millis))
}

/// Returns true if a quota waits for its first period. A generation is created without one, and tokens
/// granted before the first period would be granted again in it.
pub(super) fn waits_for_period(generation: &Generation, wall: Option<WallTime>) -> bool {
    let Some(period) = generation.budget.period() else {
        return false;
    };
    let none = PeriodId::new(0);
    // Until the clocks of a quorum are known, the first period is unknown.
    let is_first = |wall| period.id_at(wall) == Ok(none);
    generation.account.period() == none && !wall.is_some_and(is_first)
}

/// Returns the rest of a quota's running period, by the clocks of a quorum.
pub(super) fn rest_of_period(generation: &Generation, wall: Option<WallTime>) -> Option<Span> {
    let period = generation.budget.period()?;
    let end = period.end(generation.account.period()).ok()?;
    let left = end.millis().checked_sub(wall?.millis())?;
    Some(Span::from_millis(u64::try_from(left).unwrap_or(0)))
}

impl Leader {
    /// Updates the wait of a quota whose period may have changed, or whose age was logged.
    pub(super) fn follow_period(&mut self, budget: BudgetId, state: &State, now: Tick) {
        let former = self.periods.take(budget);
        self.periods.ages.remove(budget);
        let Some(generation) = state.budget(budget) else {
            return;
        };
        let Some(period) = generation.budget.period() else {
            return;
        };
        let running = generation.account.period();
        let (since, base) = match former {
            Some(of) if of.period == running => (of.since, of.base),
            _ => (now, generation.age),
        };
        let next = Next::Wall(end(period, running));
        let course = Course {
            period: running,
            since,
            base,
            next,
        };
        self.periods.put(budget, course);
        let logged = generation.age.plus_or_max(part(period, AGE_LOGGED_PART));
        let wait = logged.minus_or_zero(base);
        self.periods.ages.wait(budget, since, Some(wait));
    }

    /// Returns the ages of running periods that are due to be logged.
    pub(super) fn ages(
        &self,
        wall: Option<WallTime>,
        now: Tick,
        most: usize,
    ) -> Vec<(BudgetId, PeriodId, Span)> {
        if wall.is_none() {
            return Vec::new();
        }
        let due = self.periods.ages.over(now).filter_map(|budget| {
            let (period, age) = self.periods.age(budget, now)?;
            Some((budget, period, age))
        });
        let mut ages: Vec<_> = due.take(most).collect();
        ages.sort_unstable_by_key(|&(budget, ..)| budget);
        ages
    }

    /// Returns the periods that begin now.
    pub(super) fn stamps(
        &mut self,
        state: &State,
        wall: Option<WallTime>,
        now: Tick,
        most: usize,
    ) -> Vec<(BudgetId, PeriodId)> {
        let mut stamps = Vec::new();
        let Some(wall) = wall else {
            return stamps;
        };
        self.come_of_age(now);
        let ended = (wall.millis(), BudgetId::new(u64::MAX));
        let ended = self.periods.by_wall.range(..=ended).take(Self::LOOKS_MAX);
        for budget in ended.map(|&(_, budget)| budget).collect::<Vec<_>>() {
            if stamps.len() >= most {
                break;
            }
            let generation = state.budget(budget);
            let period = generation.and_then(|of| of.budget.period());
            let running = self.periods.age(budget, now);
            let (Some(period), Some((running, age))) = (period, running) else {
                continue;
            };
            let Ok(next) = period.id_at(wall) else {
                continue;
            };
            let least = part(period, AGE_MIN_PART);
            let first = running == PeriodId::new(0);
            if next <= running {
                continue;
            }
            if first || age >= least || planted::is(Bug::LeaderWallTrusted) {
                stamps.push((budget, next));
            } else {
                let old_enough = now.after(least.minus_or_zero(age));
                self.periods.wait(budget, Next::Age(old_enough));
            }
        }
        stamps.sort_unstable();
        stamps
    }

    /// Periods that are old enough by now wait for the wall clocks again.
    fn come_of_age(&mut self, now: Tick) {
        while let Some(&(at, budget)) = self.periods.by_age.first()
            && at <= now
        {
            self.periods.wait(budget, Next::Wall(i64::MIN));
        }
    }

    /// Returns the first periods of those quotas among `budgets` that have none yet.
    pub(super) fn first_stamps(
        &self,
        budgets: &[BudgetId],
        state: &State,
        wall: Option<WallTime>,
    ) -> Vec<(BudgetId, PeriodId)> {
        let stamp = |&budget: &BudgetId| {
            let generation = state.budget(budget)?;
            let waits = waits_for_period(generation, wall);
            let period = generation.budget.period().filter(|_| waits)?;
            let next = period.id_at(wall?).ok()?;
            Some((budget, next))
        };
        budgets.iter().filter_map(stamp).collect()
    }

    /// Returns the latest wall-clock time that a quorum of nodes has reached, by the latest reports of live
    /// incarnations.
    pub(super) fn quorum_wall(&self, state: &State, now: Tick) -> Option<WallTime> {
        let lease = state.lease();
        // A node with two incarnations counts once, with the clock of the later one.
        let fresh = self
            .ledger
            .children()
            .filter(|child| child.wall_ms() > 0 && now.since(child.received()) < lease);
        let by_node: BTreeMap<_, i64> = fresh
            .filter_map(|child| {
                let incarnation = child.edge().child;
                Some((state.member(incarnation)?.node, child.wall_ms()))
            })
            .collect();
        let mut walls: Vec<i64> = by_node.into_values().collect();
        walls.sort_unstable_by(|left, right| right.cmp(left));
        let nodes: BTreeSet<_> = state.members().map(|(_, member)| member.node).collect();
        let majority = nodes.len().checked_div(2)?.checked_add(1)?;
        let index = if planted::is(Bug::LeaderWallTrusted) {
            0
        } else {
            majority.checked_sub(1)?
        };
        walls.get(index).copied().map(WallTime::from_millis)
    }
}
