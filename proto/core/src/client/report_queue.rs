//! The budgets that the next report must examine.
//!
//! ```text
//!            claimed, asked           a report has room
//!   unnamed ────────────────► fresh ───────────────────► looked at, and named
//!
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
//!
//! A budget that no report of the present edge has named is fresh once it is claimed or used. It needs a line of its
//! own, so it is examined only when a report has room for that line. Otherwise a client that begins with ten thousand
//! budgets, or has changed its node, would examine all of them for each report of a few hundred lines. Fresh budgets
//! are named in the order in which they came.

use crate::unit::{BudgetId, Span, Tick};
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Records whether a report of the present edge has named a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Naming {
    /// None has, and it is not in the queue.
    #[default]
    Unnamed,
    /// None has. The budget is fresh: this is its place in the order.
    Fresh(u64),
    /// One has, or will have with the next report.
    Named,
}

/// A budget to examine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Look {
    pub(super) budget: BudgetId,
    /// Time since which it may have been used. Every request before it has been seen.
    pub(super) since: Tick,
}

/// Queue of a client's budgets, by the work that is due for them.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct ReportQueue {
    /// Budgets that were used or changed since they were examined, each with the time since which it may have been
    /// used.
    touched: BTreeMap<BudgetId, Tick>,
    /// Budgets that wait until a report has room to name them, in the order in which they came.
    fresh: BTreeMap<u64, Look>,
    /// Number of budgets that were ever fresh.
    arrivals: u64,
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

    /// Marks a budget that was used or changed: it is examined with the next look, or as soon as a report has room
    /// to name it.
    pub(super) fn touch(&mut self, budget: BudgetId, naming: &mut Naming) {
        match naming {
            Naming::Named => self.mark(budget, self.looked),
            Naming::Fresh(_) => {}
            Naming::Unnamed => {
                let since = self.looked;
                self.arrivals = self.arrivals.saturating_add(1);
                self.fresh.insert(self.arrivals, Look { budget, since });
                *naming = Naming::Fresh(self.arrivals);
            }
        }
    }

    /// Marks a budget that the parent named. It waits no longer until a report has room for it.
    pub(super) fn touch_named(&mut self, budget: BudgetId, naming: &mut Naming) {
        let fresh = match core::mem::replace(naming, Naming::Named) {
            Naming::Fresh(place) => self.fresh.remove(&place),
            Naming::Unnamed | Naming::Named => None,
        };
        self.mark(budget, fresh.map_or(self.looked, |look| look.since));
    }

    fn mark(&mut self, budget: BudgetId, since: Tick) {
        if let Entry::Vacant(entry) = self.touched.entry(budget) {
            entry.insert(since);
            self.active.insert(budget);
        }
    }

    /// Returns true if the next report or sweep examines a budget.
    pub(super) fn is_active(&self, budget: BudgetId) -> bool {
        self.active.contains(&budget)
    }

    /// Has the next report and the next sweep examine a budget that was not used. One that is fresh is examined in its
    /// turn.
    pub(super) fn wake(&mut self, budget: BudgetId, naming: Naming) {
        if !matches!(naming, Naming::Fresh(_)) {
            self.active.insert(budget);
        }
    }

    /// Returns true if a budget waits until a report has room to name it.
    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Removes and returns the budget that has been fresh for longest.
    pub(super) fn take_fresh(&mut self) -> Option<Look> {
        // An empty tree may still have a node, which is not read.
        if self.fresh.is_empty() {
            return None;
        }
        let (_, look) = self.fresh.pop_first()?;
        self.count(1);
        Some(look)
    }

    /// Records that a budget was examined for a report, which names it.
    pub(super) fn name(&mut self, naming: &mut Naming) {
        if let Naming::Fresh(place) = core::mem::replace(naming, Naming::Named) {
            self.fresh.remove(&place);
        }
    }

    /// Removes all marks of used and changed budgets: no report of the next edge has named any.
    pub(super) fn begin_edge(&mut self) {
        (self.touched, self.active, self.urgent) = Default::default();
    }

    /// Removes a budget whose claim ended. `due` is its entry in `self.due`, if any.
    pub(super) fn forget(&mut self, budget: BudgetId, naming: Naming, due: Option<Tick>) {
        if let Naming::Fresh(place) = naming {
            self.fresh.remove(&place);
        }
        self.touched.remove(&budget);
        self.active.remove(&budget);
        self.urgent.remove(&budget);
        if let Some(due) = due {
            self.due.remove(&(due, budget));
        }
    }

    /// Returns true if a report at `now` examines any budget.
    pub(super) fn has_due(&self, now: Tick) -> bool {
        let is_due = |&(due, _): &(Tick, BudgetId)| due <= now;
        !self.active.is_empty() || self.due.first().is_some_and(is_due)
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

    /// Returns the budgets to examine between two reports.
    pub(super) fn take_some(&mut self, now: Tick) -> Vec<Look> {
        self.looked = self.looked.max(now);
        let touched = core::mem::take(&mut self.touched);
        let looks = match self.sweeps(now) {
            false => {
                let look = |(budget, since)| Look { budget, since };
                touched.into_iter().map(look).collect()
            }
            true => {
                self.swept = now;
                self.all_active(&touched)
            }
        };
        self.count(looks.len());
        looks
    }

    /// Returns the budgets that a report at `now` must examine, except the fresh ones. The caller
    /// [keeps](ReportQueue::keep) those that remain active.
    pub(super) fn take_all(&mut self, now: Tick) -> Vec<Look> {
        self.looked = self.looked.max(now);
        self.swept = now;
        let touched = core::mem::take(&mut self.touched);
        self.urgent.clear();
        let looks = self.all_active(&touched);
        self.active.clear();
        self.count(looks.len());
        looks
    }

    /// Returns the active budgets. One that was not touched may have been used at any time since it was examined.
    fn all_active(&self, touched: &BTreeMap<BudgetId, Tick>) -> Vec<Look> {
        let look = |&budget: &BudgetId| {
            let since = touched.get(&budget).copied().unwrap_or(Tick::ZERO);
            Look { budget, since }
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
        if self.urgent.is_empty() {
            return None;
        }
        self.urgent.first().copied()
    }

    pub(super) fn calm(&mut self, budget: BudgetId) {
        self.urgent.remove(&budget);
    }

    /// Returns the number of entries, for tests.
    pub(super) fn len(&self) -> usize {
        let queues = [
            self.touched.len(),
            self.fresh.len(),
            self.active.len(),
            self.urgent.len(),
            self.due.len(),
        ];
        queues.into_iter().fold(0, usize::saturating_add)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/client/report_queue.rs"]
mod tests;
