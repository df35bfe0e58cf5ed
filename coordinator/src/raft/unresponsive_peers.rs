//! Backoff of a leader towards nodes that leave its calls unanswered.

use super::runtime::HostInstant;
use openraft::Instant;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Nodes that leave calls unanswered, and when each may be called.
///
/// Suppose that a leader can send to the others but receives nothing. Its heartbeats would keep them
/// from electing a leader that can commit. Therefore a node that has not answered for some time is
/// called only rarely. The silence in between is long enough for an election:
///
/// ```text
///  answering ──no answer──► silent ──[`AFTER`]──► rarely called: one call in [`EVERY`]
///      ▲                      │                         │
///      └───────answered───────┴─────────answered────────┘
/// ```
///
/// A refused connection changes nothing, since the node then received no heartbeat.
#[derive(Debug)]
pub(super) struct UnresponsivePeers {
    election_max: Duration,
    silent: Mutex<BTreeMap<u64, Silent>>,
}

/// Time since which a node has answered nothing, and time of the last call to it.
#[derive(Clone, Copy, Debug)]
struct Silent {
    since: HostInstant,
    called: HostInstant,
}

impl UnresponsivePeers {
    /// Silence of a node after which it is called rarely, in maximum election timeouts. It is as long as
    /// an ordinary election may take, so that with the default settings a lease outlasts this silence and
    /// an election together.
    const AFTER: u32 = 2;

    /// Interval of calls to such a node, in maximum election timeouts: one until a follower doubts the
    /// leader, one until it becomes a candidate, and one to be elected.
    const EVERY: u32 = 3;

    pub(super) fn new(election_max: Duration) -> Self {
        Self {
            election_max,
            silent: Mutex::default(),
        }
    }

    /// Returns true if the node may be called at `now`, and if so counts the call.
    pub(super) fn may_call(&self, node: u64, now: HostInstant) -> bool {
        let silent = self.silent.lock();
        let mut silent = silent.unwrap_or_else(PoisonError::into_inner);
        let Some(peer) = silent.get_mut(&node) else {
            return true;
        };
        let young = now.saturating_duration_since(peer.since) < self.election_max * Self::AFTER;
        let due = now.saturating_duration_since(peer.called) >= self.election_max * Self::EVERY;
        if young || due {
            peer.called = now;
        }
        young || due
    }

    /// Records that the node answered.
    pub(super) fn answered(&self, node: u64) {
        let silent = self.silent.lock();
        silent.unwrap_or_else(PoisonError::into_inner).remove(&node);
    }

    /// Records that the node did not answer in time, although it may have received the call.
    pub(super) fn unanswered(&self, node: u64, now: HostInstant) {
        let silent = self.silent.lock();
        let mut silent = silent.unwrap_or_else(PoisonError::into_inner);
        silent.entry(node).or_insert(Silent {
            since: now,
            called: now,
        });
    }
}

#[cfg(test)]
#[path = "../../tests/unit/raft/unresponsive_peers.rs"]
mod tests;
