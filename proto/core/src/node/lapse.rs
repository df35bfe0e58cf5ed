//! The end of the node's lease: everything that is not granted to a client is given back, some of it at a time.

use super::{Node, Returning};
use crate::unit::{BudgetId, Incarnation, Tick};
use alloc::vec::Vec;

impl Node {
    /// Maximum number of budgets whose ungranted parts are given back at once. One takes about two microseconds. If this
    /// node leads, renewals of other nodes' leases wait meanwhile.
    const RETURNED_AT_ONCE: usize = 1_000;

    /// Closes all sessions and begins to return everything but floors and permits in flight.
    pub(super) fn lapse(&mut self, now: Tick) {
        let sessions: Vec<Incarnation> = self.sessions.keys().copied().collect();
        for client in sessions {
            self.close_session(client);
        }
        self.return_ungranted(now);
    }

    /// Begins to return all ungranted parts, with the tokens that they made until the lease ended. Those of the first
    /// budgets are returned at once, and of the others with [`Node::free_some`].
    pub(super) fn return_ungranted(&mut self, now: Tick) {
        self.returning = Some(Returning {
            until: self.holder.lease().until().min(now),
            next: BudgetId::default(),
        });
        self.free_some(now);
    }

    /// Frees some of what closed sessions held. Once nothing of them is left, goes on to return what is not granted.
    pub(super) fn free_some(&mut self, now: Tick) {
        let until = self.returning.map_or(now, |returning| returning.until);
        self.free_closed(Self::FREED_AT_ONCE, until);
        let Some(returning) = self.returning else {
            return;
        };
        if self.is_leased(now) && !self.holder.is_leaving() {
            // It has a lease again, and deals out what it still has.
            self.returning = None;
            return;
        }
        if self.ledger.has_to_sweep() {
            return;
        }
        let rest = self.budgets.entries_from(&returning.next);
        let rest = rest.map(|(&budget, _)| budget);
        let one_more = Self::RETURNED_AT_ONCE.saturating_add(1);
        let mut some: Vec<BudgetId> = rest.take(one_more).collect();
        let next = some.get(Self::RETURNED_AT_ONCE).copied();
        some.truncate(Self::RETURNED_AT_ONCE);
        self.returning = next.map(|next| Returning { next, ..returning });
        for budget in some {
            self.report_spent(budget);
            let all = self.holder.holding(budget);
            self.give_back(budget, all, returning.until);
        }
    }

    /// Returns true if [`Node::free_some`] has something to do.
    pub(super) fn has_to_free(&self) -> bool {
        self.ledger.has_to_sweep() || self.returning.is_some()
    }
}
