//! Bounds the work of a node under overload.

use crate::unit::{Span, Tick};

/// Work budget: a token bucket that bounds one kind of work.
///
/// A node under overload must above all keep reading its clients' reports, or it loses them all. So the work
/// spent on plans, and on answers that no report asked for, is bounded. The rest waits.
#[derive(Debug, Hash)]
pub(super) struct WorkBudget {
    /// Time that restores one unit.
    each: Span,
    /// Maximum number of units that may be used at once after a rest.
    most: u64,
    /// Units that were used and are not restored yet.
    spent: u64,
    since: Tick,
}

impl WorkBudget {
    /// Bound on planning, counted in claimants of the planned budgets. One takes a microsecond or more,
    /// including its bookings and answers. The bound is a tenth of a core, whatever the number of clients.
    pub(super) const PLANNING: Self = Self::new(Span::from_nanos(12_000), 4_000);

    /// Bound on answers that no report asked for. Making, sending and reading one takes 30 to 50
    /// microseconds. A client that has to wait for one gets more lines at once.
    pub(super) const ANSWERING: Self = Self::new(Span::from_nanos(200_000), 500);

    const fn new(each: Span, most: u64) -> Self {
        Self {
            each,
            most,
            spent: 0,
            since: Tick::ZERO,
        }
    }

    /// Returns the number of units that may be used at `now`; zero if too many were used lately.
    pub(super) fn left_at(&mut self, now: Tick) -> usize {
        let passed = now.since(self.since).nanos();
        let done = passed.checked_div(self.each.nanos()).unwrap_or_default();
        self.spent = self.spent.saturating_sub(done);
        self.since = self.since.after(self.each.times_or_max(done));
        usize::try_from(self.most.saturating_sub(self.spent)).unwrap_or(usize::MAX)
    }

    /// Uses `done` units. More than are left may be used; the excess is made up for later.
    pub(super) fn spend(&mut self, done: usize) {
        let done = u64::try_from(done).unwrap_or(u64::MAX);
        self.spent = self.spent.saturating_add(done);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/work_budget.rs"]
mod tests;
