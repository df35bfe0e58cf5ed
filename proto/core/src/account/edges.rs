//! The open edges of a book.

use crate::edge::{Counters, PackedCounters};
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
    Few(Vec<(Incarnation, PackedCounters)>),
    Many(Box<ManyEdges>),
}

type ManyEdges = CompactMap<Incarnation, PackedCounters, 512>;

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

    pub(super) fn get(&self, child: Incarnation) -> Option<Counters> {
        let counters = match self {
            Self::Few(few) => few
                .iter()
                .find_map(|(name, counters)| (*name == child).then_some(counters)),
            Self::Many(many) => many.get(&child),
        };
        counters.map(PackedCounters::get)
    }

    fn get_mut(&mut self, child: Incarnation) -> Option<&mut PackedCounters> {
        match self {
            Self::Few(few) => few
                .iter_mut()
                .find_map(|(name, counters)| (*name == child).then_some(counters)),
            Self::Many(many) => many.get_mut(&child),
        }
    }

    pub(super) fn insert(&mut self, child: Incarnation, counters: Counters) {
        let counters = PackedCounters::from(counters);
        if let Some(known) = self.get_mut(child) {
            *known = counters;
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
                few.insert(place, (child, counters));
            }
            Self::Few(few) => {
                let mut many: ManyEdges = mem::take(few).into_iter().collect();
                many.insert(child, counters);
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => {
                many.insert(child, counters);
            }
        }
    }

    pub(super) fn remove(&mut self, child: Incarnation) -> Option<Counters> {
        match self {
            Self::Few(few) => {
                let place = few.iter().position(|(name, _)| *name == child)?;
                Some(few.remove(place).1.get())
            }
            Self::Many(many) => {
                let removed = many.remove(&child).map(|counters| counters.get());
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

    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, Counters)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten();
        let few = few.map(|(child, counters)| (child, counters));
        few.chain(many.into_iter().flat_map(|many| many.iter()))
            .map(|(child, counters)| (*child, counters.get()))
    }
}

impl FromIterator<(Incarnation, Counters)> for Edges {
    fn from_iter<I: IntoIterator<Item = (Incarnation, Counters)>>(edges: I) -> Self {
        let mut open = Self::new();
        for (child, counters) in edges {
            open.insert(child, counters);
        }
        open
    }
}
