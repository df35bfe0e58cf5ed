//! What a book knows of one edge.

use crate::edge::{Counters, Vector};
use crate::unit::{Incarnation, Span};
use alloc::collections::BTreeSet;

/// One open edge in the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slot {
    /// The edge's counters.
    pub counters: Counters,
    /// The longest that anything of this edge may outlive its lease: the
    /// greatest maximum hold, or `forget_after`, that was in force while it lived.
    pub linger: Span,
}

/// What stays booked of a closed edge: floors, and permits that may be in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Kept {
    /// How much.
    pub holding: Vector,
    /// How long after the lease it must stay booked.
    pub linger: Span,
    /// The clients of the closed edge whose floors were already released.
    pub released: BTreeSet<Incarnation>,
}

/// Component-wise sum. Holdings add up to at most a whole, which is far below
/// the range; a sum that left it would be our bug, and books too much, never too little.
pub(super) fn added(left: Vector, right: Vector) -> Vector {
    let mut sum = left.to_array();
    for (slot, right) in sum.iter_mut().zip(right.to_array()) {
        *slot = slot.saturating_add(right);
    }
    Vector::from_array(sum)
}
