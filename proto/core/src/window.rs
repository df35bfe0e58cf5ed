//! The lines of one direction of an edge that its other end may not know yet.
//!
//! A message holds a bounded number of lines. A line that was sent and is not acknowledged is repeated in
//! every later message. Whichever of the messages arrives therefore has all such lines. Lines beyond the
//! bound wait in a queue:
//!
//! ```text
//!            wait              send               acknowledge
//!   known ─────────► waiting ────────► in the window ──────────► known
//!                       ▲                    │
//!                       └────── requeue ───────┘
//! ```
//!
//! The last quarter of the window is reserved for urgent lines. They never wait behind other lines, and are
//! sent in the order in which they became urgent.

use crate::unit::BudgetId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Priority of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LineUrgency {
    /// Before all others, and whatever the limit: another holder waits for what it returns.
    Owed,
    /// Before all usual lines, and in the reserved room.
    Urgent,
    /// In the order of arrival.
    Usual,
    /// After all others: nothing is wanted, and the other end only lost what it knew.
    Idle,
}

/// The lines to be sent, by budget.
///
/// State invariants: `order` has an entry for each of `waiting`, and no budget is in both `in_flight` and
/// `waiting`.
///
/// Most windows are empty, and there is one for each session. A tree that lost its last entry still has a node, so it is
/// replaced by a new one.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Window {
    in_flight: BTreeSet<BudgetId>,
    waiting: BTreeMap<BudgetId, (LineUrgency, u64)>,
    order: BTreeSet<(LineUrgency, u64, BudgetId)>,
    last: u64,
}

impl Window {
    /// Returns the part of `most` that usual lines may take.
    pub(crate) const fn usual(most: usize) -> usize {
        most.saturating_sub(most / 4)
    }

    /// Returns the number of urgent lines that can be added so that a window of `limit` lines has room for them and
    /// a quarter of it remains.
    pub(crate) fn room(&self, limit: usize) -> usize {
        let urgent = self.order.iter().take(limit);
        let urgent = urgent.take_while(|(urgency, ..)| *urgency < LineUrgency::Usual);
        let taken = self.in_flight.len().saturating_add(urgent.count());
        Self::usual(limit).saturating_sub(taken)
    }

    /// Queues the line of a budget. One that is in the window is sent anyway.
    pub(crate) fn wait(&mut self, budget: BudgetId, urgency: LineUrgency) {
        if self.is_in_flight(budget) {
            return;
        }
        match self.rank(budget) {
            Some((before, _)) if before <= urgency => return,
            Some((before, rank)) => {
                self.order.remove(&(before, rank, budget));
            }
            None => {}
        }
        self.last = self.last.saturating_add(1);
        self.waiting.insert(budget, (urgency, self.last));
        self.order.insert((urgency, self.last, budget));
    }

    /// Returns the budget whose line is next, if a window of `limit` lines has room for it, or one of `most` lines in
    /// the case of [`LineUrgency::Owed`].
    pub(crate) fn next(&self, limit: usize, most: usize) -> Option<(BudgetId, LineUrgency)> {
        if self.waiting.is_empty() {
            return None;
        }
        let &(urgency, _, budget) = self.order.first()?;
        let room = match urgency {
            LineUrgency::Owed => most,
            LineUrgency::Urgent => limit,
            LineUrgency::Usual | LineUrgency::Idle => Self::usual(limit),
        };
        (self.in_flight.len() < room).then_some((budget, urgency))
    }

    /// Moves the line of a budget into the window, where it is sent until it is acknowledged.
    pub(crate) fn send(&mut self, budget: BudgetId) {
        self.leave_queue(budget);
        self.in_flight.insert(budget);
    }

    /// Moves the line of a budget from the window back into the queue.
    pub(crate) fn requeue(&mut self, budget: BudgetId) {
        self.leave_window(budget);
        self.wait(budget, LineUrgency::Usual);
    }

    /// Removes the line of a budget: it is acknowledged, or it is not to be sent any more.
    pub(crate) fn forget(&mut self, budget: BudgetId) {
        self.leave_window(budget);
        self.leave_queue(budget);
    }

    /// Returns the budgets in the window: sent, and not acknowledged.
    pub(crate) fn in_flight(&self) -> Vec<BudgetId> {
        self.in_flight.iter().copied().collect()
    }

    /// Returns the number of lines in the window.
    pub(crate) fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the number of lines in the window and in the queue.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len().saturating_add(self.waiting.len())
    }

    /// Returns true if a line is in the queue.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if the line of a budget is in the queue.
    pub(crate) fn is_waiting(&self, budget: BudgetId) -> bool {
        self.rank(budget).is_some()
    }

    /// Returns true if the line of a budget is in the window or in the queue.
    pub(crate) fn has(&self, budget: BudgetId) -> bool {
        self.is_in_flight(budget) || self.is_waiting(budget)
    }

    fn is_in_flight(&self, budget: BudgetId) -> bool {
        !self.in_flight.is_empty() && self.in_flight.contains(&budget)
    }

    /// Returns the place of a line in the queue.
    fn rank(&self, budget: BudgetId) -> Option<(LineUrgency, u64)> {
        if self.waiting.is_empty() {
            return None;
        }
        self.waiting.get(&budget).copied()
    }

    fn leave_queue(&mut self, budget: BudgetId) {
        if self.waiting.is_empty() {
            return;
        }
        if let Some((urgency, rank)) = self.waiting.remove(&budget) {
            self.order.remove(&(urgency, rank, budget));
        }
        if self.waiting.is_empty() {
            (self.waiting, self.order) = (BTreeMap::new(), BTreeSet::new());
        }
    }

    fn leave_window(&mut self, budget: BudgetId) {
        if self.in_flight.remove(&budget) && self.in_flight.is_empty() {
            self.in_flight = BTreeSet::new();
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/window.rs"]
mod tests;
