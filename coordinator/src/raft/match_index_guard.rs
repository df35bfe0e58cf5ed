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
pub(super) struct MatchIndexGuard(Mutex<BTreeMap<u64, (u64, u64)>>);

impl MatchIndexGuard {
    /// Records that a node acknowledged these entries to the leader of the term.
    pub(super) fn acknowledge(&self, node: u64, term: u64, upto: Option<LogId>) {
        let Some(upto) = upto.map(|id| index_out(id.index)) else {
            return;
        };
        let indexes = self.0.lock();
        let mut indexes = indexes.unwrap_or_else(PoisonError::into_inner);
        let known = indexes.entry(node).or_default();
        *known = (*known).max((term, upto));
    }

    /// Returns true if the node lacks an entry that it acknowledged in the same term.
    pub(super) fn lost(&self, node: u64, term: u64, missing: LogId) -> bool {
        let indexes = self.0.lock();
        let indexes = indexes.unwrap_or_else(PoisonError::into_inner);
        let known = indexes.get(&node).copied().unwrap_or_default();
        known.0 == term && index_out(missing.index) <= known.1
    }
}

#[cfg(test)]
#[path = "../../tests/unit/raft/match_index_guard.rs"]
mod tests;
