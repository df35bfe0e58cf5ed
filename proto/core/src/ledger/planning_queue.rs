//! Queue of the budgets to plan and to report.

use super::plan_changes::Plan;
use crate::few::{CompactMap, Few};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Incarnation, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;

/// Selects the budgets whose claims are summed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SumScope {
    /// All of which a claim was reported.
    All,
    /// Those with a claim that is the first on its budget, or whose demand began, rose or fell sharply.
    Urgent,
}

/// The budgets that changed since their last plan.
///
/// State invariant: `urgent ⊆ dirty`.
#[derive(Debug, Default, Hash)]
pub(super) struct PlanningQueue {
    pub(super) dirty: BTreeSet<BudgetId>,
    /// Budgets whose plan something waits for.
    pub(super) urgent: BTreeSet<BudgetId>,
    /// Set if a claim is the first on its budget, or rose or fell so much that the parent's own parent should learn of it.
    pub(super) asked: bool,
    /// The budgets of these claims.
    pub(super) wanted: BTreeSet<BudgetId>,
    /// Budgets of which the sum of all claims may have changed.
    pub(super) unsummed: BTreeSet<BudgetId>,
    /// Cursors of the last rotations through `wanted` and `unsummed`.
    wanted_turn: BudgetId,
    unsummed_turn: BudgetId,
    /// Budgets of which a child returned something that may not be booked yet.
    pub(super) returned: BTreeSet<BudgetId>,
    /// Sorted claimants of each budget. With thousands of children, a plan must not search all of them for a
    /// hundred claimants.
    pub(super) claimants: CompactMap<BudgetId, Few<Incarnation>>,
    /// Budgets of which a child lacked something at the last plan that was not free.
    pub(super) starved: BTreeSet<BudgetId>,
    /// Times at which budgets are planned again without a change, by budget. `alarms` has the same by time.
    again: BTreeMap<BudgetId, Tick>,
    alarms: BTreeSet<(Tick, BudgetId)>,
    /// Cursor of the last rotation through the budgets that are not urgent.
    turn: BudgetId,
    /// Cursor of the last rotation through the urgent budgets.
    urgent_turn: BudgetId,
    /// Cursor of the last rotation through the returned parts.
    pub(super) returned_turn: BudgetId,
}

fn count(claimants: &CompactMap<BudgetId, Few<Incarnation>>, budget: BudgetId) -> usize {
    claimants.get(&budget).map_or(0, |few| few.len())
}

/// Takes budgets out of a set in rotation until they have `claimants_left` claimants or the set is empty. The last one
/// may have more claimants than there are seats left.
fn take_in_turn(
    set: &mut BTreeSet<BudgetId>,
    turn: &mut BudgetId,
    claimants_left: &mut usize,
    claimants: impl Fn(BudgetId) -> usize,
) -> Vec<BudgetId> {
    let mut taken = Vec::new();
    while *claimants_left > 0 {
        let after = (Bound::Excluded(*turn), Bound::Unbounded);
        let Some(&next) = set.range(after).next().or(set.first()) else {
            break;
        };
        set.remove(&next);
        *turn = next;
        *claimants_left = claimants_left.saturating_sub(claimants(next).max(1));
        taken.push(next);
    }
    taken
}

impl PlanningQueue {
    pub(super) fn touch(&mut self, budget: BudgetId) {
        self.dirty.insert(budget);
    }

    pub(super) fn touch_all<'a>(&mut self, budgets: impl Iterator<Item = &'a BudgetId>) {
        self.dirty.extend(budgets);
    }

    pub(super) fn ask(&mut self, budget: BudgetId) {
        self.mark_urgent(budget);
        self.asked = true;
        self.wanted.insert(budget);
    }

    /// Takes budgets whose claims are to be summed, in rotation, until they have `claims_left` claims together:
    /// those in `wanted`, and in the scope of all then others.
    pub(super) fn take_unsummed(
        &mut self,
        which: SumScope,
        mut claims_left: usize,
    ) -> BTreeSet<BudgetId> {
        let claims = |budget| count(&self.claimants, budget);
        let (wanted, turn) = (&mut self.wanted, &mut self.wanted_turn);
        let mut taken = take_in_turn(wanted, turn, &mut claims_left, claims);
        for budget in &taken {
            self.unsummed.remove(budget);
        }
        if which == SumScope::All {
            let (unsummed, turn) = (&mut self.unsummed, &mut self.unsummed_turn);
            taken.extend(take_in_turn(unsummed, turn, &mut claims_left, claims));
        }
        taken.into_iter().collect()
    }

    /// Returns true if claims are left to be summed.
    pub(super) fn has_unsummed(&self, which: SumScope) -> bool {
        !self.wanted.is_empty() || (which == SumScope::All && !self.unsummed.is_empty())
    }

    /// Marks a budget of which a child wants much less.
    pub(super) fn fell(&mut self, budget: BudgetId) {
        self.came_back(budget);
        self.asked = true;
        self.wanted.insert(budget);
    }

    pub(super) fn mark_urgent(&mut self, budget: BudgetId) {
        self.dirty.insert(budget);
        self.urgent.insert(budget);
    }

    /// Marks a budget of which something was returned: as urgent if some child lacked it.
    pub(super) fn came_back(&mut self, budget: BudgetId) {
        match self.starved.contains(&budget) && !planted::is(Bug::ReturnsWait) {
            true => self.mark_urgent(budget),
            false => self.touch(budget),
        }
    }

    /// Marks what a plan left for the next one.
    pub(super) fn planned(&mut self, budget: BudgetId, plan: &Plan) {
        if plan.unsettled {
            self.touch(budget);
        }
        match plan.starved {
            true => self.starved.insert(budget),
            false => self.starved.remove(&budget),
        };
        let before = match plan.again {
            Some(at) => self.again.insert(budget, at),
            None => self.again.remove(&budget),
        };
        if let Some(before) = before {
            self.alarms.remove(&(before, budget));
        }
        self.alarms.extend(plan.again.map(|at| (at, budget)));
    }

    /// Marks the budgets whose time to be planned again has come.
    pub(super) fn pass(&mut self, now: Tick) {
        while let Some(&(at, budget)) = self.alarms.first().filter(|(at, _)| *at <= now) {
            self.alarms.remove(&(at, budget));
            self.again.remove(&budget);
            self.touch(budget);
        }
    }

    /// Returns true if nothing is to be planned, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.dirty.is_empty() && self.again.is_empty()
    }

    /// Forgets a budget that has ended.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        for set in [
            &mut self.dirty,
            &mut self.urgent,
            &mut self.wanted,
            &mut self.unsummed,
            &mut self.returned,
            &mut self.starved,
        ] {
            set.remove(&budget);
        }
        self.claimants.remove(&budget);
        if let Some(at) = self.again.remove(&budget) {
            self.alarms.remove(&(at, budget));
        }
    }

    /// Returns the budgets that any state is kept of.
    pub(super) fn remembered(&self) -> impl Iterator<Item = BudgetId> {
        let sets = [
            &self.dirty,
            &self.urgent,
            &self.wanted,
            &self.unsummed,
            &self.returned,
            &self.starved,
        ];
        let maps = self.claimants.keys().chain(self.again.keys());
        sets.into_iter().flatten().chain(maps).copied()
    }

    /// Adds a child to a budget's claimants.
    ///
    /// The parent of a first claimant may not know the budget. A caller waits for its terms, even one that wants nothing
    /// of it, so the parent's own parent is asked at once.
    pub(super) fn claims(&mut self, budget: BudgetId, child: Incarnation) {
        let claimants = self.claimants.get_or_insert_with(budget, Few::default);
        if claimants.is_empty() {
            self.asked = true;
            self.wanted.insert(budget);
        }
        claimants.add(child);
    }

    /// Removes a child from a budget's claimants.
    pub(super) fn claims_no_longer(&mut self, budget: BudgetId, child: Incarnation) {
        self.unsummed.insert(budget);
        if let Some(claimants) = self.claimants.get_mut(&budget) {
            claimants.take_out(&child);
            if claimants.is_empty() {
                self.claimants.remove(&budget);
            }
        }
    }

    /// Returns the claimants of a budget, in order.
    pub(super) fn claimants(&self, budget: BudgetId) -> impl Iterator<Item = Incarnation> {
        let few = self.claimants.get(&budget);
        few.into_iter().flat_map(|few| few.iter().copied())
    }

    /// Takes urgent budgets in rotation until they have `claimants_left` claimants, and then others up to what is left
    /// of that number, but at least one.
    pub(super) fn take_some(&mut self, mut claimants_left: usize) -> Vec<BudgetId> {
        let mut taken = self.take_some_urgent(&mut claimants_left);
        claimants_left = claimants_left.max(1);
        let claimants = |budget| count(&self.claimants, budget);
        let dirty = &mut self.dirty;
        taken.extend(take_in_turn(
            dirty,
            &mut self.turn,
            &mut claimants_left,
            claimants,
        ));
        for budget in &taken {
            self.urgent.remove(budget);
        }
        taken
    }

    /// Takes urgent budgets in rotation until they have `claimants_left` claimants. Subtracts their claimants from
    /// `claimants_left`.
    pub(super) fn take_some_urgent(&mut self, claimants_left: &mut usize) -> Vec<BudgetId> {
        let claimants = |budget| count(&self.claimants, budget);
        let (urgent, turn) = (&mut self.urgent, &mut self.urgent_turn);
        let taken = take_in_turn(urgent, turn, claimants_left, claimants);
        for budget in &taken {
            self.dirty.remove(budget);
        }
        taken
    }

    pub(super) fn take(&mut self) -> Vec<BudgetId> {
        self.urgent.clear();
        core::mem::take(&mut self.dirty).into_iter().collect()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ledger/planning_queue.rs"]
mod tests;
