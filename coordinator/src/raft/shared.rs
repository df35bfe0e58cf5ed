//! State shared by the parts of Raft on one node: the core, and the connections to peers.

use super::connect::Links;
use super::earlier_calls::EarlierCalls;
use super::halt::Halt;
use super::log::LogStore;
use super::machine::Core;
use super::options::Options;
use super::outcome::{BarrierError, Leader, Outcome, ProposeError};
use super::status::Status;
use super::types::{Order, Types};
use crate::store::Disk;
use aliquot_core::unit::Span;
use aliquot_wire::limits::ENTRY_BYTES_MAX;
use bytes::Bytes;
use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{
    ClientWriteError, ForwardToLeader, LinearizableReadError, RaftError as CoreError,
};
use openraft::impls::OneshotResponder;
use openraft::vote::leader_id_std::CommittedLeaderId;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Mutex, watch};

/// State shared by the parts of Raft on one node.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) core: Core,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) store: LogStore,
    pub(super) links: Arc<Links>,
    pub(super) earlier_calls: Arc<EarlierCalls>,
    /// Index up to which the log is committed, as far as leaders told this node since its start; 0 before.
    pub(super) committed_at_leader: AtomicU64,
    pub(super) status: watch::Receiver<Status>,
    pub(super) coarse_status: watch::Receiver<Status>,
    /// Condition that the bootstrap waits for, while it does.
    pub(super) waiting: watch::Sender<Option<String>>,
    /// Reason why the log ended for good, if it did.
    pub(super) halted: Arc<OnceLock<Halt>>,
    /// Held during a change of members: one change at a time.
    pub(super) changing: Mutex<()>,
}

impl Shared {
    pub(super) fn now(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Proposes a command in any term, or only in `term` if it is given.
    pub(super) async fn propose(
        &self,
        command: Bytes,
        term: Option<u64>,
    ) -> Result<Outcome, ProposeError> {
        if command.len() > ENTRY_BYTES_MAX {
            return Err(ProposeError::TooLarge {
                bytes: command.len(),
                most: ENTRY_BYTES_MAX,
            });
        }
        let (responder, answer) = OneshotResponder::new_pair();
        let mut write = self.core.write(Order(command)).responder(responder);
        if let Some(term) = term {
            write = write.with_leader(CommittedLeaderId::new(term));
        }
        // The core was gone before it took the command.
        write.await.map_err(|_| ProposeError::Stopped)?;
        let answer = answer.await;
        // The core is gone with the command, written or not.
        let answer = answer.map_err(|_| ProposeError::Unknown)?;
        match answer {
            Ok(written) => Ok(written.data.0),
            Err(error) => Err(self.not_proposed(error)),
        }
    }

    /// Maps openraft's refusals. All of them are made before the command is appended, except for a
    /// discarded entry. That one was in this node's log, may be in others, and may be committed there.
    fn not_proposed(&self, error: ClientWriteError<Types>) -> ProposeError {
        match error {
            // This node does not lead, leads another term, is transferring its leadership, or has lost
            // its quorum for so long that it may not write. In the last case no leader is named.
            ClientWriteError::ForwardToLeader(forward) => ProposeError::NotLeader {
                leader: self.forward(forward),
            },
            ClientWriteError::LogEntryDiscarded(_) => ProposeError::Unknown,
            // These refusals apply only to changes of members.
            ClientWriteError::ChangeMembershipError(_)
            | ClientWriteError::PreconditionFailed(_) => ProposeError::NotLeader { leader: None },
        }
    }

    pub(super) fn forward(&self, forward: ForwardToLeader<Types>) -> Option<Leader> {
        let named = forward.leader_id.zip(forward.leader_node);
        let named = named.map(|(node, at)| (node, at.addr));
        let known = || self.now().leader_address();
        named
            .or_else(known)
            .filter(|(node, _)| *node != self.options.node)
    }

    /// Returns the time for which no leader of an earlier term can have confirmed a report.
    pub(super) fn quiet_before(&self, term: u64) -> Option<Span> {
        let metrics = self.core.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let quorums = membership.get_joint_config();
        let leads = metrics.state.is_leader() && metrics.current_term == term;
        let age = || self.earlier_calls.age(self.options.node, term, quorums);
        leads.then(age).flatten()
    }

    /// Confirms that this node leads exactly `term`.
    pub(super) async fn barrier(&self, term: u64) -> Result<(), BarrierError> {
        self.earlier_calls.called(term);
        // ReadIndex asks a quorum after this call began. openraft's lease reads are unsafe across
        // restarts and under clock drift: a voter that was rebooted has forgotten the lease that it
        // granted.
        let read = self.core.ensure_linearizable(ReadPolicy::ReadIndex).await;
        let read = read.map_err(|error| match error {
            CoreError::APIError(LinearizableReadError::ForwardToLeader(forward)) => {
                BarrierError::NotLeader {
                    leader: self.forward(forward),
                }
            }
            CoreError::APIError(LinearizableReadError::QuorumNotEnough(_)) => {
                BarrierError::NoQuorum
            }
            CoreError::Fatal(_) => BarrierError::Stopped,
        })?;
        let confirmed = read.log_id().leader_id.term;
        if confirmed != term {
            return Err(BarrierError::OtherTerm { term: confirmed });
        }
        // Another leader may have come after the quorum answered and before the entries were applied.
        // Then the last applied entry need not be of this term.
        let metrics = self.core.metrics();
        let metrics = metrics.borrow_watched();
        if !metrics.state.is_leader() || metrics.current_term != term {
            return Err(BarrierError::NotLeader { leader: None });
        }
        Ok(())
    }
}
