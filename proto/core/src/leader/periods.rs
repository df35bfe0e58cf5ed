//! When a quota's period begins: by the clocks of a quorum, never by one.

use super::Leader;
use crate::budget::WallTime;
use crate::planted::{self, Bug};
use crate::state::{Generation, State};
use crate::unit::{BudgetId, PeriodId, Span, Tick};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A period may end at the earliest after this part of its shortest length by
/// boot clocks: wall clocks that a time service corrects move by less, and a
/// quorum of clocks gone wild can at most double a quota's pace.
const AGE_MIN_PART: u64 = 2;

/// The age is logged whenever this part of a period has passed.
const AGE_LOGGED_PART: u64 = 8;

/// How long each running period has been seen to run in this term.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Ages(BTreeMap<BudgetId, (PeriodId, Tick, Span)>);

impl Leader {
    /// The periods that begin now; what the running ones have aged since it
    /// was last logged goes to `logged`.
    pub(super) fn stamps(
        &mut self,
        state: &State,
        now: Tick,
        logged: &mut Vec<(BudgetId, PeriodId, Span)>,
    ) -> Vec<(BudgetId, PeriodId)> {
        let mut stamps = Vec::new();
        let Some(wall) = self.quorum_wall(state, now) else {
            return stamps;
        };
        for (budget, generation) in state.budgets() {
            let Some(period) = generation.budget.period() else {
                continue;
            };
            let running = generation.account.period();
            let seen = self.periods.0.get(&budget).copied();
            let (since, base) = match seen {
                Some((of, since, base)) if of == running => (since, base),
                _ => (now, generation.age),
            };
            self.periods.0.insert(budget, (running, since, base));
            let age = base.plus_or_max(now.since(since));
            let part = |divisor: u64| {
                let nanos = period.shortest().nanos().checked_div(divisor);
                Span::from_nanos(nanos.unwrap_or(0))
            };
            if age.minus_or_zero(generation.age) > part(AGE_LOGGED_PART) {
                logged.push((budget, running, age));
            }
            let Ok(next) = period.id_at(wall) else {
                continue;
            };
            let first = running == PeriodId::new(0);
            let old_enough = first || age >= part(AGE_MIN_PART);
            if next > running && (old_enough || planted::is(Bug::LeaderWallTrusted)) {
                stamps.push((budget, next));
            }
        }
        stamps
    }

    /// Whether a quota waits for its first period: a generation is made without
    /// one, and what was given out in none would be given again in the first.
    pub(super) fn waits_for_period(
        &self,
        generation: &Generation,
        state: &State,
        now: Tick,
    ) -> bool {
        let Some(period) = generation.budget.period() else {
            return false;
        };
        let none = PeriodId::new(0);
        // A clock that nobody knows yet may say any period.
        let is_first = |wall| period.id_at(wall) == Ok(none);
        generation.account.period() == none && !self.quorum_wall(state, now).is_some_and(is_first)
    }

    /// What is left of a quota's running period, by the clocks of a quorum.
    pub(super) fn rest_of_period(
        &self,
        generation: &Generation,
        state: &State,
        now: Tick,
    ) -> Option<Span> {
        let period = generation.budget.period()?;
        let end = period.end(generation.account.period()).ok()?;
        let wall = self.quorum_wall(state, now)?;
        let left = end.millis().checked_sub(wall.millis())?;
        Some(Span::from_millis(u64::try_from(left).unwrap_or(0)))
    }

    /// The first periods of those quotas among `budgets` that wait for theirs.
    pub(super) fn first_stamps(
        &self,
        budgets: &[BudgetId],
        state: &State,
        now: Tick,
    ) -> Vec<(BudgetId, PeriodId)> {
        let stamp = |&budget: &BudgetId| {
            let generation = state.budget(budget)?;
            let waits = self.waits_for_period(generation, state, now);
            let period = generation.budget.period().filter(|_| waits)?;
            let next = period.id_at(self.quorum_wall(state, now)?).ok()?;
            Some((budget, next))
        };
        budgets.iter().filter_map(stamp).collect()
    }

    /// The latest wall time that the clocks of a quorum of the living nodes
    /// have reached, by their latest reports.
    fn quorum_wall(&self, state: &State, now: Tick) -> Option<WallTime> {
        let lease = state.lease();
        // A node that began another life has one clock all the same: its latest life's.
        let fresh = self
            .ledger
            .children()
            .filter(|child| child.wall_ms() > 0 && now.since(child.received()) < lease);
        let by_node: BTreeMap<_, i64> = fresh
            .filter_map(|child| {
                let life = child.edge().child;
                Some((state.member(life)?.node, child.wall_ms()))
            })
            .collect();
        let mut walls: Vec<i64> = by_node.into_values().collect();
        walls.sort_unstable_by(|left, right| right.cmp(left));
        let nodes: alloc::collections::BTreeSet<_> =
            state.members().map(|(_, member)| member.node).collect();
        let majority = nodes.len().checked_div(2)?.checked_add(1)?;
        let index = if planted::is(Bug::LeaderWallTrusted) {
            0
        } else {
            majority.checked_sub(1)?
        };
        walls.get(index).copied().map(WallTime::from_millis)
    }
}
