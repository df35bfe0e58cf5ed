//! The book's state of one edge.

use crate::edge::{Counters, Vector};
use crate::unit::{Incarnation, Span};
use alloc::collections::{BTreeMap, BTreeSet};

/// One open edge in the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slot {
    /// The edge's counters.
    pub counters: Counters,
    /// Maximum time for which anything of this edge may outlive its lease: the greatest maximum hold, or
    /// `forget_after`, that was in force while the edge existed.
    pub linger: Span,
}

/// The booked rest of a closed edge: floors, and permits that may be in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Lingering {
    /// The part.
    pub holding: Vector,
    /// Time after the lease for which it must stay booked.
    pub linger: Span,
    /// The clients of the closed edge whose floors were already released.
    pub released: BTreeSet<Incarnation>,
}

/// Returns the counters of some edges.
pub(super) fn counters(
    open: BTreeMap<Incarnation, Slot>,
) -> impl Iterator<Item = (Incarnation, Counters)> {
    open.into_iter().map(|(child, slot)| (child, slot.counters))
}

/// Returns the maximum times of those edges of which anything may outlive the lease by more than `linger`.
pub(super) fn longer(
    open: &BTreeMap<Incarnation, Slot>,
    linger: Span,
) -> BTreeMap<Incarnation, Span> {
    let times = open.iter().map(|(&child, slot)| (child, slot.linger));
    times.filter(|(_, time)| *time > linger).collect()
}

/// Returns the component-wise sum. Holdings add up to at most a whole, which is far below the maximum. A sum
/// above it would be a bug here, and books too much, never too little.
pub(super) fn added(left: Vector, right: Vector) -> Vector {
    let mut sum = left.to_array();
    for (slot, right) in sum.iter_mut().zip(right.to_array()) {
        *slot = slot.saturating_add(right);
    }
    Vector::from_array(sum)
}
