//! A barrier for callers that can wait for a heartbeat: a ReadIndex that is confirmed by ordinary
//! heartbeats.
//!
//! A barrier normally costs one call to each voter. A leader that renews leases several times a second
//! can avoid them, because the same voters acknowledge its heartbeats and entries anyway. If a quorum
//! answers a call that was **made after the barrier began**, this proves as much as a call made for the
//! barrier.

use super::outcome::BarrierError;
use super::shared::Shared;
use super::types::{Metrics, Types, index_out};
use crate::timer;
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::type_config::alias::InstantOf;
use std::sync::Arc;

/// Number of heartbeat intervals after which a quorum is asked directly.
const BEATS: u32 = 2;

impl Shared {
    /// Confirms the term as [`Shared::barrier`] does, but within two heartbeats instead of at once. It
    /// costs nothing if a quorum acknowledges those in time.
    pub(super) async fn heartbeat_barrier(self: Arc<Self>, term: u64) -> Result<(), BarrierError> {
        // This watches every change in the core. On the core's own runtime, it wakes no other thread.
        let runtime = self.links.runtime().clone();
        let heard = runtime.spawn(async move { self.confirmed_by_heartbeat(term).await });
        heard.await.unwrap_or(Err(BarrierError::Stopped))
    }

    async fn confirmed_by_heartbeat(&self, term: u64) -> Result<(), BarrierError> {
        let mut metrics = self.core.metrics();
        self.earlier_calls.called(term);
        let mut proof = Proof::begin(term);
        let proven = async {
            loop {
                if let Some(known) = proof.look(&metrics.borrow_and_update()) {
                    return known;
                }
                if metrics.changed().await.is_err() {
                    return false;
                }
            }
        };
        match timer::timeout(self.options.timing.heartbeat * BEATS, proven).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => self.barrier(term).await,
        }
    }
}

/// Proof that this node leads a term. Two steps must be observed in this order:
///
/// ```text
///  begun ──a quorum answers a call made since──► heard(committed) ──that is applied──► proven
/// ```
///
/// An applied entry must be of the term itself. Before that, committed entries of earlier terms may be
/// missing here.
struct Proof {
    term: u64,
    begun: InstantOf<Types>,
    heard: Option<u64>,
}

impl Proof {
    /// Begins a proof now.
    fn begin(term: u64) -> Self {
        Self {
            term,
            begun: InstantOf::<Types>::now(),
            heard: None,
        }
    }

    /// Updates the proof. Returns `None` while it is open, and `Some(false)` if this node does not lead
    /// the term.
    fn look(&mut self, metrics: &Metrics) -> Option<bool> {
        if !metrics.state.is_leader() || metrics.current_term != self.term {
            return Some(false);
        }
        if self.heard.is_none() {
            let acked = metrics.last_quorum_acked.map(|acked| acked.into_inner());
            if acked.is_none_or(|acked| acked < self.begun) {
                return None;
            }
            let committed = metrics.local_committed.as_ref();
            self.heard = committed.map(|id| index_out(id.index));
        }
        let applied = metrics.last_applied.as_ref();
        let applied = applied.filter(|id| id.leader_id.term == self.term);
        let applied = applied.map(|id| index_out(id.index));
        (self.heard.is_some() && applied >= self.heard).then_some(true)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/raft/heartbeat_read_index.rs"]
mod tests;
