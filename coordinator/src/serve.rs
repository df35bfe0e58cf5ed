//! Runs a node from its configuration to a graceful shutdown.
//!
//! Ports, the data directory, certificates and tokens are checked first, before
//! the node serves anything. Then the node forms a cluster with its peers, or
//! joins theirs, and serves until it is asked to stop.

mod accept;
mod agent;
mod arrival;
mod connect;
mod descriptors;
mod embedded;
mod error;
mod faces;
mod listen;
mod members;
pub mod port;
mod removal;
mod rls;
mod wall_clock;

pub use agent::agent;
pub use connect::TlsConnector;
pub use error::ServeError;
pub use rls::rls;

use crate::api::actor::ActorBackend;
use crate::api::auth::{Auth, keep_reading};
use crate::api::tls::TlsFiles;
use crate::api::watch::readiness;
use crate::clock::HostClock;
use crate::config::{Config, Security};
use crate::node::{self, ActorControl, InitialContents, NodeHandle};
use crate::raft::{self, Halt, Raft, RaftError, Skips, TcpConnector};
use crate::session::{Gate, GateLimits};
use crate::store::{DataDir, SledDisk};
use crate::timer;
use aliquot_core::budget::Budget;
use aliquot_core::command::Command;
use aliquot_core::leader::Pace;
use aliquot_core::unit::{NodeId, Span};
use aliquot_wire::Wire;
use aliquot_wire::log::{APPLY_VERSION, LogEntry};
use bytes::Bytes;
use listen::Listeners;
use members::Members;
use rand::RngExt;
use removal::Removal;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Report interval of clients, unless that of nodes is shorter.
const CLIENT_REPORT: Span = Span::from_millis(200);

/// Maximum wait of a leaving leader for another node to take over.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Maximum wait of a leaving node for its clients to disconnect, and for the leader to receive
/// what they returned.
const LEAVE: Duration = Duration::from_secs(6);

/// Runtimes separate from the current one, which serves clients' streams and operators. The tasks on
/// them must not wait behind thousands of streams.
#[derive(Clone, Debug)]
pub struct Runtimes {
    /// Requests between nodes, above all those of the log. A leader whose heartbeats are delayed
    /// by thousands of reporting sessions would be deposed.
    pub peers: Handle,
    /// The node's actor, and its messages to other nodes.
    pub actor: Handle,
}

/// Runs a node until `shutdown` resolves, then returns all that the node holds.
/// A new cluster begins with `budgets`.
///
/// # Errors
///
/// [`ServeError`]. If its log fails, the node stops, because it must not go on without it.
pub async fn run(
    config: Config,
    budgets: Vec<Budget>,
    runtimes: &Runtimes,
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
    // An id is never 0, and fits into a signed 64-bit number.
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
    announce(&config, node, data.is_new());
    let fleet = skips.cluster(&config.cluster.id);
    let options = actor_options(&config, &fleet, node, budgets, &connector, actor_seed);
    let spawned = {
        let _actor = runtimes.actor.enter();
        node::spawn(options)
    };
    let options = raft_options(&config, &fleet, skips, node, raft_seed);
    let raft = runtimes.peers.spawn(Raft::start(
        options,
        disk,
        spawned.machine,
        Arc::clone(&connector),
    ));
    let raft = raft
        .await
        .map_err(|error| ServeError::Failed(error.to_string()))?
        .map_err(raft_error)?;
    spawned.control.connect(raft.clone());
    let members = Members {
        cluster: config.cluster.id.clone(),
        node,
        status: raft.coarse_status(),
        connector,
    };
    Running::new(spawned.handle, raft, spawned.control, fleet, members)
        .serve(
            &config,
            listeners,
            tls.as_ref(),
            auth,
            &runtimes.peers,
            shutdown,
        )
        .await
}

/// Logs what starts, and warns of a node without security.
fn announce(config: &Config, node: u64, is_new: bool) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node,
        cluster = %config.cluster.id,
        new = is_new,
        clients = %config.listen,
        peers = %config.peer_listen,
        metrics = %config.metrics_listen.map_or_else(|| "off".to_owned(), |at| at.to_string()),
        "starting"
    );
    tracing::info!("{}", config.pace);
    if config.security == Security::Insecure {
        tracing::warn!(
            "insecure = true: anyone who can connect to this node's ports controls the cluster"
        );
    }
}

/// Converts an error of the log. A halt becomes [`ServeError::Halted`] and is logged.
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
        client_report_every: config.pace.report_every.min(CLIENT_REPORT),
        round_trip: config.pace.round_trip,
        pace: Pace {
            report: config.pace.report_every,
            urgent: Span::from_millis(1),
            ..Pace::default()
        },
        initial_contents: InitialContents {
            drift: config.pace.drift,
            lease: config.pace.lease,
            budgets,
        },
        session_keys: usize::try_from(config.session.keys).unwrap_or(usize::MAX),
        address: config.advertise.to_string(),
        on_decision: None,
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
        // Spread the snapshots of the nodes: they apply the same entries at the same time, and would
        // all write at once.
        snapshot_every: config.snapshot_every + node % (config.snapshot_every / 4 + 1),
        keep_entries: config.snapshot_every / 10,
        chunk_bytes: raft::Options::CHUNK_BYTES,
        seed,
        // The proposer reads the outcome from its own node, once that has applied the command.
        encode_outcome: |_| Bytes::new(),
        forget_node: |node| {
            let command = Some(Command::Remove {
                node: NodeId::new(node),
            });
            Some(LogEntry { command }.to_bytes())
        },
        log_version: APPLY_VERSION,
        readable: |command| {
            let read = LogEntry::from_bytes(command.clone());
            read.map(drop).map_err(|error| error.to_string())
        },
        skips,
    }
}

/// A running node.
struct Running {
    /// True once this node is known to have been removed from the cluster.
    removed: watch::Receiver<bool>,
    /// Time in seconds by which the wall clock is ahead of those of the other members.
    clock_ahead: watch::Receiver<f64>,
    handle: NodeHandle,
    raft: Raft,
    control: ActorControl,
    /// Name of the cluster, and of the entries it skips, on which peers must agree.
    fleet: String,
}

impl Running {
    /// Begins to look at the other members: at their clocks, and for the removal of this node.
    fn new(
        handle: NodeHandle,
        raft: Raft,
        control: ActorControl,
        fleet: String,
        members: Members,
    ) -> Self {
        let removal = Removal {
            handle: handle.clone(),
            members: members.clone(),
        };
        Self {
            removed: removal.watch(),
            clock_ahead: wall_clock::watch(members),
            handle,
            raft,
            control,
            fleet,
        }
    }

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
        let gate = self.gate(config);
        let client = match listeners.has_faces() {
            true => Some(embedded::client(&gate, config)?),
            false => None,
        };
        let services = listen::Services {
            cluster: self.fleet.clone(),
            node: self.raft.status().borrow().node,
            gate,
            decider: client
                .clone()
                .map(|client| embedded::decider(client, config)),
            backend: Arc::new(ActorBackend::new(
                config.cluster.id.clone(),
                self.handle.clone(),
                self.raft.clone(),
                self.removed.clone(),
            )),
            handle: self.handle.clone(),
            raft: self.raft.clone(),
            auth: Arc::new(auth),
            readiness: readiness(
                self.handle.clone(),
                self.raft.coarse_status(),
                leaving,
                self.removed.clone(),
            ),
            removed: self.removed.clone(),
            clock_ahead: self.clock_ahead.clone(),
        };
        let servers = listeners.serve(config, &services, tls, peers, &stopping)?;
        let reader = tokio::spawn(keep_reading(Arc::clone(&services.auth)));
        tokio::spawn(form(self.raft.clone()));
        let failed = failure(self.raft.clone());
        tokio::pin!(shutdown, failed);
        let result = tokio::select! {
            () = &mut shutdown => {
                leave.send_replace(true);
                if let Some(client) = &client {
                    client.close().await;
                }
                self::leave(&self.handle, &self.raft).await;
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
        self.control.stop();
        tracing::info!("stopped");
        result
    }

    /// Creates the entry of client sessions.
    fn gate(&self, config: &Config) -> Gate {
        let most = usize::try_from(config.session.most).unwrap_or(usize::MAX);
        Gate::new(
            self.handle.sessions(),
            GateLimits {
                streams: most,
                ..GateLimits::default()
            },
        )
    }
}

/// Hands over before a node stops: first the leadership, then the clients, then what they returned. Returns true if
/// everything was returned in time.
pub async fn leave(handle: &NodeHandle, raft: &Raft) -> bool {
    tracing::info!("leaving");
    let status = raft.status().borrow().clone();
    if status.leads && status.voters.len() > 1 {
        match timer::timeout(HAND_OVER, raft.retire()).await {
            Ok(Ok(())) => tracing::info!("leadership handed over"),
            Ok(Err(error)) => tracing::warn!(%error, "leadership was not handed over"),
            Err(_) => tracing::warn!("leadership was not handed over in time"),
        }
    }
    let returned = timer::timeout(LEAVE, handle.leave()).await.is_ok();
    if !returned {
        tracing::warn!(
            "not everything was returned in time; the rest becomes free when this node's lease has ended"
        );
    }
    returned
}

/// Forms a cluster or joins one, and logs the result.
async fn form(raft: Raft) {
    match raft.form().await {
        Ok(()) => tracing::info!("joined the cluster"),
        Err(error) => tracing::error!(%error, "could not join the cluster"),
    }
}

/// Resolves with the reason when the log has failed.
async fn failure(raft: Raft) -> String {
    let mut status = raft.coarse_status();
    loop {
        if let Some(reason) = status.borrow_and_update().failed.clone() {
            return reason;
        }
        if status.changed().await.is_err() {
            return "its task ended".to_owned();
        }
    }
}
