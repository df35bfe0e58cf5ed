//! Indexes of generations and rules.

use super::chunks::Chunks;
use super::generation::{Generation, Rule};
use crate::few::CompactMap;
use crate::unit::{BudgetId, Incarnation, RuleId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A set of generations, as bits. Ids are issued in rising order, so sets of many generations have many neighbours.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
struct Ids {
    /// By id, without the lowest bits: those of 64 neighbours. None is zero.
    words: CompactMap<u64, u64>,
    len: usize,
}

impl Ids {
    const BITS: u64 = 64;

    /// Returns the word of an id, and its bit there.
    fn place(budget: BudgetId) -> (u64, u64) {
        let bit = u32::try_from(budget.get() % Self::BITS).unwrap_or(0);
        (budget.get() / Self::BITS, 1_u64.rotate_left(bit))
    }

    fn insert(&mut self, budget: BudgetId) {
        let (word, bit) = Self::place(budget);
        let word = self.words.get_or_insert_with(word, || 0);
        self.len = self.len.saturating_add(usize::from(*word & bit == 0));
        *word |= bit;
    }

    fn remove(&mut self, budget: BudgetId) {
        let (place, bit) = Self::place(budget);
        let word = self.words.get_mut(&place).filter(|word| **word & bit != 0);
        if let Some(word) = word {
            *word ^= bit;
            self.len = self.len.saturating_sub(1);
            if *word == 0 {
                self.words.remove(&place);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = BudgetId> {
        let words = self.words.iter();
        words.flat_map(|(&place, &word)| {
            let first = place.saturating_mul(Self::BITS);
            let ids = (0..Self::BITS).map(move |bit| BudgetId::new(first.saturating_add(bit)));
            ids.filter(move |&id| word & Self::place(id).1 != 0)
        })
    }
}

/// Sets of generations by a key that they have in common. No set is empty.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Sets<K>(BTreeMap<K, Ids>);

impl<K: Ord> Sets<K> {
    pub(super) fn add(&mut self, of: K, budget: BudgetId) {
        self.0.entry(of).or_default().insert(budget);
    }

    pub(super) fn remove(&mut self, of: &K, budget: BudgetId) {
        if let Some(set) = self.0.get_mut(of) {
            set.remove(budget);
            if set.len == 0 {
                self.0.remove(of);
            }
        }
    }

    /// Removes the first generations of a set, at most `most`, and returns them in order.
    pub(super) fn take_some(&mut self, of: &K, most: usize) -> Vec<BudgetId> {
        let set = self.0.get(of);
        let some: Vec<BudgetId> = set.into_iter().flat_map(Ids::iter).take(most).collect();
        for &budget in &some {
            self.remove(of, budget);
        }
        some
    }

    /// Returns the generations of a set in order.
    pub(super) fn of(&self, of: K) -> impl Iterator<Item = BudgetId> {
        self.0.get(&of).into_iter().flat_map(Ids::iter)
    }

    pub(super) fn count(&self, of: &K) -> usize {
        self.0.get(of).map_or(0, |set| set.len)
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
