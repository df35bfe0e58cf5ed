//! What a thread finds in a purse of its own.

use super::Purses;
use aliquot_core::unit::{Span, Tick};

/// What is in a purse that the asking thread owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    pub(crate) capacity: u64,
    pub(crate) left: u64,
    /// What was spent since it was filled.
    pub(crate) spent: u64,
    pub(crate) epoch: u16,
    pub(crate) filled: Tick,
    pub(super) owner: u64,
}

impl Content {
    /// A thread that took longer than this for the last ones holds none of its own.
    const SLOW: Span = Span::from_millis(2);

    /// One that took no longer for all of a narrow purse may hold a wide one.
    const FAST: Span = Span::from_nanos(100_000);

    /// Whether its thread spends so fast that more are worth it.
    pub(crate) fn is_fast(&self, now: Tick) -> bool {
        let all = self.left == 0 && self.spent == self.capacity;
        all && self.capacity == Purses::NARROW && now.since(self.filled) < Self::FAST
    }

    /// Whether its thread spends too seldom to hold any.
    pub(crate) fn is_slow(&self, now: Tick) -> bool {
        self.spent > 0 && now.since(self.filled) > Self::SLOW
    }
}
