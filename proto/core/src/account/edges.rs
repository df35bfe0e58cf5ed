//! The open edges of a book.

use super::Slot;
use super::slot::PackedSlot;
use crate::few::CompactMap;
use crate::unit::Incarnation;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

/// Open edges, ordered by incarnation.
///
/// Most books of a cluster have one edge, and are kept for every key. A book of thousands of sessions needs a map.
///
/// State invariant: up to [`Edges::FEW`] edges are `Few`, and more are `Many`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Edges {
    Few(Vec<(Incarnation, PackedSlot)>),
    Many(Box<CompactMap<Incarnation, PackedSlot>>),
}

impl Edges {
    const FEW: usize = 8;

    pub(super) const fn new() -> Self {
        Self::Few(Vec::new())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(super) fn get(&self, child: Incarnation) -> Option<Slot> {
        let slot = match self {
            Self::Few(few) => few
                .iter()
                .find_map(|(name, slot)| (*name == child).then_some(slot)),
            Self::Many(many) => many.get(&child),
        };
        slot.map(PackedSlot::get)
    }

    fn get_mut(&mut self, child: Incarnation) -> Option<&mut PackedSlot> {
        match self {
            Self::Few(few) => few
                .iter_mut()
                .find_map(|(name, slot)| (*name == child).then_some(slot)),
            Self::Many(many) => many.get_mut(&child),
        }
    }

    pub(super) fn insert(&mut self, child: Incarnation, slot: Slot) {
        let slot = PackedSlot::from(slot);
        if let Some(known) = self.get_mut(child) {
            *known = slot;
            return;
        }
        match self {
            Self::Few(few) if few.len() < Self::FEW => {
                let place = few.partition_point(|(name, _)| *name < child);
                // Every node may have an edge. More edges are those of sessions, which come together.
                let more = if few.len() < 3 { 1 } else { Self::FEW };
                if few.len() == few.capacity() {
                    few.reserve_exact(more.min(Self::FEW.saturating_sub(few.len())));
                }
                few.insert(place, (child, slot));
            }
            Self::Few(few) => {
                let mut many: CompactMap<_, _> = mem::take(few).into_iter().collect();
                many.insert(child, slot);
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => {
                many.insert(child, slot);
            }
        }
    }

    pub(super) fn remove(&mut self, child: Incarnation) -> Option<Slot> {
        match self {
            Self::Few(few) => {
                let place = few.iter().position(|(name, _)| *name == child)?;
                Some(few.remove(place).1.get())
            }
            Self::Many(many) => {
                let removed = many.remove(&child).map(|slot| slot.get());
                if many.len() <= Self::FEW {
                    *self = Self::Few(mem::take(&mut **many).into_entries().collect());
                }
                removed
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, Slot)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(child, slot)| (child, slot));
        few.chain(many.into_iter().flat_map(|many| many.iter()))
            .map(|(child, slot)| (*child, slot.get()))
    }

    /// Changes the slot of every edge.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut Slot)) {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(_, slot)| slot);
        let many = many.into_iter().flat_map(|many| many.iter_mut());
        for packed in few.chain(many.map(|(_, slot)| slot)) {
            let mut slot = packed.get();
            change(&mut slot);
            *packed = slot.into();
        }
    }
}

impl FromIterator<(Incarnation, Slot)> for Edges {
    fn from_iter<I: IntoIterator<Item = (Incarnation, Slot)>>(edges: I) -> Self {
        let mut open = Self::new();
        for (child, slot) in edges {
            open.insert(child, slot);
        }
        open
    }
}
