//! The parts of a book that most books do not have.

use super::Lingering;
use crate::edge::Vector;
use crate::unit::{Incarnation, PeriodId, Span, Tokens};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

/// The parts that only books of quotas have, or those with closed edges or with many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rare {
    /// The running period of a quota.
    pub(super) period: PeriodId,
    /// The spent tokens of a quota in this period.
    pub(super) spent: Tokens,
    /// Maximum time for which anything of an open edge may outlive its lease, where it is not the book's: of edges that
    /// were open when the book's became shorter.
    pub(super) linger: BTreeMap<Incarnation, Span>,
    /// Booked rests of closed edges.
    pub(super) kept: BTreeMap<Incarnation, Lingering>,
    /// The sum that all edges hold, of a book that stores it.
    pub(super) held: Option<Box<Vector>>,
}

static NONE: Rare = Rare {
    period: PeriodId::new(0),
    spent: Tokens::ZERO,
    linger: BTreeMap::new(),
    kept: BTreeMap::new(),
    held: None,
};

/// The rare parts in less memory: a book is kept for every key.
///
/// State invariant: nothing is boxed if all of it is as in an empty book, so equal books are packed alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PackedRare(Option<Box<Rare>>);

impl PackedRare {
    /// The packed form of an empty book.
    pub(super) const NONE: Self = Self(None);

    /// Returns the parts.
    pub(super) fn get(&self) -> &Rare {
        self.0.as_deref().unwrap_or(&NONE)
    }

    /// Changes the parts. Returns the result of `change`.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut Rare) -> T) -> T {
        let mut rare = self.0.take().unwrap_or_default();
        let result = change(&mut rare);
        self.0 = (*rare != NONE).then_some(rare);
        result
    }
}

impl From<Rare> for PackedRare {
    fn from(rare: Rare) -> Self {
        Self((rare != NONE).then(|| Box::new(rare)))
    }
}
