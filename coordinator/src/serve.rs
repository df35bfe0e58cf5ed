//! A node from its configuration to its graceful end.
//!
//! Everything that can be wrong is found out before anything is promised:
//! ports, the data directory, certificates, tokens. Then the node forms a
//! cluster with its peers or joins theirs, and serves until it is told to stop.

mod connect;
mod listen;

pub use connect::TlsConnector;

use crate::clock::HostClock;
use crate::config::{Config, Security};
use crate::face::actor::ActorBackend;
use crate::face::auth::{Auth, AuthError, keep_reading};
use crate::face::tls::{TlsError, TlsFiles};
use crate::face::watch::readiness;
use crate::node::{self, Founding, Lifeline, NodeHandle};
use crate::raft::{self, Halt, Raft, RaftError, Skips, TcpConnector};
use crate::session::{Gate, GateLimits};
use crate::store::{DataDir, DataDirError, SledDisk, StoreError};
use crate::timer;
use aliquot_core::budget::Budget;
use aliquot_core::command::Command;
use aliquot_core::leader::Pace;
use aliquot_core::unit::{NodeId, Span};
use aliquot_wire::Wire;
use aliquot_wire::log::LogEntry;
use bytes::Bytes;
use listen::{ListenError, Listeners};
use rand::RngExt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Why a node did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be listened on. Nothing was started.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The data directory is not this node's to use. Nothing was started.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// What is in the data directory cannot be used, or not written any more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A certificate or key cannot be used. Nothing was started.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The tokens cannot be used. Nothing was started.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The log cannot be taken up.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// The log ends where this version cannot read it, or is not to skip it as it was told.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// The log does not go on. What was acknowledged is on the disk.
    #[error("this node stopped, because its log cannot go on: {0}")]
    Failed(String),
}

impl ServeError {
    /// Whether the node may start if it is only tried again: nothing of its files
    /// need be changed for that.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::DataDir(error) => error.may_pass(),
            Self::Store(StoreError::Io { .. }) | Self::Listen(_) | Self::Failed(_) => true,
            Self::Raft(RaftError::Stopped) => true,
            Self::Store(_) | Self::Tls(_) | Self::Auth(_) | Self::Raft(_) | Self::Halted(_) => {
                false
            }
        }
    }
}

/// Clients are told to report this often, or as often as nodes if that is more.
const CLIENT_REPORT: Span = Span::from_millis(200);

/// How long a leader that leaves waits for another to take over.
const HAND_OVER: Duration = Duration::from_secs(3);

/// How long a node that leaves waits for its clients to go and for the leader
/// to hear what they gave back.
const LEAVE: Duration = Duration::from_secs(6);

/// What runs apart from clients' streams and operators, for which the present runtime is: what
/// must not wait behind thousands of them.
#[derive(Clone, Debug)]
pub struct Apart {
    /// What the nodes ask of each other, the log above all: a leader that is not heard, because
    /// thousands of sessions report, is deposed.
    pub peers: Handle,
    /// The node's actor, and what it says to the others.
    pub actor: Handle,
}

/// Runs a node until `shutdown` resolves, and then hands everything back.
/// `budgets` are what a new cluster begins with.
///
/// # Errors
///
/// [`ServeError`]. A node whose log fails stops: it must not go on without it.
pub async fn run(
    config: Config,
    budgets: Vec<Budget>,
    apart: &Apart,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let listeners = Listeners::bind(&config).await?;
    let tls = config.tls.as_ref().map(TlsFiles::of_node).transpose()?;
    let (auth, warnings) = Auth::load(&config)?;
    let of_tls = tls.iter().flat_map(|tls| tls.warnings());
    for warning in warnings.iter().chain(of_tls) {
        tracing::warn!("{warning}");
    }
    let [new_id, actor_seed, raft_seed]: [u64; 3] = rand::rng().random();
    // An id is never 0, and fits a signed number everywhere.
    let new_id = (new_id >> 1).max(1);
    let mut data = DataDir::open(&config.data_dir, &config.cluster.id, || new_id)?;
    let disk = Arc::new(SledDisk::open(data.store_path())?);
    data.seal(&disk)?;
    let skips = Skips::open(&*disk, &config.skip_entry).map_err(raft_error)?;
    let connector: Arc<dyn raft::Connector> = match &tls {
        Some(tls) => Arc::new(TlsConnector::new(tls.client())),
        None => Arc::new(TcpConnector),
    };
    let node = data.node_id();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node,
        cluster = %config.cluster.id,
        new = data.is_new(),
        clients = %config.listen,
        peers = %config.peer_listen,
        metrics = %config.metrics_listen.map_or_else(|| "off".to_owned(), |at| at.to_string()),
        "starting"
    );
    if config.security == Security::Insecure {
        tracing::warn!("insecure = true: whoever reaches this node's ports owns the cluster");
    }
    let fleet = skips.cluster(&config.cluster.id);
    let options = actor_options(&config, &fleet, node, budgets, &connector, actor_seed);
    let spawned = {
        let _actor = apart.actor.enter();
        node::spawn(options)
    };
    let options = raft_options(&config, &fleet, skips, node, raft_seed);
    let raft = apart
        .peers
        .spawn(Raft::start(options, disk, spawned.machine, connector));
    let raft = raft
        .await
        .map_err(|error| ServeError::Failed(error.to_string()))?
        .map_err(raft_error)?;
    spawned.lifeline.connect(raft.clone());
    let running = Running {
        handle: spawned.handle,
        raft,
        lifeline: spawned.lifeline,
        fleet,
    };
    running
        .serve(
            &config,
            listeners,
            tls.as_ref(),
            auth,
            &apart.peers,
            shutdown,
        )
        .await
}

/// Returns a halt as an error of its own, and logs it.
fn raft_error(error: RaftError) -> ServeError {
    match error {
        RaftError::Halted(halt) => halted(halt),
        error => ServeError::Raft(error),
    }
}

fn halted(halt: Halt) -> ServeError {
    tracing::error!("{halt}");
    ServeError::Halted(halt)
}

fn actor_options(
    config: &Config,
    fleet: &str,
    node: u64,
    budgets: Vec<Budget>,
    connector: &Arc<dyn raft::Connector>,
    seed: u64,
) -> node::Options {
    node::Options {
        cluster: fleet.to_owned(),
        node: NodeId::new(node),
        connect: connect::for_gossip(connector),
        clock: Arc::new(HostClock),
        seed,
        report_every: config.pace.report_every,
        client_report_every: config.pace.report_every.min(CLIENT_REPORT),
        pace: Pace {
            report: config.pace.report_every,
            urgent: Span::from_millis(1),
            ..Pace::default()
        },
        founding: Founding {
            drift: config.pace.drift,
            lease: config.pace.lease,
            budgets,
        },
        session_keys: usize::try_from(config.session.keys).unwrap_or(usize::MAX),
        address: config.advertise.to_string(),
    }
}

fn raft_options(config: &Config, fleet: &str, skips: Skips, node: u64, seed: u64) -> raft::Options {
    let span = |span: Span| Duration::from_nanos(span.nanos());
    raft::Options {
        node,
        cluster: fleet.to_owned(),
        address: config.peer_advertise.to_string(),
        peers: config
            .cluster
            .peers
            .iter()
            .map(ToString::to_string)
            .collect(),
        timing: raft::Timing {
            heartbeat: span(config.pace.heartbeat),
            election_min: span(config.pace.election_min),
            election_max: span(config.pace.election_max),
        },
        // Nodes apply the same entries at the same time; they need not write at the same time.
        snapshot_every: config.snapshot_every + node % (config.snapshot_every / 4 + 1),
        keep_entries: config.snapshot_every / 10,
        chunk_bytes: raft::Options::CHUNK_BYTES,
        seed,
        // Whoever proposes waits until its own node has applied the command, and sees there.
        encode_outcome: |_| Bytes::new(),
        forget_node: |node| {
            let command = Some(Command::Remove {
                node: NodeId::new(node),
            });
            Some(LogEntry { command }.to_bytes())
        },
        readable: |command| {
            let read = LogEntry::from_bytes(command.clone());
            read.map(drop).map_err(|error| error.to_string())
        },
        skips,
    }
}

/// A node that runs.
struct Running {
    handle: NodeHandle,
    raft: Raft,
    lifeline: Lifeline,
    /// The name of the cluster that peers must agree on.
    fleet: String,
}

impl Running {
    async fn serve(
        self,
        config: &Config,
        listeners: Listeners,
        tls: Option<&TlsFiles>,
        auth: Auth,
        peers: &Handle,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let (stop, stopping) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let most = usize::try_from(config.session.most).unwrap_or(usize::MAX);
        let faces = listen::Faces {
            cluster: self.fleet.clone(),
            node: self.raft.status().borrow().node,
            gate: Gate::new(
                self.handle.sessions(),
                GateLimits {
                    streams: most,
                    ..GateLimits::default()
                },
            ),
            backend: Arc::new(ActorBackend::new(
                config.cluster.id.clone(),
                self.handle.clone(),
                self.raft.clone(),
            )),
            handle: self.handle.clone(),
            raft: self.raft.clone(),
            auth: Arc::new(auth),
            readiness: readiness(self.handle.clone(), self.raft.standing(), leaving),
        };
        let servers = listeners.serve(&faces, tls, peers, stopping)?;
        let reader = tokio::spawn(keep_reading(Arc::clone(&faces.auth)));
        tokio::spawn(form(self.raft.clone()));
        let failed = failure(self.raft.clone());
        tokio::pin!(shutdown, failed);
        let result = tokio::select! {
            () = &mut shutdown => {
                leave.send_replace(true);
                self.leave().await;
                Ok(())
            }
            reason = &mut failed => Err(match self.raft.halted() {
                Some(halt) => halted(halt),
                None => ServeError::Failed(reason),
            }),
        };
        let _ = stop.send(true);
        reader.abort();
        servers.stop().await;
        self.raft.shutdown().await;
        self.lifeline.stop();
        tracing::info!("stopped");
        result
    }

    /// Hands over: leadership first, then clients, then what they gave back.
    async fn leave(&self) {
        tracing::info!("leaving");
        let status = self.raft.status().borrow().clone();
        if status.leads && status.voters.len() > 1 {
            match timer::timeout(HAND_OVER, self.raft.retire()).await {
                Ok(Ok(())) => tracing::info!("leadership handed over"),
                Ok(Err(error)) => tracing::warn!(%error, "leadership was not handed over"),
                Err(_) => tracing::warn!("leadership was not handed over in time"),
            }
        }
        if timer::timeout(LEAVE, self.handle.leave()).await.is_err() {
            tracing::warn!("not everything was handed back in time; it is free after a lease");
        }
    }
}

/// Forms or joins; what it waits for meanwhile is logged there.
async fn form(raft: Raft) {
    match raft.form().await {
        Ok(()) => tracing::info!("part of the cluster"),
        Err(error) => tracing::error!(%error, "not part of the cluster"),
    }
}

/// Resolves when the log cannot go on.
async fn failure(raft: Raft) -> String {
    let mut status = raft.standing();
    loop {
        if let Some(reason) = status.borrow_and_update().failed.clone() {
            return reason;
        }
        if status.changed().await.is_err() {
            return "its task ended".to_owned();
        }
    }
}
