//! Highest acknowledged index of each follower, to detect a lost log.

use super::types::{LogId, index_out};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Highest index that each node has acknowledged, with the term in which this node leads.
///
/// An entry that a follower acknowledged in a term cannot be missing from its log later in that term,
/// unless its disk was lost or an old backup was restored under the same id. Such a node must not count
/// any more. openraft would stop the leader, or lead on without a warning.
#[derive(Debug, Default)]
pub(super) struct Reached(Mutex<BTreeMap<u64, (u64, u64)>>);

impl Reached {
    /// Records that a node acknowledged these entries to the leader of the term.
    pub(super) fn acknowledge(&self, node: u64, term: u64, upto: Option<LogId>) {
        let Some(upto) = upto.map(|id| index_out(id.index)) else {
            return;
        };
        let reached = self.0.lock();
        let mut reached = reached.unwrap_or_else(PoisonError::into_inner);
        let known = reached.entry(node).or_default();
        *known = (*known).max((term, upto));
    }

    /// Returns true if the node lacks an entry that it acknowledged in the same term.
    pub(super) fn lost(&self, node: u64, term: u64, missing: LogId) -> bool {
        let reached = self.0.lock();
        let reached = reached.unwrap_or_else(PoisonError::into_inner);
        let known = reached.get(&node).copied().unwrap_or_default();
        known.0 == term && index_out(missing.index) <= known.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_in_the_same_term_is_lost_if_it_is_missing() {
        let (reached, id) = (Reached::default(), |index| LogId::new_term_index(1, index));
        assert!(!reached.lost(2, 3, id(0)));
        reached.acknowledge(2, 3, Some(id(5)));
        reached.acknowledge(2, 3, Some(id(4)));
        reached.acknowledge(2, 3, None);
        assert!(reached.lost(2, 3, id(5)) && reached.lost(2, 3, id(0)));
        assert!(!reached.lost(2, 3, id(6)));
        // Another leader may have truncated entries that were never committed.
        assert!(!reached.lost(2, 4, id(5)) && !reached.lost(1, 3, id(5)));
        reached.acknowledge(2, 4, Some(id(2)));
        assert!(reached.lost(2, 4, id(2)) && !reached.lost(2, 4, id(3)));
    }
}
