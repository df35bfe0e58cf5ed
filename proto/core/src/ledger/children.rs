//! The children of a parent, by incarnation.

use super::child::Child;
use crate::unit::{BudgetId, Incarnation};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::{hint, mem};

/// Number of children whose memory is fetched at a time.
pub(super) const FETCHED: usize = 32;

/// Reads from each of some children what a walk over their claims on a budget reads first.
///
/// Of thousands of children little is in the processor's cache. These reads depend on nothing but the child, so that
/// the processor waits for many of them at once, and the walk finds the memory there. They have no other effect. Fewer
/// than [`FETCHED`] are left alone: most budgets have few claimants.
pub(super) fn fetch<'a>(
    children: impl ExactSizeIterator<Item = &'a Child> + Clone,
    budget: BudgetId,
) {
    if children.len() < FETCHED {
        return;
    }
    let heads = children.clone().map(Child::read_head);
    hint::black_box(heads.fold(0, u64::wrapping_add));
    let claims = || {
        children
            .clone()
            .filter_map(move |child| child.claims.get(&budget))
    };
    hint::black_box(
        claims()
            .map(|claim| claim.read_head())
            .fold(0, u64::wrapping_add),
    );
    hint::black_box(
        claims()
            .map(|claim| claim.read_rare())
            .fold(0, u64::wrapping_add),
    );
}

/// Children ordered by incarnation.
///
/// A map would lend either one child or all for a change, so that a plan for ten would iterate over
/// thousands. Incarnations are issued in rising order, so a new child is appended. Removing one shifts two
/// vectors of words.
#[derive(Debug, Default, Hash)]
pub(super) struct Children {
    names: Vec<Incarnation>,
    #[expect(
        clippy::vec_box,
        reason = "who comes and goes would move all the others"
    )]
    all: Vec<Box<Child>>,
}

impl Children {
    /// Adds a child, unless there is one of that name.
    pub(super) fn add(&mut self, name: Incarnation, make: impl FnOnce() -> Child) {
        if let Err(place) = self.names.binary_search(&name) {
            self.names.insert(place, name);
            self.all.insert(place, Box::new(make()));
        }
    }

    pub(super) fn remove(&mut self, name: Incarnation) -> Option<Child> {
        let place = self.names.binary_search(&name).ok()?;
        self.names.remove(place);
        Some(*self.all.remove(place))
    }

    pub(super) fn get(&self, name: Incarnation) -> Option<&Child> {
        let place = self.names.binary_search(&name).ok()?;
        self.all.get(place).map(|child| &**child)
    }

    pub(super) fn get_mut(&mut self, name: Incarnation) -> Option<&mut Child> {
        let place = self.names.binary_search(&name).ok()?;
        self.all.get_mut(place).map(|child| &mut **child)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Child> {
        self.all.iter().map(|child| &**child)
    }

    /// Visits all children in order.
    pub(super) fn visit<'a>(&'a self, budget: BudgetId, mut visit: impl FnMut(&'a Child)) {
        for some in self.all.chunks(FETCHED) {
            let some = some.iter().map(|child| &**child);
            fetch(some.clone(), budget);
            some.for_each(&mut visit);
        }
    }

    /// Returns the children that have one of these names. The names are sorted and unique.
    pub(super) fn among_mut<'a>(
        &'a mut self,
        names: &'a [Incarnation],
    ) -> impl Iterator<Item = (Incarnation, &'a mut Child)> {
        let (mut known, mut all) = (&self.names[..], &mut self.all[..]);
        names.iter().filter_map(move |&name| {
            let place = known.partition_point(|known| *known < name);
            let (_, rest) = mem::take(&mut all).split_at_mut_checked(place)?;
            known = known.get(place..)?;
            if known.first() != Some(&name) {
                all = rest;
                return None;
            }
            let (child, rest) = rest.split_first_mut()?;
            (known, all) = (known.get(1..)?, rest);
            Some((name, &mut **child))
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ledger/children.rs"]
mod tests;
