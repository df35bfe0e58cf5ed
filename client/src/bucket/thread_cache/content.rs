//! The state that a thread finds in its own cache.

use super::ThreadCaches;
use aliquot_core::unit::{Span, Tick};

/// Snapshot of a cache, taken by its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    pub(crate) capacity: u64,
    pub(crate) left: u64,
    /// Number of tokens spent since it was filled.
    pub(crate) spent: u64,
    pub(crate) epoch: u16,
    pub(crate) filled: Tick,
    pub(super) owner: u64,
}

impl Content {
    /// A thread that took longer than this to spend its last tokens loses its cache.
    const SLOW: Span = Span::from_millis(2);

    /// A thread that spends a whole narrow cache within this may have a wide one.
    const FAST: Span = Span::from_nanos(100_000);

    /// Returns true if the thread spends fast enough for a wide cache.
    pub(crate) fn is_fast(&self, now: Tick) -> bool {
        let all = self.left == 0 && self.spent == self.capacity;
        all && self.capacity == ThreadCaches::NARROW && now.since(self.filled) < Self::FAST
    }

    /// Returns true if the thread spends too slowly to have a cache.
    pub(crate) fn is_slow(&self, now: Tick) -> bool {
        self.spent > 0 && now.since(self.filled) > Self::SLOW
    }
}
