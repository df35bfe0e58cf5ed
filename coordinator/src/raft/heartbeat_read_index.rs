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
mod tests {
    use super::*;
    use openraft::metrics::SerdeInstant;
    use openraft::vote::leader_id_std::CommittedLeaderId;
    use openraft::{LogId, ServerState};
    use std::time::Duration;

    fn at(span: u64) -> InstantOf<Types> {
        static ZERO: std::sync::LazyLock<InstantOf<Types>> =
            std::sync::LazyLock::new(InstantOf::<Types>::now);
        *ZERO + Duration::from_millis(span)
    }

    /// Returns the metrics of the leader of term 7: the time of the last call that a quorum answered,
    /// and the term and index of the last committed and the last applied entry.
    fn seen(acked: u64, committed: (u64, u64), applied: (u64, u64)) -> Metrics {
        let id = |(term, index)| Some(LogId::new(CommittedLeaderId::new(term), index));
        let mut metrics = Metrics::new_initial(1);
        metrics.state = ServerState::Leader;
        metrics.current_term = 7;
        metrics.last_quorum_acked = Some(SerdeInstant::new(at(acked)));
        metrics.local_committed = id(committed);
        metrics.last_applied = id(applied);
        metrics
    }

    /// Returns a proof of term 7 that was begun then.
    fn begun(span: u64) -> Proof {
        Proof {
            term: 7,
            begun: at(span),
            heard: None,
        }
    }

    #[test]
    fn a_barrier_begins_when_it_is_asked_for_and_not_before() {
        let before = InstantOf::<Types>::now();
        let begun = Proof::begin(7).begun;
        assert!(before <= begun && begun <= InstantOf::<Types>::now());
    }

    #[test]
    fn a_call_that_was_made_before_says_nothing() {
        let mut proof = begun(100);
        assert_eq!(proof.look(&seen(99, (7, 5), (7, 5))), None);
        assert_eq!(proof.look(&seen(100, (7, 5), (7, 5))), Some(true));
    }

    #[test]
    fn what_was_committed_when_the_quorum_was_heard_must_be_applied() {
        let mut proof = begun(100);
        assert_eq!(proof.look(&seen(100, (7, 5), (7, 4))), None);
        assert_eq!(proof.look(&seen(200, (7, 9), (7, 4))), None);
        assert_eq!(proof.look(&seen(200, (7, 9), (7, 5))), Some(true));
    }

    #[test]
    fn an_entry_of_the_term_itself_must_be_applied() {
        let mut proof = begun(100);
        assert_eq!(proof.look(&seen(100, (6, 5), (6, 5))), None);
        assert_eq!(proof.look(&seen(100, (7, 6), (7, 6))), Some(true));
    }

    #[test]
    fn a_deposed_leader_fails_at_once() {
        let mut proof = begun(100);
        let mut deposed = seen(100, (7, 5), (7, 5));
        deposed.state = ServerState::Follower;
        assert_eq!(proof.look(&deposed), Some(false));
        let mut later = seen(100, (8, 6), (8, 6));
        later.current_term = 8;
        assert_eq!(proof.look(&later), Some(false));
    }
}
