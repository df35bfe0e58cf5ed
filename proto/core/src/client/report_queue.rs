//! The budgets that the next report must examine.
//!
//! ```text
//!            asked, given, lapsed           looked at
//!   resting ─────────────────────► touched ───────────► active ──┐ sent with each
//!      ▲                                                  │ ◄────┘ report
//!      └──────────────────────────────────────────────────┘
//!        nothing is wanted, and nothing will be unless it is touched
//! ```
//!
//! A budget at rest costs nothing: the next report leaves it out, since its parent knows its line.

use crate::unit::{BudgetId, Span, Tick};
use alloc::collections::BTreeSet;

/// Queue of a client's budgets, by the work that is due for them.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct ReportQueue {
    /// Budgets that were used or changed since they were examined.
    touched: BTreeSet<BudgetId>,
    /// Budgets whose line may change with time alone. Contains all of `touched`.
    active: BTreeSet<BudgetId>,
    /// Budgets that were found urgent since the last report.
    urgent: BTreeSet<BudgetId>,
    /// Budgets at rest that must be examined at a given time.
    due: BTreeSet<(Tick, BudgetId)>,
    /// Time of the last examination. Every request before it has been seen.
    looked: Tick,
    /// Time at which all active budgets were last examined.
    swept: Tick,
}

impl ReportQueue {
    /// Interval at which active budgets are examined between reports: time alone changes a demand estimate.
    const SWEEP_EVERY: Span = Span::from_millis(100);

    /// Marks a budget to be examined.
    pub(super) fn touch(&mut self, budget: BudgetId) {
        if self.touched.insert(budget) {
            self.active.insert(budget);
        }
    }

    /// Removes a budget whose claim ended. `due` is its entry in `self.due`, if any.
    pub(super) fn forget(&mut self, budget: BudgetId, due: Option<Tick>) {
        self.touched.remove(&budget);
        self.active.remove(&budget);
        self.urgent.remove(&budget);
        if let Some(due) = due {
            self.due.remove(&(due, budget));
        }
    }

    /// Removes and returns one budget that is due at `now`.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<BudgetId> {
        let &(due, budget) = self.due.first()?;
        (due <= now).then(|| {
            self.due.pop_first();
            budget
        })
    }

    /// Schedules a budget at rest for `then`, unless it is scheduled earlier. `before` is its present entry.
    /// Returns its entry afterwards.
    pub(super) fn put_off(
        &mut self,
        budget: BudgetId,
        before: Option<Tick>,
        then: Option<Tick>,
    ) -> Option<Tick> {
        let Some(then) = then else { return before };
        match before {
            Some(before) if before <= then => return Some(before),
            Some(before) => {
                self.due.remove(&(before, budget));
            }
            None => {}
        }
        self.due.insert((then, budget));
        Some(then)
    }

    /// Returns the budgets to examine between two reports, and the time since which they may have been used.
    pub(super) fn take_some(&mut self, now: Tick) -> (Tick, BTreeSet<BudgetId>) {
        let since = self.looked;
        self.looked = since.max(now);
        let touched = core::mem::take(&mut self.touched);
        if now.since(self.swept) < Self::SWEEP_EVERY {
            return (since, touched);
        }
        self.swept = now;
        (since, self.active.clone())
    }

    /// Returns the budgets that a report at `now` must examine, and the time since which they may have been
    /// used. The caller [keeps](ReportQueue::keep) those that do not rest afterwards.
    pub(super) fn take_all(&mut self, now: Tick) -> (Tick, BTreeSet<BudgetId>) {
        let since = self.looked;
        self.looked = since.max(now);
        self.swept = now;
        self.touched.clear();
        self.urgent.clear();
        (since, core::mem::take(&mut self.active))
    }

    /// Sets the active budgets to those that do not rest.
    pub(super) fn keep(&mut self, budgets: BTreeSet<BudgetId>) {
        self.active = budgets;
    }

    pub(super) const fn looked(&self) -> Tick {
        self.looked
    }

    pub(super) fn mark_urgent(&mut self, budget: BudgetId) {
        self.urgent.insert(budget);
    }

    pub(super) fn first_urgent(&self) -> Option<BudgetId> {
        self.urgent.first().copied()
    }

    pub(super) fn calm(&mut self, budget: BudgetId) {
        self.urgent.remove(&budget);
    }

    /// Returns the number of entries, for tests.
    pub(super) fn len(&self) -> usize {
        let sets = [&self.touched, &self.active, &self.urgent].map(BTreeSet::len);
        sets.iter()
            .fold(self.due.len(), |sum, len| sum.saturating_add(*len))
    }
}
