//! The booked rests of a book's closed edges.

use super::Lingering;
use crate::unit::Incarnation;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

type ByIncarnation = BTreeMap<Incarnation, Lingering>;

/// Booked rests of closed edges, ordered by incarnation. Boxed, since few books have any.
///
/// State invariant: there is no empty map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(from = "ByIncarnation", into = "ByIncarnation")
)]
pub(super) struct ClosedEdges(Option<Box<ByIncarnation>>);

impl ClosedEdges {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    pub(super) fn get(&self, child: Incarnation) -> Option<&Lingering> {
        self.0.as_ref()?.get(&child)
    }

    pub(super) fn get_mut(&mut self, child: Incarnation) -> Option<&mut Lingering> {
        self.0.as_mut()?.get_mut(&child)
    }

    pub(super) fn insert(&mut self, child: Incarnation, rest: Lingering) {
        self.0.get_or_insert_default().insert(child, rest);
    }

    pub(super) fn remove(&mut self, child: Incarnation) -> Option<Lingering> {
        let removed = self.0.as_mut()?.remove(&child);
        self.0.take_if(|rests| rests.is_empty());
        removed
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, &Lingering)> {
        let rests = self.0.as_deref().into_iter().flatten();
        rests.map(|(&child, rest)| (child, rest))
    }
}

impl From<ByIncarnation> for ClosedEdges {
    fn from(rests: ByIncarnation) -> Self {
        Self((!rests.is_empty()).then(|| Box::new(rests)))
    }
}

impl From<ClosedEdges> for ByIncarnation {
    fn from(kept: ClosedEdges) -> Self {
        kept.0.map_or_else(Self::new, |rests| *rests)
    }
}
