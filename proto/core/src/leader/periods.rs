//! Beginnings of quota periods, decided by the clocks of a quorum and never by a single clock.

use super::Leader;
use super::running_period::{
    AGE_MIN_PART, NANOS_PER_MILLI, Next, RunningPeriod, boundary, elapsed, part,
};
use crate::budget::{Period, WallTime, Zones};
use crate::planted::{self, Bug};
use crate::state::{Generation, State};
use crate::unit::{BudgetId, PeriodId, Span, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Returns true if a quota waits for its first period. A generation is created without one, and tokens
/// granted before the first period would be granted again in it.
pub(super) fn waits_for_period(
    generation: &Generation,
    wall: Option<WallTime>,
    zones: &dyn Zones,
) -> bool {
    let Some(period) = generation.budget.period() else {
        return false;
    };
    let none = PeriodId::new(0);
    // Until the clocks of a quorum are known, the first period is unknown.
    let is_first = |wall| period.id_at(wall, zones) == Ok(none);
    generation.account.period() == none && !wall.is_some_and(is_first)
}

impl Leader {
    /// Updates the wait of a quota whose period may have changed.
    pub(super) fn follow_period(
        &mut self,
        budget: BudgetId,
        state: &State,
        wall: Option<WallTime>,
        now: Tick,
    ) {
        let former = self.periods.take(budget);
        let Some(generation) = state.budget(budget) else {
            return;
        };
        let Some(period) = generation.budget.period() else {
            return;
        };
        let running = generation.account.period();
        if let Some(former) = former.filter(|former| former.period == running) {
            self.periods.put(budget, former);
            return;
        }
        if wall.is_none() {
            self.periods.wall = None;
        }
        let former = former.map(|former| (former.period, former.age(now)));
        let running_period = RunningPeriod {
            period: running,
            since: now,
            base: wall.map(|wall| self.age_at_start(period, former, running, wall)),
            next: Next::Wall(boundary(period, running, wall, self.zones)),
        };
        self.periods.put(budget, running_period);
    }

    /// Returns the age of a period that this leader sees for the first time.
    ///
    /// A period that began late ends on time. So it has the age by the clocks of a quorum, but after one
    /// that this leader followed, of which `former` is the id and the age, only as far as that one was older than
    /// a whole period. A period that the clocks have not reached began early by a small error of theirs, or they
    /// were set back: then it ends with the clocks' own period, as if it had begun with that.
    fn age_at_start(
        &self,
        period: Period,
        former: Option<(PeriodId, Span)>,
        running: PeriodId,
        wall: WallTime,
    ) -> Span {
        if planted::is(Bug::PeriodBornYoung) {
            return Span::ZERO;
        }
        let zones = self.zones;
        let by_clocks = period.id_at(wall, zones).unwrap_or(running);
        let begun = || elapsed(period, running.min(by_clocks), wall, zones);
        let soon = i64::try_from(part(period, AGE_MIN_PART).nanos() / NANOS_PER_MILLI);
        let soon = wall.millis().saturating_add(soon.unwrap_or(i64::MAX));
        let starts_soon = || {
            period
                .start(running, zones)
                .is_ok_and(|start| start.millis() < soon)
        };
        let early = running > by_clocks && starts_soon();
        let planned = match early {
            true => Span::ZERO,
            false => begun().unwrap_or(Span::ZERO),
        };
        match former {
            Some((id, age)) if id > PeriodId::new(0) => {
                planned.min(age.minus_or_zero(period.shortest()))
            }
            _ => planned,
        }
    }

    /// Compares all periods with the clocks of a quorum, if that was not done yet, or these were set back since.
    fn compare_with_clocks(&mut self, state: &State, wall: WallTime, now: Tick) {
        if self.periods.wall.is_none_or(|last| wall < last) {
            let all: Vec<_> = self.periods.all.keys().copied().collect();
            for budget in all {
                let generation = state.budget(budget);
                let period = generation.and_then(|of| of.budget.period());
                let (Some(period), Some(running_period)) = (period, self.periods.take(budget))
                else {
                    continue;
                };
                let (since, base) = match running_period.base {
                    Some(base) => (running_period.since, base),
                    None => (
                        now,
                        self.age_at_start(period, None, running_period.period, wall),
                    ),
                };
                let next = match running_period.next {
                    // It has ended, and its successor was not proposed yet.
                    Next::Wall(end) if end > i64::MIN && end <= wall.millis() => {
                        running_period.next
                    }
                    _ => Next::Wall(boundary(
                        period,
                        running_period.period,
                        Some(wall),
                        self.zones,
                    )),
                };
                let running_period = RunningPeriod {
                    since,
                    base: Some(base),
                    next,
                    ..running_period
                };
                self.periods.put(budget, running_period);
            }
        }
        self.periods.wall = Some(wall);
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
        self.compare_with_clocks(state, wall, now);
        let ended = (wall.millis(), BudgetId::new(u64::MAX));
        let ended = self.periods.by_wall.range(..=ended).take(Self::LOOKS_MAX);
        for (end, budget) in ended.copied().collect::<Vec<_>>() {
            if stamps.len() >= most {
                break;
            }
            let generation = state.budget(budget);
            let period = generation.and_then(|of| of.budget.period());
            let running_period = self.periods.all.get(&budget);
            let (Some(period), Some(running_period)) = (period, running_period) else {
                continue;
            };
            let Ok(by_clocks) = period.id_at(wall, self.zones) else {
                continue;
            };
            let (running, age) = (running_period.period, running_period.age(now));
            let least = part(period, AGE_MIN_PART);
            let first = running == PeriodId::new(0);
            let is_old = first || age >= least || planted::is(Bug::LeaderWallTrusted);
            if by_clocks > running {
                if is_old {
                    stamps.push((budget, by_clocks));
                } else {
                    let old_enough = now.after(least.minus_or_zero(age));
                    self.periods.wait(budget, Next::Age(old_enough));
                }
                continue;
            }
            // The clocks were set back, and a period of theirs has ended since. If the running one is young, it
            // had only begun a little early.
            let ended = end > i64::MIN && is_old;
            match running.next().filter(|_| ended) {
                Some(next) => stamps.push((budget, next)),
                None => {
                    let boundary = boundary(period, running, Some(wall), self.zones);
                    self.periods.wait(budget, Next::Wall(boundary));
                }
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
            let waits = waits_for_period(generation, wall, self.zones);
            let period = generation.budget.period().filter(|_| waits)?;
            let next = period.id_at(wall?, self.zones).ok()?;
            Some((budget, next))
        };
        budgets.iter().filter_map(stamp).collect()
    }

    /// Keeps the time of a quorum's clocks for answers. Once it is known, the ends of periods are sent to all nodes.
    pub(super) fn follow_wall(&mut self, wall: Option<WallTime>, now: Tick) {
        let Some(wall) = wall else {
            return;
        };
        if self.wall.is_none() {
            for &budget in self.periods.all.keys() {
                self.ledger.tell(budget);
            }
        }
        // The same reading again is an older one.
        if self.wall.is_none_or(|(known, _)| known != wall) {
            self.wall = Some((wall, now));
        }
    }

    /// Returns the time of a quorum's clocks, as the last round saw it and this host's clock went on.
    pub(super) fn wall_at(&self, now: Tick) -> Option<WallTime> {
        let (wall, at) = self.wall?;
        let passed = now.since(at).nanos().checked_div(NANOS_PER_MILLI);
        let passed = i64::try_from(passed.unwrap_or(0)).unwrap_or(0);
        let millis = wall.millis().saturating_add(passed);
        Some(WallTime::from_millis(millis))
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
