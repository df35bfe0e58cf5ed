//! The replicated log: who leads, what is committed, and who the members are.
//!
//! [`Raft`] is the node's part in the protocol. What the log means is the
//! business of a [`Machine`]; where it is kept, of a
//! [`Disk`]; how nodes reach each other, of a [`Connector`].
//! The library that carries the protocol out is seen nowhere outside, and
//! nothing here is generic, so that it is compiled once.
//!
//! Indices of the log count from 1; 0 is nothing.

mod connect;
mod forming;
mod hush;
mod log;
mod machine;
mod members;
mod network;
mod options;
mod outcome;
mod patience;
mod peer;
mod reached;
mod runtime;
mod service;
mod shared;
mod skip;
mod snapshot;
mod status;
mod types;

#[cfg(test)]
mod conformance;

pub use aliquot_wire::peer::{Change, PeerAddress};
pub use connect::{ConnectError, Connector, TcpConnector, endpoint, server};
pub use machine::{Committed, Encode, Machine, MachineError};
pub use options::{CHANGE_WITHIN, Options, Timing};
pub use outcome::{BarrierError, ChangeError, Leader, Outcome, ProposeError, RaftError};
pub use skip::{Halt, Skips, checksum};
pub use status::Status;

use crate::store::Disk;
use crate::timer;
use aliquot_wire::limits::APPEND_BYTES_MAX;
use aliquot_wire::pb::peer_server::PeerServer;
use aliquot_wire::pb::raft_server::RaftServer;
use aliquot_wire::peer::{Changed, Proposed};
use bytes::Bytes;
use connect::Links;
use futures_util::future::BoxFuture;
use log::LogStore;
use machine::{Applier, Skipping};
use network::Network;
use peer::{PeerError, PeerService, address_in};
use service::RaftService;
use shared::Shared;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tonic::service::Routes;
use tonic::transport::Channel;
use types::Core;

/// A node's part in the protocol. A clone is the same one.
///
/// The futures that its methods return do nothing until they are polled. One
/// that is dropped half-way leaves open what became of what it asked for.
#[derive(Clone, Debug)]
pub struct Raft {
    shared: Arc<Shared>,
}

/// How many leaders are asked for a change of the members, each named by the
/// one before, until one makes it: a leader that is removed names another.
const LEADERS_MAX: usize = 4;

/// The pause before a command that found no leader is proposed again.
const RETRY: Duration = Duration::from_millis(50);

impl Raft {
    /// Takes the log up from the disk and takes part from now on: mount
    /// [`Raft::service`], then wait for [`Raft::form`].
    ///
    /// # Errors
    ///
    /// [`RaftError`]: a setting that cannot be, or a disk or machine that
    /// cannot be gone on with.
    pub async fn start(
        options: Options,
        disk: Arc<dyn Disk>,
        machine: Box<dyn Machine>,
        connector: Arc<dyn Connector>,
    ) -> Result<Self, RaftError> {
        options.check()?;
        let config = Arc::new(options.config()?);
        let store = LogStore::open(Arc::clone(&disk)).await.map_err(storage)?;
        // The core says nothing of its log before it runs, and a node that
        // said "I have none" in between could help to form a second cluster.
        let was_formed = store.formed().map_err(storage)?;
        let links = Arc::new(Links::new(connector));
        let network = Network {
            cluster: options.cluster.clone(),
            node: options.node,
            links: Arc::clone(&links),
            reached: Arc::default(),
            hush: Arc::new(hush::Hush::new(options.timing.election_max)),
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
        let told = status::follow(core.metrics(), first);
        let shared = Shared {
            options,
            core,
            disk,
            store,
            links,
            status: told.status,
            standing: told.standing,
            waiting: watch::Sender::new(None),
            halted,
            changing: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// A connection of its own to the port for peers of the leader, if another node leads and
    /// its address is known.
    #[must_use]
    pub fn leader(&self) -> Option<Channel> {
        let (leader, address) = self.shared.status.borrow().leader_address()?;
        let other = leader != self.shared.options.node;
        let channel = other.then(|| self.shared.links.apart(&address))?;
        channel.ok()
    }

    /// What is to be mounted on the peers' port, on a [`server`].
    #[must_use]
    pub fn service(&self) -> Routes {
        let options = &self.shared.options;
        let core = self.shared.core.clone();
        let raft = RaftService::new(options.cluster.clone(), options.node, core);
        let peer = PeerService {
            shared: Arc::clone(&self.shared),
        };
        // An append may hold the longest entry, far above the usual limit.
        let raft = RaftServer::new(raft).max_decoding_message_size(APPEND_BYTES_MAX);
        let peer = PeerServer::new(peer).max_decoding_message_size(APPEND_BYTES_MAX);
        Routes::new(raft).add_service(peer)
    }

    /// What this node knows, and will know. It changes with every entry: whoever waits for
    /// what changes seldom looks at [`Raft::standing`].
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.clone()
    }

    /// The same, but a change only when something else changes than how far the log has come.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Status> {
        self.shared.standing.clone()
    }

    /// Why the log ended for good, once [`Status::failed`] says that it did.
    #[must_use]
    pub fn halted(&self) -> Option<Halt> {
        self.shared.halted.get().cloned()
    }

    /// Forms a cluster with the peers, or joins it; returns when this node
    /// votes, or at once if it had a log to begin with. It waits for as long
    /// as it must, and [`Raft::waiting`] says for what.
    ///
    /// # Errors
    ///
    /// [`RaftError`] if the node has stopped.
    pub fn form(&self) -> BoxFuture<'static, Result<(), RaftError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { forming::form(&shared).await })
    }

    /// What forming waits for, to be read after "waits for".
    #[must_use]
    pub fn waiting(&self) -> watch::Receiver<Option<String>> {
        self.shared.waiting.subscribe()
    }

    /// Has a command committed and applied, if this node leads.
    ///
    /// A leader that was elected just now, or that a quorum has not
    /// acknowledged for a while, refuses as if it did not lead, and names
    /// nobody: try again after a pause.
    ///
    /// # Errors
    ///
    /// [`ProposeError`] says whether the command may still be applied.
    pub fn propose(&self, command: Bytes) -> BoxFuture<'static, Result<Outcome, ProposeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.propose(command, None).await })
    }

    /// As [`Raft::propose`], if this node leads exactly `term`.
    ///
    /// # Errors
    ///
    /// As [`Raft::propose`]; in another term nothing is written.
    pub fn propose_in(
        &self,
        term: u64,
        command: Bytes,
    ) -> BoxFuture<'static, Result<Outcome, ProposeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.propose(command, Some(term)).await })
    }

    /// Has a command committed by whoever leads, and tries again while there
    /// is no leader or it is not known what became of it: the command must be
    /// one that may be repeated. Returns the outcome as
    /// [`Options::encode_outcome`] writes it.
    ///
    /// # Errors
    ///
    /// [`ProposeError`], of the last attempt within `limit`, or at once if
    /// another would not help; [`ProposeError::Unknown`] if any attempt may yet
    /// be applied.
    pub fn propose_anywhere(
        &self,
        command: Bytes,
        limit: Duration,
    ) -> BoxFuture<'static, Result<Bytes, ProposeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { anywhere(&shared, command, limit).await })
    }

    /// Makes sure that this node leads exactly `term`: a quorum acknowledged
    /// it after this call began, and all that was committed before is applied,
    /// an entry of the term itself included.
    ///
    /// # Errors
    ///
    /// [`BarrierError`]; then nothing may be concluded.
    pub fn barrier(&self, term: u64) -> BoxFuture<'static, Result<(), BarrierError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.barrier(term).await })
    }

    /// The same for who can wait: within two heartbeats, and at no cost if a quorum answers
    /// these.
    ///
    /// # Errors
    ///
    /// As for [`Raft::barrier`].
    pub fn patient_barrier(&self, term: u64) -> BoxFuture<'static, Result<(), BarrierError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(shared.patient_barrier(term))
    }

    /// Begins a cluster of these nodes, by their addresses: the first entry of
    /// the log is on this node's disk when this returns. It is not committed
    /// yet: whoever must know waits for a leader.
    ///
    /// # Errors
    ///
    /// [`RaftError`] if this node has a log, or is not among them.
    pub fn initialize(
        &self,
        members: BTreeMap<u64, String>,
    ) -> BoxFuture<'static, Result<(), RaftError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { forming::initialize(&shared, members).await })
    }

    /// Changes who the members are, wherever the leader is: a node is added as
    /// a learner, promoted once it has caught up, removed, replaced, or made
    /// to lead.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says whether anything was changed.
    pub fn change(&self, change: Change) -> BoxFuture<'static, Result<(), ChangeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { change_anywhere(&shared, change).await })
    }

    /// Which node listens for peers at an address, of this cluster.
    ///
    /// # Errors
    ///
    /// What stands against it, as a text.
    pub fn identify(&self, address: &str) -> BoxFuture<'static, Result<u64, String>> {
        let (shared, address) = (Arc::clone(&self.shared), address.to_owned());
        Box::pin(async move {
            let greeting = shared.hello(&address).await;
            greeting
                .map(|greeting| greeting.node)
                .map_err(|error| error.to_string())
        })
    }

    /// Has another node lead, if this one does: before it is stopped on
    /// purpose, so that the others need not wait for it in vain.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; then this node may still lead.
    pub fn retire(&self) -> BoxFuture<'static, Result<(), ChangeError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { members::retire(&shared).await })
    }

    /// Has a snapshot made, and the log before it purged.
    ///
    /// # Errors
    ///
    /// [`RaftError::Stopped`].
    pub fn trigger_snapshot(&self) -> BoxFuture<'static, Result<(), RaftError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let asked = shared.core.trigger().snapshot().await;
            asked.map_err(|_| RaftError::Stopped)
        })
    }

    /// Takes no more part. What was acknowledged is on the disk.
    pub fn shutdown(&self) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            if let Err(error) = shared.core.shutdown().await {
                tracing::error!(%error, "the log's task ended badly");
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
            // It was cut off under way.
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

/// One attempt: here, or at the leader. Nothing is passed on twice.
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
        tracing::debug!(node, "asks the leader for a change of the members");
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
