//! The children of a parent, by incarnation.

use super::child::Child;
use crate::unit::Incarnation;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

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
mod tests {
    use super::*;
    use crate::unit::{Edge, Tick};

    fn name(number: u64) -> Incarnation {
        Incarnation::new(number)
    }

    fn children(names: impl IntoIterator<Item = u64>) -> Children {
        let mut children = Children::default();
        for child in names.into_iter().map(name) {
            let edge = Edge {
                parent: name(1_000),
                child,
            };
            children.add(child, || Child::new(edge, Tick::ZERO));
        }
        children
    }

    #[test]
    fn a_child_is_found_by_its_name_wherever_it_was_put() {
        let mut children = children([5, 1, 9, 3, 5]);
        let names = |children: &Children| -> Vec<u64> {
            children.iter().map(|of| of.edge().child.get()).collect()
        };
        assert_eq!(names(&children), [1, 3, 5, 9]);
        assert_eq!(
            children.get(name(9)).map(|of| of.edge().child),
            Some(name(9))
        );
        assert!(children.get_mut(name(4)).is_none());
        assert_eq!(
            children.remove(name(3)).map(|of| of.edge().child),
            Some(name(3))
        );
        assert!(children.remove(name(3)).is_none());
        assert_eq!(names(&children), [1, 5, 9]);
    }

    #[test]
    fn several_children_are_borrowed_at_once() {
        let check = |there: &[u64], asked: &[u64], expected: &[u64]| {
            let mut children = children(there.iter().copied());
            let asked: Vec<Incarnation> = asked.iter().copied().map(name).collect();
            let lent: Vec<_> = children.among_mut(&asked).collect();
            let lent: Vec<u64> = lent
                .iter()
                .map(|(name, child)| {
                    assert_eq!(child.edge().child, *name);
                    name.get()
                })
                .collect();
            assert_eq!(lent, expected, "of {there:?} for {asked:?}");
        };
        check(&[], &[1, 2], &[]);
        check(&[1, 2, 3], &[], &[]);
        check(&[1, 2, 3], &[1, 2, 3], &[1, 2, 3]);
        check(&[2, 4, 6, 8], &[1, 2, 3, 6, 7, 9], &[2, 6]);
        check(&[2, 4, 6, 8], &[8], &[8]);
        check(&[5], &[1, 5, 9], &[5]);
    }
}
