//! Which budgets a report must look at.
//!
//! ```text
//!            asked, given, lapsed           looked at
//!   resting ─────────────────────► touched ───────────► active ──┐ said anew with each
//!      ▲                                                  │ ◄────┘ report
//!      └──────────────────────────────────────────────────┘
//!        nothing is wanted, and nothing will be unless it is touched
//! ```
//!
//! A budget at rest costs nothing: the next report leaves it out, since its parent knows its line.

use crate::unit::{BudgetId, Span, Tick};
use alloc::collections::BTreeSet;

/// The budgets of a client by what there is to do.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Agenda {
    /// Something was asked of it, or changed in it, since it was looked at.
    touched: BTreeSet<BudgetId>,
    /// Budgets whose line may change with time alone. Contains all of `touched`.
    active: BTreeSet<BudgetId>,
    /// Was found to be urgent since the last report.
    urgent: BTreeSet<BudgetId>,
    /// When budgets at rest must be looked at.
    due: BTreeSet<(Tick, BudgetId)>,
    /// When it was looked last: nothing was asked before that and not seen.
    looked: Tick,
    /// When all active ones were looked at last.
    swept: Tick,
}

impl Agenda {
    /// Demand that time alone changes is looked at this often between reports: an estimate
    /// changes with its ticks.
    const SWEEP_EVERY: Span = Span::from_millis(100);

    /// A budget is to be looked at.
    pub(super) fn touch(&mut self, budget: BudgetId) {
        if self.touched.insert(budget) {
            self.active.insert(budget);
        }
    }

    /// A budget is claimed no more; `due` is when it was to be looked at.
    pub(super) fn forget(&mut self, budget: BudgetId, due: Option<Tick>) {
        self.touched.remove(&budget);
        self.active.remove(&budget);
        self.urgent.remove(&budget);
        if let Some(due) = due {
            self.due.remove(&(due, budget));
        }
    }

    /// Another of those that are due at `now`, which is not due any more.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<BudgetId> {
        let &(due, budget) = self.due.first()?;
        (due <= now).then(|| {
            self.due.pop_first();
            budget
        })
    }

    /// A budget at rest, which was to be looked at by `before`, is to be by `then`. When it will be.
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

    /// Returns the budgets to look at between two reports, and the start of the time in which they may have been asked.
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

    /// Returns the budgets that a report at `now` must look at, and the start of the
    /// time in which they may have been asked. Those that do not rest afterwards are to be
    /// [kept](Agenda::keep).
    pub(super) fn take_all(&mut self, now: Tick) -> (Tick, BTreeSet<BudgetId>) {
        let since = self.looked;
        self.looked = since.max(now);
        self.swept = now;
        self.touched.clear();
        self.urgent.clear();
        (since, core::mem::take(&mut self.active))
    }

    /// These do not rest.
    pub(super) fn keep(&mut self, budgets: BTreeSet<BudgetId>) {
        self.active = budgets;
    }

    pub(super) const fn looked(&self) -> Tick {
        self.looked
    }

    pub(super) fn hurry(&mut self, budget: BudgetId) {
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
