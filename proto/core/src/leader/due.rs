//! Waits in the order in which they end.

use crate::unit::{Span, Tick};
use alloc::collections::{BTreeMap, BTreeSet};

/// Things that wait, each since some instant and for some time.
///
/// State invariant: `order` holds what `since` does, but for what waits for ever.
#[derive(Debug, Hash)]
pub(super) struct Due<K> {
    since: BTreeMap<K, (Tick, Option<Tick>)>,
    order: BTreeSet<(Tick, K)>,
}

impl<K: Ord + Copy> Due<K> {
    /// Has something wait from `now` on, or go on as long as it has waited already, for more
    /// than `wait` in all: for ever, if there is none.
    pub(super) fn wait(&mut self, of: K, now: Tick, wait: Option<Span>) {
        let since = self.remove(of).unwrap_or(now);
        let due = wait.map(|wait| since.after(wait));
        self.since.insert(of, (since, due));
        self.order.extend(due.map(|due| (due, of)));
    }

    /// It waits no longer. Since when it had.
    pub(super) fn remove(&mut self, of: K) -> Option<Tick> {
        let (since, due) = self.since.remove(&of)?;
        if let Some(due) = due {
            self.order.remove(&(due, of));
        }
        Some(since)
    }

    /// Those that have waited for more than their time, the longest first.
    pub(super) fn over(&self, now: Tick) -> impl Iterator<Item = K> {
        let over = self.order.iter().take_while(move |(due, _)| *due < now);
        over.map(|&(_, of)| of)
    }

    /// All that wait.
    pub(super) fn all(&self) -> impl Iterator<Item = K> {
        self.since.keys().copied()
    }

    /// Those from one name to another.
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
