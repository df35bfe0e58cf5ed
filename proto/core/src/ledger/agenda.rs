//! What the next plans must look at.

use crate::unit::{BudgetId, Incarnation};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;

/// The budgets in which something changed since they were last planned.
///
/// State invariant: `urgent ⊆ dirty`.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    pub(super) dirty: BTreeSet<BudgetId>,
    /// Those of which somebody waits for the plan.
    pub(super) urgent: BTreeSet<BudgetId>,
    /// Whether somebody asked for more than there may be here.
    pub(super) asked: bool,
    /// Who claims each budget: with thousands of children a plan must not look for
    /// its hundred claimants among all of them.
    claimants: BTreeMap<BudgetId, BTreeSet<Incarnation>>,
    /// Where the last turn through the budgets that can wait ended.
    turn: BudgetId,
}

impl Agenda {
    pub(super) fn touch(&mut self, budget: BudgetId) {
        self.dirty.insert(budget);
    }

    pub(super) fn touch_all<'a>(&mut self, budgets: impl Iterator<Item = &'a BudgetId>) {
        self.dirty.extend(budgets);
    }

    pub(super) fn ask(&mut self, budget: BudgetId) {
        self.hurry(budget);
        self.asked = true;
    }

    pub(super) fn hurry(&mut self, budget: BudgetId) {
        self.dirty.insert(budget);
        self.urgent.insert(budget);
    }

    /// A child has a claim on a budget.
    pub(super) fn claims(&mut self, budget: BudgetId, child: Incarnation) {
        self.claimants.entry(budget).or_default().insert(child);
    }

    /// A child has none any more.
    pub(super) fn claims_no_longer(&mut self, budget: BudgetId, child: Incarnation) {
        if let Some(claimants) = self.claimants.get_mut(&budget) {
            claimants.remove(&child);
            if claimants.is_empty() {
                self.claimants.remove(&budget);
            }
        }
    }

    /// Those who have a claim on a budget, in order.
    pub(super) fn claimants(&self, budget: BudgetId) -> impl Iterator<Item = Incarnation> {
        self.claimants.get(&budget).into_iter().flatten().copied()
    }

    /// All urgent ones, and of the others in turn as many as have up to `seats`
    /// claimants, but one at least.
    pub(super) fn take_some(&mut self, seats: usize) -> Vec<BudgetId> {
        let mut taken = self.take_urgent();
        let mut room = seats;
        while room > 0 {
            let after = (Bound::Excluded(self.turn), Bound::Unbounded);
            let next = self.dirty.range(after).next().or(self.dirty.first());
            let Some(&next) = next else {
                break;
            };
            self.dirty.remove(&next);
            self.turn = next;
            let claimants = self.claimants.get(&next).map_or(0, BTreeSet::len);
            room = room.saturating_sub(claimants.max(1));
            taken.push(next);
        }
        taken
    }

    pub(super) fn take(&mut self) -> Vec<BudgetId> {
        self.urgent.clear();
        core::mem::take(&mut self.dirty).into_iter().collect()
    }

    pub(super) fn take_urgent(&mut self) -> Vec<BudgetId> {
        let urgent = core::mem::take(&mut self.urgent);
        self.dirty.retain(|budget| !urgent.contains(budget));
        urgent.into_iter().collect()
    }
}
