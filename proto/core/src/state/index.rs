//! Indexes of generations and rules.

use super::chunks::Chunks;
use super::generation::{Generation, Rule};
use crate::unit::{BudgetId, Incarnation, RuleId};
use alloc::collections::{BTreeMap, BTreeSet};

/// Sets of generations by a key that they have in common. No set is empty.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Sets<K>(BTreeMap<K, BTreeSet<BudgetId>>);

impl<K: Ord> Sets<K> {
    pub(super) fn add(&mut self, of: K, budget: BudgetId) {
        self.0.entry(of).or_default().insert(budget);
    }

    pub(super) fn remove(&mut self, of: &K, budget: BudgetId) {
        if let Some(set) = self.0.get_mut(of) {
            set.remove(&budget);
            if set.is_empty() {
                self.0.remove(of);
            }
        }
    }

    /// Removes and returns one set.
    pub(super) fn take(&mut self, of: &K) -> BTreeSet<BudgetId> {
        self.0.remove(of).unwrap_or_default()
    }

    pub(super) fn of(&self, of: K) -> impl Iterator<Item = BudgetId> {
        self.0.get(&of).into_iter().flatten().copied()
    }

    pub(super) fn count(&self, of: &K) -> usize {
        self.0.get(of).map_or(0, BTreeSet::len)
    }
}

impl<K> Default for Sets<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Indexes that replace walks over all generations or rules.
///
/// State invariant: an index has exactly what the walk would find.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Index {
    /// The generations of each rule.
    pub(super) of_rule: Sets<RuleId>,
    /// The generations on which each incarnation has an open edge.
    pub(super) open: Sets<Incarnation>,
    /// The generations of which something is kept of each closed incarnation.
    pub(super) kept: Sets<Incarnation>,
    /// The cold rules.
    pub(super) cold: BTreeSet<RuleId>,
}

impl Index {
    /// Returns the index of these generations and rules.
    pub(super) fn new(
        budgets: &Chunks<BudgetId, Generation>,
        rules: &Chunks<RuleId, Rule>,
    ) -> Self {
        let mut index = Self::default();
        for (&budget, generation) in budgets.iter() {
            index.add(budget, generation);
        }
        let cold = rules.iter().filter(|(_, rule)| rule.cold);
        index.cold.extend(cold.map(|(&id, _)| id));
        index
    }

    pub(super) fn add(&mut self, budget: BudgetId, generation: &Generation) {
        self.of_rule.add(generation.rule, budget);
        for (incarnation, _) in generation.account.open() {
            self.open.add(incarnation, budget);
        }
        for (incarnation, _) in generation.account.kept() {
            self.kept.add(incarnation, budget);
        }
    }

    pub(super) fn remove(&mut self, budget: BudgetId, generation: &Generation) {
        self.of_rule.remove(&generation.rule, budget);
        self.shut(budget, generation);
        for (incarnation, _) in generation.account.kept() {
            self.kept.remove(&incarnation, budget);
        }
    }

    /// Removes all open edges of a generation, which are about to end.
    pub(super) fn shut(&mut self, budget: BudgetId, generation: &Generation) {
        for (incarnation, _) in generation.account.open() {
            self.open.remove(&incarnation, budget);
        }
    }
}
