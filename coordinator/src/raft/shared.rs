//! What the parts of a node's protocol share: the core, and how to reach peers.

use super::connect::Links;
use super::log::LogStore;
use super::options::Options;
use super::outcome::{BarrierError, Leader, Outcome, ProposeError};
use super::skip::Halt;
use super::status::Status;
use super::types::{Core, Order, Types};
use crate::store::Disk;
use aliquot_wire::limits::ENTRY_BYTES_MAX;
use bytes::Bytes;
use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{
    ClientWriteError, ForwardToLeader, LinearizableReadError, RaftError as CoreError,
};
use openraft::impls::OneshotResponder;
use openraft::vote::leader_id_std::CommittedLeaderId;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Mutex, watch};

/// What the parts of a node's protocol share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) core: Core,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) store: LogStore,
    pub(super) links: Arc<Links>,
    pub(super) status: watch::Receiver<Status>,
    pub(super) standing: watch::Receiver<Status>,
    /// What forming waits for, while it does.
    pub(super) waiting: watch::Sender<Option<String>>,
    /// Why the log ended for good, if it did.
    pub(super) halted: Arc<OnceLock<Halt>>,
    /// Held by whoever changes the members: one change at a time.
    pub(super) changing: Mutex<()>,
}

impl Shared {
    pub(super) fn now(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Proposes, in any term or in exactly the one that is named.
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
        // The core was gone before it could take the command.
        write.await.map_err(|_| ProposeError::Stopped)?;
        let answer = answer.await;
        // The core went away with the command, written or not.
        let answer = answer.map_err(|_| ProposeError::Unknown)?;
        match answer {
            Ok(written) => Ok(written.data.0),
            Err(error) => Err(self.not_proposed(error)),
        }
    }

    /// Which of the core's refusals are certain: those that it makes before it
    /// appends, which are all but a discarded entry. One of those was in the
    /// log of this node, may be in others, and may be committed there.
    fn not_proposed(&self, error: ClientWriteError<Types>) -> ProposeError {
        match error {
            // Not the leader, no longer in that term, handing over, or cut off
            // from a quorum for so long that it may not write; the last names
            // no leader.
            ClientWriteError::ForwardToLeader(forward) => ProposeError::NotLeader {
                leader: self.forward(forward),
            },
            ClientWriteError::LogEntryDiscarded(_) => ProposeError::Unknown,
            // Only changes of the members are refused in these ways.
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

    /// Makes sure that this node leads exactly `term`.
    pub(super) async fn barrier(&self, term: u64) -> Result<(), BarrierError> {
        // ReadIndex asks a quorum after this call began. The library's lease
        // reads are unsafe across restarts and under drift: a voter that was
        // rebooted has forgotten the lease that it gave.
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
        // Between the quorum's word and the applying, another leader may have
        // come: then what was applied need not be this term's entry.
        let metrics = self.core.metrics();
        let metrics = metrics.borrow_watched();
        if !metrics.state.is_leader() || metrics.current_term != term {
            return Err(BarrierError::NotLeader { leader: None });
        }
        Ok(())
    }
}
