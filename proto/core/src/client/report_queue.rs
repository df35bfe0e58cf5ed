//! The budgets that the next report must examine.
//!
//! ```text
//!                       asked, given, lapsed           looked at
//!   resting, cooling ─────────────────────► touched ───────────► active ──┐ a caller waits,
//!      ▲        │ due                                           ▲  │ ◄────┘ or something is owed
//!      │        └───────────────────────────────────────────────┘  │
//!      └───────────────────────────────────────────────────────────┘
//!        nothing is wanted, or less and less, unless it is touched
//! ```
//!
//! A budget at rest costs nothing: the next report leaves it out, since its parent knows its line. A budget whose
//! last demand is over cools: its estimate falls, ever more slowly, and so it is examined ever more rarely.

use crate::unit::{BudgetId, Span, Tick};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Queue of a client's budgets, by the work that is due for them.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct ReportQueue {
    /// Budgets that were used or changed since they were examined.
    touched: BTreeSet<BudgetId>,
    /// Budgets that every report and every sweep examine. Contains all of `touched`.
    active: BTreeSet<BudgetId>,
    /// Budgets that were found urgent since the last report.
    urgent: BTreeSet<BudgetId>,
    /// Budgets that must be examined at a given time even if they are not touched.
    due: BTreeSet<(Tick, BudgetId)>,
    /// Time of the last examination. Every request before it has been seen.
    looked: Tick,
    /// Time at which all active budgets were last examined.
    swept: Tick,
    /// Number of examinations, for tests that bound the work.
    #[cfg(test)]
    pub(super) examined: usize,
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

    /// Has the next report and the next sweep examine a budget that was not used.
    pub(super) fn wake(&mut self, budget: BudgetId) {
        self.active.insert(budget);
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

    /// Schedules a budget that is not active for `then`, unless it is scheduled earlier. `before` is its present entry.
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

    /// Returns true if the next look examines all active budgets.
    pub(super) fn sweeps(&self, now: Tick) -> bool {
        now.since(self.swept) >= Self::SWEEP_EVERY
    }

    /// Returns the budgets to examine between two reports, each with the time since which it may have been
    /// used.
    pub(super) fn take_some(&mut self, now: Tick) -> Vec<(BudgetId, Tick)> {
        let since = self.looked;
        self.looked = since.max(now);
        let touched = core::mem::take(&mut self.touched);
        let looks = match self.sweeps(now) {
            false => touched.into_iter().map(|budget| (budget, since)).collect(),
            true => {
                self.swept = now;
                self.active_since(&touched, since)
            }
        };
        self.count(looks.len());
        looks
    }

    /// Returns the budgets that a report at `now` must examine, each with the time since which it may have been
    /// used. The caller [keeps](ReportQueue::keep) those that remain active.
    pub(super) fn take_all(&mut self, now: Tick) -> Vec<(BudgetId, Tick)> {
        let since = self.looked;
        self.looked = since.max(now);
        self.swept = now;
        let touched = core::mem::take(&mut self.touched);
        self.urgent.clear();
        let looks = self.active_since(&touched, since);
        self.active.clear();
        self.count(looks.len());
        looks
    }

    /// Returns the active budgets. One that was not touched may have been used at any time since it was examined.
    fn active_since(&self, touched: &BTreeSet<BudgetId>, since: Tick) -> Vec<(BudgetId, Tick)> {
        let look = |&budget: &BudgetId| match touched.contains(&budget) {
            true => (budget, since),
            false => (budget, Tick::ZERO),
        };
        self.active.iter().map(look).collect()
    }

    /// Counts examinations, in tests alone.
    #[cfg(test)]
    const fn count(&mut self, looks: usize) {
        self.examined = self.examined.saturating_add(looks);
    }

    #[cfg(not(test))]
    const fn count(&mut self, _: usize) {}

    /// Sets the active budgets.
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
