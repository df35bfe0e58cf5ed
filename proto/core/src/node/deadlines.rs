//! Deadlines of sessions, ordered by time, so that a check costs only as much as the entries that are due.

use crate::unit::{BudgetId, Incarnation, Tick};
use alloc::collections::BTreeSet;

/// Deadlines of sessions and of what closed sessions leave behind.
#[derive(Debug, Default, Hash)]
pub(super) struct Deadlines {
    /// Sessions that had a lease, by the end of the last one.
    leased: BTreeSet<(Tick, Incarnation)>,
    /// Sessions without a lease so far, by the time at which they were opened.
    fresh: BTreeSet<(Tick, Incarnation)>,
    /// Booked rests of closed sessions, by the end of their wait.
    kept: BTreeSet<(Tick, BudgetId, Incarnation)>,
}

impl Deadlines {
    pub(super) fn begin(&mut self, client: Incarnation, opened: Tick) {
        self.fresh.insert((opened, client));
    }

    /// Moves a session's deadline to `to`. `from` is the former one: the end of its last lease, or its
    /// opening.
    pub(super) fn renew(&mut self, client: Incarnation, from: Tick, to: Tick) {
        if !self.leased.remove(&(from, client)) {
            self.fresh.remove(&(from, client));
        }
        self.leased.insert((to, client));
    }

    /// Returns true if the last lease of a session ends at `promised`.
    pub(super) fn has(&self, promised: Tick, client: Incarnation) -> bool {
        self.leased.contains(&(promised, client))
    }

    /// Removes a session. `promised` is the end of its last lease, or its opening.
    pub(super) fn end(&mut self, client: Incarnation, promised: Tick) {
        self.leased.remove(&(promised, client));
        self.fresh.remove(&(promised, client));
    }

    pub(super) fn keep(&mut self, budget: BudgetId, client: Incarnation, until: Tick) {
        self.kept.insert((until, budget, client));
    }

    /// Returns the sessions whose leases are all over at `now`, each with the end of its last one.
    pub(super) fn over(&self, now: Tick) -> impl Iterator<Item = (Tick, Incarnation)> + Clone {
        let over = self
            .leased
            .iter()
            .take_while(move |(until, _)| *until <= now);
        over.copied()
    }

    /// Returns the sessions without a lease whose opening time satisfies `then`.
    pub(super) fn idle(&self, then: impl Fn(Tick) -> bool) -> BTreeSet<Incarnation> {
        let idle = self.fresh.iter().take_while(|(opened, _)| then(*opened));
        idle.map(|&(_, client)| client).collect()
    }

    /// Removes and returns the rests whose wait ended before `now`.
    pub(super) fn take_kept(&mut self, now: Tick) -> BTreeSet<(BudgetId, Incarnation)> {
        let mut over = BTreeSet::new();
        while let Some(&(until, budget, client)) = self.kept.first() {
            if until >= now {
                break;
            }
            self.kept.pop_first();
            over.insert((budget, client));
        }
        over
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/deadlines.rs"]
mod tests;
