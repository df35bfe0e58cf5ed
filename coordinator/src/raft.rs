//! The replicated log: leadership, committed entries and membership.
//!
//! [`Raft`] is this node's member of the Raft group. A [`Machine`] applies the log, a [`Disk`] stores
//! it, and a [`Connector`] connects nodes to each other. The openraft library is hidden behind this
//! module, and nothing here is generic, so that it is compiled once.
//!
//! Log indices count from 1. 0 means that there is none.

mod bootstrap;
mod calls;
mod connect;
mod earlier_calls;
mod halt;
mod heartbeat_read_index;
mod log;
mod machine;
mod match_index_guard;
mod members;
mod network;
mod options;
mod outcome;
mod peer;
mod runtime;
mod service;
mod shared;
mod skip;
mod snapshot;
mod status;
mod types;
mod unresponsive_peers;

#[cfg(test)]
#[path = "../tests/unit/raft/conformance.rs"]
mod conformance;

pub use aliquot_wire::peer::{Change, PeerAddress};
pub use connect::{ConnectError, Connector, TcpConnector, endpoint, server};
pub(crate) use connect::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
pub use halt::Halt;
pub use machine::{Committed, Encode, Machine, MachineError};
pub use options::{CHANGE_WITHIN, Options, Timing};
pub use outcome::{BarrierError, ChangeError, Leader, Outcome, ProposeError, RaftError};
pub use skip::{Skips, checksum};
pub use status::Status;

use crate::store::Disk;
use crate::timer;
use aliquot_core::unit::Span;
use aliquot_wire::limits::APPEND_BYTES_MAX;
use aliquot_wire::pb::peer_server::PeerServer;
use aliquot_wire::pb::raft_server::RaftServer;
use aliquot_wire::peer::{Changed, Proposed};
use bytes::Bytes;
use connect::Links;
use earlier_calls::EarlierCalls;
use futures_util::future::BoxFuture;
use log::LogStore;
use machine::{Applier, Core, Skipping};
use network::Network;
use peer::{PeerError, PeerService, address_in};
use service::RaftService;
use shared::Shared;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tonic::service::Routes;
use tonic::transport::Channel;

/// This node's member of the Raft group. Clones share it.
///
/// The futures returned by its methods do nothing until they are polled. If one is dropped before it is
/// done, the fate of its request is unknown.
#[derive(Clone, Debug)]
pub struct Raft {
    shared: Arc<Shared>,
}

/// Maximum number of leaders that are asked for a change of members. A leader that is removed or
/// deposed names its successor, which is asked next.
const LEADERS_MAX: usize = 4;

/// Pause before a command that found no leader is proposed again.
const RETRY: Duration = Duration::from_millis(50);

impl Raft {
    /// Opens the log and takes part in Raft from now on. Then mount [`Raft::service`], and wait for
    /// [`Raft::form`].
    ///
    /// # Errors
    ///
    /// [`RaftError`] if a setting is not allowed, or if the disk or the machine fails.
    pub async fn start(
        options: Options,
        disk: Arc<dyn Disk>,
        machine: Box<dyn Machine>,
        connector: Arc<dyn Connector>,
    ) -> Result<Self, RaftError> {
        options.check()?;
        let config = Arc::new(options.config()?);
        let store = LogStore::open(Arc::clone(&disk)).await.map_err(storage)?;
        // The core publishes nothing about its log before it runs. If this node answered "not formed"
        // meanwhile, it could help to form a second cluster.
        let was_formed = store.formed().map_err(storage)?;
        let earlier_calls = Arc::new(EarlierCalls::new(options.log_version));
        let links = Arc::new(Links::new(connector));
        let network = Network {
            cluster: options.cluster.clone(),
            node: options.node,
            links: Arc::clone(&links),
            match_index_guard: Arc::default(),
            earlier_calls: Arc::clone(&earlier_calls),
            unresponsive: Arc::new(unresponsive_peers::UnresponsivePeers::new(
                options.timing.election_max,
            )),
        };
        let halted = Arc::new(OnceLock::new());
        let skipping = Skipping {
            skips: options.skips.clone(),
            readable: options.readable,
            halted: Arc::clone(&halted),
        };
        let applier = Applier::new(machine, Arc::clone(&disk), skipping);
        let core = Core::new(options.node, config, network, store.clone(), applier);
        let core = core.await.map_err(|error| match halted.get() {
            Some(halt) => RaftError::Halted(halt.clone()),
            None => storage(error),
        })?;
        let first = Status {
            node: options.node,
            formed: was_formed,
            ..Status::default()
        };
        let receivers = status::follow(core.metrics(), first);
        let shared = Shared {
            options,
            core,
            disk,
            store,
            links,
            earlier_calls,
            committed_at_leader: AtomicU64::new(0),
            status: receivers.status,
            coarse_status: receivers.coarse_status,
            waiting: watch::Sender::new(None),
            halted,
            changing: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns a separate connection to the leader's peer port, if another node leads and its address
    /// is known.
    #[must_use]
    pub fn leader(&self) -> Option<Channel> {
        let (leader, address) = self.shared.status.borrow().leader_address()?;
        let other = leader != self.shared.options.node;
        let channel = other.then(|| self.shared.links.apart(&address))?;
        channel.ok()
    }

    /// Returns the routes to mount on the peer port, on a [`server`].
    #[must_use]
    pub fn service(&self) -> Routes {
        let raft = RaftService::new(Arc::clone(&self.shared));
        let peer = PeerService {
            shared: Arc::clone(&self.shared),
        };
        // An append may hold the longest entry, far above tonic's default limit.
        let raft = RaftServer::new(raft).max_decoding_message_size(APPEND_BYTES_MAX);
        let peer = PeerServer::new(peer).max_decoding_message_size(APPEND_BYTES_MAX);
        Routes::new(raft).add_service(peer)
    }

    /// Returns the current status and its changes. It changes with every entry. To wait for rare
    /// changes, use [`Raft::coarse_status`].
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.clone()
    }

    /// Returns the same status, but notifies only if more has changed than the progress of the log.
    #[must_use]
    pub fn coarse_status(&self) -> watch::Receiver<Status> {
        self.shared.coarse_status.clone()
    }

    /// Returns the reason why the log has ended for good, once [`Status::failed`] is set.
    #[must_use]
    pub fn halted(&self) -> Option<Halt> {
        self.shared.halted.get().cloned()
    }

    /// Forms a cluster with the peers, or joins it. Returns once this node is a voter, or at once if it
    /// had a log when it started. It waits without limit, and [`Raft::waiting`] returns what it waits for.
    ///
    /// # Errors
    ///
    /// [`RaftError`] if the node has stopped.
    pub fn form(&self) -> BoxFuture<'static, Result<(), RaftError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { bootstrap::form(&shared).await })
    }

    /// Returns what the bootstrap waits for, worded to follow "waits for".
    #[must_use]
    pub fn waiting(&self) -> watch::Receiver<Option<String>> {
        self.shared.waiting.subscribe()
    }

    /// Proposes a command, and returns its outcome once it is committed and applied, if this node
    /// leads.
    ///
    /// A leader that was elected just now, or that no quorum has acknowledged for a while, refuses as
    /// if it did not lead, and names no leader. Try again after a pause.
    ///
    /// # Errors
    ///
    /// [`ProposeError`] states whether the command may still be applied.
    pub fn propose(&self, command: Bytes) -> BoxFuture<'static, Result<Outcome, ProposeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.propose(command, None).await })
    }

    /// Proposes a command as [`Raft::propose`] does, if this node leads exactly `term`.
    ///
    /// # Errors
    ///
    /// The same as for [`Raft::propose`]. In another term nothing is written.
    pub fn propose_in(
        &self,
        term: u64,
        command: Bytes,
    ) -> BoxFuture<'static, Result<Outcome, ProposeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.propose(command, Some(term)).await })
    }

    /// Has the current leader, whichever node that is, commit a command.
    ///
    /// Tries again while there is no leader, and after an attempt whose fate is unknown. The command
    /// must therefore be safe to repeat. Returns the outcome as encoded by [`Options::encode_outcome`].
    ///
    /// # Errors
    ///
    /// Returns the [`ProposeError`] of the last attempt within `limit`, or at once if a retry cannot
    /// help. Returns [`ProposeError::Unknown`] if any attempt may still be applied.
    pub fn propose_anywhere(
        &self,
        command: Bytes,
        limit: Duration,
    ) -> BoxFuture<'static, Result<Bytes, ProposeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { anywhere(&shared, command, limit).await })
    }

    /// Confirms that this node leads exactly `term`.
    ///
    /// On success, a quorum has acknowledged it after this call began. All that was committed before is
    /// applied here, and so is an entry of the term itself.
    ///
    /// # Errors
    ///
    /// [`BarrierError`] if this could not be confirmed.
    pub fn barrier(&self, term: u64) -> BoxFuture<'static, Result<(), BarrierError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.barrier(term).await })
    }

    /// Does the same with less traffic, for callers that can wait for up to two heartbeats. It costs
    /// nothing if a quorum acknowledges those in time.
    ///
    /// # Errors
    ///
    /// The same as for [`Raft::barrier`].
    pub fn heartbeat_barrier(&self, term: u64) -> BoxFuture<'static, Result<(), BarrierError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(shared.heartbeat_barrier(term))
    }

    /// Returns the time for which no leader of a term before `term` can have confirmed a report, if this node
    /// leads that term and a quorum has answered. It is `None` as well while a node answers that runs a version
    /// which does not send it.
    #[must_use]
    pub fn quiet_before(&self, term: u64) -> Option<Span> {
        self.shared.quiet_before(term)
    }

    /// Returns the index up to which the log is committed, as far as leaders told this node since its start; 0
    /// before. The entries up to it may not have arrived here, unlike those of [`Status::committed`].
    #[must_use]
    pub fn committed_at_leader(&self) -> u64 {
        self.shared.committed_at_leader.load(Ordering::Relaxed)
    }

    /// Initializes a cluster of these nodes, given with their addresses. On return, the first entry of
    /// the log is on this node's disk. It is not committed before there is a leader.
    ///
    /// # Errors
    ///
    /// [`RaftError`] if this node already has a log, or is not among the members.
    pub fn initialize(
        &self,
        members: BTreeMap<u64, String>,
    ) -> BoxFuture<'static, Result<(), RaftError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { bootstrap::initialize(&shared, members).await })
    }

    /// Changes the members, wherever the leader is: adds a node as a learner, promotes it once it has
    /// caught up, removes or replaces it, or transfers the leadership to it.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] states whether anything was changed.
    pub fn change(&self, change: Change) -> BoxFuture<'static, Result<(), ChangeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { change_anywhere(&shared, change).await })
    }

    /// Returns the id of the node of this cluster that listens for peers at an address.
    ///
    /// # Errors
    ///
    /// The reason as text, if no such node answers.
    pub fn identify(&self, address: &str) -> BoxFuture<'static, Result<u64, String>> {
        let (shared, address) = (Arc::clone(&self.shared), address.to_owned());
        Box::pin(async move {
            let greeting = shared.hello(&address).await;
            greeting
                .map(|greeting| greeting.node)
                .map_err(|error| error.to_string())
        })
    }

    /// Transfers the leadership to another node, if this node leads. Call this before a planned stop,
    /// so that the others need not wait for an election timeout.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]. This node may still lead then.
    pub fn retire(&self) -> BoxFuture<'static, Result<(), ChangeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { members::retire(&shared).await })
    }

    /// Triggers a snapshot, after which the log before it is purged.
    ///
    /// # Errors
    ///
    /// [`RaftError::Stopped`] if this node has stopped.
    pub fn trigger_snapshot(&self) -> BoxFuture<'static, Result<(), RaftError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let asked = shared.core.trigger().snapshot().await;
            asked.map_err(|_| RaftError::Stopped)
        })
    }

    /// Stops taking part in Raft. Acknowledged entries are on the disk.
    pub fn shutdown(&self) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            if let Err(error) = shared.core.shutdown().await {
                tracing::error!(%error, "the log's task failed");
            }
        })
    }
}

fn storage(error: impl ToString) -> RaftError {
    RaftError::Storage {
        reason: error.to_string(),
    }
}

async fn anywhere(shared: &Shared, command: Bytes, limit: Duration) -> Result<Bytes, ProposeError> {
    let end = timer::sleep(limit);
    tokio::pin!(end);
    let mut open = false;
    loop {
        let attempt = tokio::select! {
            biased;
            attempt = attempt(shared, command.clone()) => attempt,
            // The attempt was cut off, so its fate is unknown.
            () = &mut end => return Err(ProposeError::Unknown),
        };
        let error = match attempt {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        open |= error == ProposeError::Unknown;
        let error = if open { ProposeError::Unknown } else { error };
        if matches!(error, ProposeError::Stopped | ProposeError::TooLarge { .. }) {
            return Err(error);
        }
        tokio::select! {
            biased;
            () = &mut end => return Err(error),
            () = timer::sleep(RETRY) => {}
        }
    }
}

/// Makes one attempt, here or at the leader. A peer does not forward it again.
async fn attempt(shared: &Shared, command: Bytes) -> Result<Bytes, ProposeError> {
    let status = shared.now();
    let leader = status.leader_address().filter(|_| !status.leads);
    let Some((_, address)) = leader else {
        let outcome = shared.propose(command, None).await?;
        return Ok((shared.options.encode_outcome)(&outcome));
    };
    match shared.propose_to(&address, command).await {
        Ok(Proposed::Applied(outcome)) => Ok(outcome),
        Ok(Proposed::NotLeading(leader)) => Err(ProposeError::NotLeader {
            leader: address_in(leader),
        }),
        Ok(Proposed::Unknown) | Err(PeerError::Silent(_)) => Err(ProposeError::Unknown),
        Err(PeerError::Refused(_)) => Err(ProposeError::NotLeader { leader: None }),
    }
}

async fn change_anywhere(shared: &Arc<Shared>, change: Change) -> Result<(), ChangeError> {
    let mut asked = members::make(shared, change.clone()).await;
    for _ in 0..LEADERS_MAX {
        let Err(ChangeError::NotLeader {
            leader: Some((node, address)),
        }) = asked
        else {
            return asked;
        };
        tracing::debug!(node, "asking the leader for a change of members");
        asked = match shared.order_change(&address, change.clone()).await {
            Ok(Changed::Made) => Ok(()),
            Ok(Changed::NotLeading(leader)) => Err(ChangeError::NotLeader {
                leader: address_in(leader),
            }),
            Ok(Changed::Refused(reason)) | Err(PeerError::Refused(reason)) => {
                Err(ChangeError::Refused { reason })
            }
            Ok(Changed::Unknown(what)) | Err(PeerError::Silent(what)) => {
                Err(ChangeError::Unknown { what })
            }
        };
    }
    asked
}
