//! Room for each kind of change in one round.

use crate::command::Changes;
use crate::planted::{self, Bug};
use alloc::vec::Vec;

/// Room that is left in a round. Each kind of change takes as many as are due and fit. The rest waits for the
/// next round, which follows at once.
///
/// A part is reserved for each kind that comes later, so that no kind waits for ever behind another.
pub(super) struct Room {
    left: usize,
    kept: usize,
    later: usize,
    is_full: bool,
}

impl Room {
    /// A round's size divided by this is reserved for each kind.
    const KEPT: usize = 16;

    /// Returns the room of a round with `items` changes of `kinds` kinds.
    pub(super) fn new(items: usize, kinds: usize) -> Self {
        let items = match planted::is(Bug::RoundUncut) {
            true => usize::MAX,
            false => items,
        };
        Self {
            left: items,
            kept: items.checked_div(Self::KEPT).unwrap_or(0),
            later: kinds,
            is_full: false,
        }
    }

    /// Adds the next kind. `make` gets the maximum number of its changes.
    pub(super) fn take<T>(&mut self, make: impl FnOnce(usize) -> Vec<T>) -> Vec<T> {
        self.later = self.later.saturating_sub(1);
        let most = self
            .left
            .saturating_sub(self.kept.saturating_mul(self.later));
        let taken = make(most);
        self.left = self.left.saturating_sub(taken.len());
        self.is_full |= taken.len() >= most;
        taken
    }

    /// Returns true if some kind may have more changes that are due.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }
}

const _: () = assert!(Changes::ITEMS_MAX / Room::KEPT > Changes::KINDS);
