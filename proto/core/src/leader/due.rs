//! Waits, ordered by their end.

use crate::unit::{Span, Tick};
use alloc::collections::{BTreeMap, BTreeSet};

/// A set of things that wait, each from some time on and for some duration.
///
/// State invariant: `order` has the entries of `since` that wait for a finite time.
#[derive(Debug, Hash)]
pub(super) struct Due<K> {
    since: BTreeMap<K, (Tick, Option<Tick>)>,
    order: BTreeSet<(Tick, K)>,
}

impl<K: Ord + Copy> Due<K> {
    /// Starts a wait of more than `wait` at `now`, or for ever if `wait` is `None`. An entry that waits
    /// already keeps its start.
    pub(super) fn wait(&mut self, of: K, now: Tick, wait: Option<Span>) {
        let since = self.remove(of).unwrap_or(now);
        let due = wait.map(|wait| since.after(wait));
        self.since.insert(of, (since, due));
        self.order.extend(due.map(|due| (due, of)));
    }

    /// Ends a wait. Returns its start.
    pub(super) fn remove(&mut self, of: K) -> Option<Tick> {
        let (since, due) = self.since.remove(&of)?;
        if let Some(due) = due {
            self.order.remove(&(due, of));
        }
        Some(since)
    }

    /// Returns the entries whose wait is over, in the order in which they ended.
    pub(super) fn over(&self, now: Tick) -> impl Iterator<Item = K> {
        let over = self.order.iter().take_while(move |(due, _)| *due < now);
        over.map(|&(_, of)| of)
    }

    /// Returns all entries.
    pub(super) fn all(&self) -> impl Iterator<Item = K> {
        self.since.keys().copied()
    }

    /// Returns the entries between two keys, both included.
    pub(super) fn between(&self, from: K, to: K) -> impl Iterator<Item = K> {
        self.since.range(from..=to).map(|(&of, _)| of)
    }
}

impl<K> Default for Due<K> {
    fn default() -> Self {
        Self {
            since: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }
}
