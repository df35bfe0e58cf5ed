//! A coordinator node: the real code on a simulated host.

use super::disk::{FlushTime, Image, NodeDisk};
use super::event_log::{Applied, EventLog, Happened, NodeDecided};
use super::fabric::Fabric;
use super::host::{HostClock, now};
use super::operator::Order;
use super::pipe::Pipe;
use super::reach::{CLIENTS, PEERS, Reach, name};
use aliquot_coordinator::api::central::CentralApi;
use aliquot_coordinator::api::gossip::GossipApi;
use aliquot_coordinator::api::session::SessionApi;
use aliquot_coordinator::node::{self, InitialContents, NodeHandle, View};
use aliquot_coordinator::raft::{self, Change, Committed, Machine, MachineError, Outcome, Raft};
use aliquot_coordinator::serve;
use aliquot_coordinator::session::{Gate, GateLimits, STREAMS_PER_CONNECTION_MAX};
use aliquot_core::command::Command;
use aliquot_core::edge::Counters;
use aliquot_core::leader::Pace;
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Edge, Incarnation, NodeId, Span};
use aliquot_wire::Wire;
use aliquot_wire::log::{APPLY_VERSION, LogEntry, SnapshotFile};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use turmoil::net::TcpListener;

/// A snapshot of a node at an instant.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSnapshot {
    pub(super) at: u64,
    pub(super) is_ready: bool,
    pub(super) term: u64,
    pub(super) applied: u64,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) leased: bool,
    /// True if the node votes, as far as it knows.
    #[expect(dead_code, reason = "traces show it")]
    pub(super) votes: bool,
    /// Shares that the node has not passed on to clients.
    pub(super) ungranted: Vec<(BudgetId, Share)>,
    /// Shares that the leader on this node has not granted to any node.
    pub(super) pool: Vec<(BudgetId, Share)>,
    pub(super) edge: Option<Edge>,
    pub(super) counters: Vec<(BudgetId, Counters)>,
    /// The round trips to peers that the node has measured.
    #[expect(dead_code, reason = "traces show it")]
    pub(super) round_trips: Vec<(NodeId, Span)>,
}

/// A request to a running node from outside.
#[derive(Debug)]
pub(super) enum Job {
    /// Take a snapshot of the node.
    Look,
    /// Carry out an order of an operator.
    CarryOut(Order),
    /// Transfer leadership to another node.
    Transfer(u64),
    /// Leave, as `aliquot serve` does before it stops.
    Leave,
}

/// A node host: the part of a node that outlives its processes.
#[derive(Debug)]
pub(super) struct NodeHost {
    pub(super) number: usize,
    pub(super) settings: Settings,
    pub(super) fabric: Arc<Fabric>,
    pub(super) inner: Mutex<Inner>,
    pub(super) event_log: EventLog,
    /// The time that flushes of the node's disk take.
    pub(super) flush: Arc<FlushTime>,
}

/// The part of a node host that changes.
#[derive(Debug, Default)]
pub(super) struct Inner {
    /// The disk for the next start.
    pub(super) image: Option<Image>,
    pub(super) disk: Option<Arc<NodeDisk>>,
    pub(super) jobs: Option<mpsc::UnboundedSender<Job>>,
    pub(super) snapshot: NodeSnapshot,
    /// Orders of operators that were carried out.
    pub(super) done: Vec<Order>,
    /// Set when the process has left and ends: true if it has returned everything.
    pub(super) left: Option<bool>,
    /// True if the node leaves the cluster, or was removed. It is never started again.
    pub(super) departs: bool,
    /// The reason for which the node's log has failed, if it has.
    pub(super) failed: Option<String>,
}

/// The configuration of nodes.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The nodes that form the cluster. Any other one joins.
    pub(super) founders: Vec<usize>,
    /// Number of nodes that run the version of the log before the present one until they start again.
    pub(super) old_nodes: usize,
    pub(super) initial_contents: InitialContents,
    pub(super) timing: raft::Timing,
    pub(super) pace: Pace,
    pub(super) round_trip: Span,
    pub(super) client_report_every: Span,
    /// Number of entries after which a snapshot is made.
    pub(super) snapshot_every: u64,
}

const CLUSTER: &str = "simulated";

impl NodeHost {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the running process. Returns false if there is none.
    pub(super) fn ask(&self, job: Job) -> bool {
        let jobs = self.lock().jobs.clone();
        jobs.is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Returns the latest version of the log that the program of a start reads.
    fn log_version(&self, first_start: bool) -> u32 {
        match first_start && self.number < self.settings.old_nodes {
            true => APPLY_VERSION - 1,
            false => APPLY_VERSION,
        }
    }

    fn options(&self, seed: u64, log_version: u32) -> (node::Options, raft::Options) {
        let (reach, settings) = (Reach::new(&self.fabric, self.number), &self.settings);
        let node = self.number as u64 + 1;
        let mut peers = settings.founders.clone();
        if !peers.contains(&self.number) {
            peers.push(self.number);
        }
        let host = &self.fabric.hosts[self.number];
        let of_actor = node::Options {
            cluster: CLUSTER.to_owned(),
            node: NodeId::new(node),
            connect: reach.for_gossip(),
            clock: Arc::new(HostClock(Arc::clone(host))),
            seed,
            round_trip: settings.round_trip,
            client_report_every: settings.client_report_every,
            pace: settings.pace,
            initial_contents: settings.initial_contents.clone(),
            session_keys: 1_024,
            address: name(self.number, CLIENTS),
            on_decision: Some(self.observes_decisions()),
        };
        let of_raft = raft::Options {
            node,
            cluster: CLUSTER.to_owned(),
            address: name(self.number, PEERS),
            peers: peers.into_iter().map(|node| name(node, PEERS)).collect(),
            timing: settings.timing,
            snapshot_every: settings.snapshot_every,
            keep_entries: settings.snapshot_every / 10,
            chunk_bytes: raft::Options::CHUNK_BYTES,
            seed: seed.rotate_left(32),
            encode_outcome: |_| Bytes::new(),
            readable: |_| Ok(()),
            log_version,
            skips: raft::Skips::default(),
            forget_node: |node| {
                let command = Some(Command::Remove {
                    node: NodeId::new(node),
                });
                Some(LogEntry { command }.to_bytes())
            },
        };
        (of_actor, of_raft)
    }

    /// Returns a function that logs each decision in central mode.
    fn observes_decisions(&self) -> node::DecisionObserver {
        let (node, event_log) = (self.number, self.event_log.clone());
        Arc::new(move |ask, reply| {
            event_log.write([Happened::NodeDecided(NodeDecided {
                at: now(),
                node,
                ask: *ask,
                reply: *reply,
            })]);
        })
    }

    /// Runs the process from one start until it is killed.
    pub(super) async fn run(self: Arc<Self>) -> turmoil::Result {
        let host = &self.fabric.hosts[self.number];
        host.runs_here();
        let seed = host.boot();
        let log_version = self.log_version(host.starts() == 1);
        let (of_actor, of_raft) = self.options(seed, log_version);
        let clients = TcpListener::bind(("0.0.0.0", CLIENTS)).await?;
        let peers = TcpListener::bind(("0.0.0.0", PEERS)).await?;
        let (sender, mut jobs) = mpsc::unbounded_channel();
        let disk = {
            let mut inner = self.lock();
            let image = inner.image.take().unwrap_or_default();
            let disk = Arc::new(NodeDisk::new(self.number, image, self.event_log.clone()));
            (inner.disk, inner.jobs) = (Some(Arc::clone(&disk)), Some(sender));
            disk
        };
        if let Err(damage) = disk.check() {
            return self.end_with(&damage).await;
        }
        tokio::spawn(Arc::clone(&disk).flush(Arc::clone(&self.flush)));
        let spawned = node::spawn(of_actor);
        let machine = Box::new(Observed {
            node_host: Arc::clone(&self),
            machine: spawned.machine,
            log_version,
        });
        let connector = Arc::new(Reach::new(&self.fabric, self.number));
        let raft = match Raft::start(of_raft, disk, machine, connector).await {
            Ok(raft) => raft,
            Err(error) => return self.end_with(&error).await,
        };
        spawned.control.connect(raft.clone());
        self.serve(&spawned.handle, &raft, clients, peers);
        tokio::spawn(form(raft.clone()));
        tokio::spawn(follow(Arc::clone(&self), raft.clone()));
        while let Some(job) = jobs.recv().await {
            self.obey(job, &spawned.handle, &raft).await;
        }
        Ok(())
    }

    /// Ends with an error message at the start. The future never ends: the host is up, and its process is not.
    async fn end_with(&self, error: &dyn std::fmt::Display) -> turmoil::Result {
        self.lock().failed = Some(error.to_string());
        std::future::pending().await
    }

    /// Serves both ports, with the services of `aliquot serve`.
    fn serve(&self, handle: &NodeHandle, raft: &Raft, clients: TcpListener, peers: TcpListener) {
        let node = NodeId::new(self.number as u64 + 1);
        let gossip = GossipApi::new(CLUSTER.to_owned(), node, handle.links());
        let central = CentralApi::new(handle.clone());
        let routes = raft
            .service()
            .add_service(gossip.into_service())
            .add_service(central.into_service());
        let router = raft::server().add_routes(routes);
        tokio::spawn(router.serve_with_incoming(self.accepted(peers)));
        let gate = Gate::new(handle.sessions(), GateLimits::default());
        let mut server = raft::server().max_concurrent_streams(STREAMS_PER_CONNECTION_MAX);
        let router = server.add_service(SessionApi::new(gate));
        tokio::spawn(router.serve_with_incoming(self.accepted(clients)));
    }

    fn accepted(
        &self,
        listener: TcpListener,
    ) -> impl stream::Stream<Item = std::io::Result<Pipe>> + use<> {
        let (fabric, me) = (Arc::clone(&self.fabric), self.number);
        stream::unfold(listener, move |listener| {
            let fabric = Arc::clone(&fabric);
            async move {
                let accepted = listener.accept().await;
                let pipe = accepted.and_then(|(socket, _)| Pipe::accepted(&fabric, socket, me));
                Some((pipe, listener))
            }
        })
    }

    async fn obey(self: &Arc<Self>, job: Job, handle: &NodeHandle, raft: &Raft) {
        match job {
            Job::Look => {
                let (node, event_log) = (self.number, self.event_log.clone());
                let look = move |view: &View<'_>| {
                    event_log.write([Happened::Snapshot(node)]);
                    snapshot_of(view)
                };
                // A node that has stopped has no state to look at.
                if let Ok(snapshot) = handle.view(look).await {
                    self.lock().snapshot = snapshot;
                }
            }
            Job::CarryOut(order) => {
                let (node_host, handle, raft) = (Arc::clone(self), handle.clone(), raft.clone());
                tokio::spawn(async move {
                    if order.carry_out(&handle, &raft).await {
                        node_host.lock().done.push(order);
                    }
                });
            }
            Job::Leave => {
                let (node_host, handle, raft) = (Arc::clone(self), handle.clone(), raft.clone());
                tokio::spawn(async move {
                    let returned = serve::leave(&handle, &raft).await;
                    node_host.lock().left = Some(returned);
                });
            }
            Job::Transfer(heir) => {
                let transfer = raft.change(Change::Transfer(heir));
                tokio::spawn(async move {
                    // A refused transfer has no effect.
                    let _ = transfer.await;
                });
            }
        }
    }
}

async fn form(raft: Raft) {
    // A node that cannot form a cluster never serves; the healing phase detects that.
    let _ = raft.form().await;
}

/// Records when the log fails.
async fn follow(node_host: Arc<NodeHost>, raft: Raft) {
    let mut status = raft.status();
    loop {
        let failed = status.borrow_and_update().failed.clone();
        if failed.is_some() {
            node_host.lock().failed = failed;
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

fn snapshot_of(view: &View<'_>) -> NodeSnapshot {
    let (now_here, node) = (view.now, view.node);
    let budgets: Vec<BudgetId> = view.state.budgets().map(|(budget, _)| budget).collect();
    let leased = node.is_some_and(|node| node.is_leased(now_here));
    let each = budgets.iter();
    NodeSnapshot {
        at: now(),
        is_ready: view.leader.is_ready(),
        term: view.leader.term().map_or(0, |term| term.get()),
        applied: view.state.applied(),
        incarnation: node.map(|node| node.incarnation()),
        leased,
        votes: view.status.voters.contains_key(&view.status.node),
        ungranted: node.map_or(Vec::new(), |node| {
            each.clone()
                .map(|budget| (*budget, node.ungranted(*budget, now_here)))
                .collect()
        }),
        pool: each
            .filter_map(|budget| Some((*budget, view.leader.pool(*budget)?.share_at(now_here))))
            .collect(),
        edge: node.map(|node| node.holder().edge()),
        counters: node.map_or(Vec::new(), |node| node.holder().counters().collect()),
        round_trips: view.round_trips.iter().collect(),
    }
}

/// Wraps the actor's state machine and logs the entries that it applies.
struct Observed {
    node_host: Arc<NodeHost>,
    machine: Box<dyn Machine>,
    /// Latest version of the log that the node's program reads.
    log_version: u32,
}

impl Observed {
    /// Stops the node of an earlier version at what it cannot read. `needed` is the version that reads it; the machine
    /// itself refuses what no version reads.
    fn reads(&self, index: u64, needed: impl FnOnce() -> Option<u32>) -> Result<(), MachineError> {
        if self.log_version == APPLY_VERSION {
            return Ok(());
        }
        let needed = needed().unwrap_or(0);
        if needed <= self.log_version {
            return Ok(());
        }
        let reason = format!(
            "entry {index} needs version {needed} of the log: this node reads up to {}",
            self.log_version
        );
        Err(MachineError::Failed { reason })
    }
}

impl Machine for Observed {
    fn apply(
        &mut self,
        entries: Vec<Committed>,
    ) -> BoxFuture<'_, Result<Vec<Outcome>, MachineError>> {
        Box::pin(async move {
            for entry in &entries {
                let read = || LogEntry::from_bytes(entry.command.clone()?).ok();
                self.reads(entry.index, || Some(read()?.needed_version()))?;
            }
            let outcomes = self.machine.apply(entries.clone()).await?;
            let tick = self.node_host.fabric.hosts[self.node_host.number]
                .read()
                .nanos();
            let pairs = entries.into_iter().zip(outcomes.iter().cloned());
            let applied = pairs.map(|(entry, outcome)| Applied {
                node: self.node_host.number,
                tick,
                entry,
                outcome,
            });
            self.node_host
                .event_log
                .write(applied.map(Happened::Applied));
            Ok(outcomes)
        })
    }

    fn snapshot(&mut self) -> BoxFuture<'_, Result<raft::Encode, MachineError>> {
        self.machine.snapshot()
    }

    fn restore(&mut self, index: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), MachineError>> {
        let read = || SnapshotFile::from_bytes(bytes.clone()).ok();
        let readable = self.reads(index, || Some(read()?.needed_version()));
        Box::pin(async move {
            readable?;
            self.machine.restore(index, bytes).await
        })
    }
}
