//! Metrics for Prometheus, and probes.
//!
//! The actor's state is published as a [`Snapshot`] in a watch channel, about once a second. Requests
//! are answered from the latest one, so that a scrape costs the actor nothing. The output has a bounded
//! number of lines: the only labels are the version, ports, the causes of refused connections, faces, the outcomes of
//! their decisions, peers, and the
//! [`TOP_KEYS`] keys with the highest rates of admission.

use super::connections::{Cause, Connections};
use aliquot_faces::{Decider, Face, Outcome, Rlqs};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

mod agent;

pub use agent::{Agent, agent_router};

/// Maximum number of keys that have lines of their own.
pub const TOP_KEYS: usize = 20;

/// State of a node at one instant. Counters count since the process started.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Reason why the node does not serve clients, or `None` if it does.
    pub not_ready: Option<String>,
    /// True if the node was removed from the cluster.
    pub is_removed: bool,
    /// Time by which its wall clock is ahead of the median of all members, in seconds.
    pub clock_ahead_s: f64,
    /// True if the node leads and a quorum follows it.
    pub is_leader: bool,
    /// Latest term that it knows of.
    pub term: u64,
    /// Number of times that it learned of another leader, or of none.
    pub leader_changes: u64,
    /// Entries of the log that it applied.
    pub applied: u64,
    /// Index of the last applied entry.
    pub applied_index: u64,
    /// Rounds of grants that it proposed.
    pub rounds: u64,
    /// Remaining time of its lease, in seconds.
    pub lease_left_s: f64,
    /// Sessions that are connected by a stream.
    pub sessions: u64,
    /// Open streams, including those without a session.
    pub streams: u64,
    /// Clients that were refused a session.
    pub refused: u64,
    /// Clients that were asked to move to another node.
    pub moved: u64,
    /// Reports of clients that were taken in.
    pub reports: u64,
    /// Answers sent to clients.
    pub answers: u64,
    /// Budgets in the log's state.
    pub budgets: u64,
    /// Budgets of which this node holds a part.
    pub held: u64,
    /// Peers to which a gossip stream is open.
    pub peers: u64,
    /// Least round trip of the last seconds to each peer, in seconds, by the peer's id.
    pub round_trips_s: Vec<(u64, f64)>,
    /// Gossip records that were received.
    pub records: u64,
    /// Longest turn of the actor's loop, which renews leases, within the last one to two minutes, in
    /// seconds.
    pub loop_held_s: f64,
    /// The most processor time of one turn within that time, in seconds.
    pub loop_worked_s: f64,
    /// New keys that wait for their budgets.
    pub keys_waiting: u64,
    /// New keys that were not requested because too many were waiting.
    pub keys_shed: u64,
    /// Use of keys, of any number and in any order.
    pub keys: Vec<KeyUse>,
    /// Connections of the ports, which are counted when the metrics are read.
    pub ports: Vec<Connections>,
    /// Faces, whose figures are counted when the metrics are read.
    pub faces: FaceFigures,
}

/// Sources of the figures of a process's faces. Without a decider no face is on.
#[derive(Clone, Debug, Default)]
pub struct FaceFigures {
    /// Decider of all faces.
    pub decider: Option<Decider>,
    /// Rate limit quota service, if it is on.
    pub rlqs: Option<Rlqs>,
}

/// Use of one key in the whole cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyUse {
    /// The key.
    pub key: String,
    /// Tokens per second that its clients admit, if this node leads, or else 0. Finite.
    pub admitted_per_s: f64,
    /// Tokens per second, tokens or permits that are held of it. Finite.
    pub held: f64,
}

/// Returns a router for the metrics port. It serves `/metrics`, `/healthz` (the process lives) and
/// `/readyz` (the node serves clients).
pub fn router(snapshots: watch::Receiver<Arc<Snapshot>>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(snapshots)
}

/// Encodes a snapshot in the OpenMetrics text format. Keys are in descending order of their rates of
/// admission, and then in the order of their names.
#[must_use]
pub fn render(snapshot: &Arc<Snapshot>) -> String {
    encode(Figures(Arc::clone(snapshot)))
}

fn encode(figures: impl Collector) -> String {
    let mut registry = Registry::with_prefix("aliquot");
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    // Writing to a string cannot fail.
    match text::encode(&mut text, &registry) {
        Ok(()) => text,
        Err(fmt::Error) => String::new(),
    }
}

type Snapshots = State<watch::Receiver<Arc<Snapshot>>>;

/// Media type of the metrics.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

async fn metrics(State(snapshots): Snapshots) -> Response {
    let snapshot = Arc::clone(&snapshots.borrow());
    ([(header::CONTENT_TYPE, TEXT)], render(&snapshot)).into_response()
}

async fn healthz(State(snapshots): Snapshots) -> Response {
    probe(stopped(&snapshots))
}

async fn readyz(State(snapshots): Snapshots) -> Response {
    let not_ready = snapshots.borrow().not_ready.clone();
    probe(stopped(&snapshots).or(not_ready))
}

/// Returns a reason if the actor is gone, so that there will be no further snapshot.
fn stopped(snapshots: &watch::Receiver<Arc<Snapshot>>) -> Option<String> {
    let gone = snapshots.has_changed().is_err();
    gone.then(|| "the node has stopped".to_owned())
}

fn probe(wrong: Option<String>) -> Response {
    match wrong {
        None => (StatusCode::OK, "ok\n").into_response(),
        Some(wrong) => (StatusCode::SERVICE_UNAVAILABLE, format!("{wrong}\n")).into_response(),
    }
}

/// Name, help text and value of a figure.
type Figure<T> = (&'static str, &'static str, fn(&Snapshot) -> T);

const GAUGES: &[Figure<f64>] = &[
    ("ready", "1 if the node serves clients", |s| {
        f64::from(u8::from(s.not_ready.is_none()))
    }),
    (
        "removed",
        "1 if the node was removed from the cluster",
        |s| f64::from(u8::from(s.is_removed)),
    ),
    (
        "wall_clock_ahead_seconds",
        "Time by which the wall clock is ahead of the median of the members",
        |s| s.clock_ahead_s,
    ),
    ("leader", "1 if the node leads a quorum", |s| {
        f64::from(u8::from(s.is_leader))
    }),
    (
        "lease_left_seconds",
        "Remaining time of the node's lease",
        |s| s.lease_left_s,
    ),
    ("term", "The term of leadership in the log", |s| {
        s.term as f64
    }),
    ("applied_index", "The last entry of the log applied", |s| {
        s.applied_index as f64
    }),
    ("sessions", "Sessions that a stream carries", |s| {
        s.sessions as f64
    }),
    ("streams", "Streams of clients", |s| s.streams as f64),
    ("budgets", "Budgets in the log", |s| s.budgets as f64),
    (
        "budgets_held",
        "Budgets of which the node holds a part",
        |s| s.held as f64,
    ),
    ("peers", "Peers whose links are up", |s| s.peers as f64),
    (
        "loop_held_seconds_max",
        "The longest that the loop which renews leases was held in the last minute or two",
        |s| s.loop_held_s,
    ),
    (
        "loop_worked_seconds_max",
        "The most processor time that one turn of that loop took in the last minute or two",
        |s| s.loop_worked_s,
    ),
    (
        "keys_waiting",
        "New keys that wait for their budgets",
        |s| s.keys_waiting as f64,
    ),
];

const COUNTERS: &[Figure<u64>] = &[
    ("leader_changes", "Other leaders seen", |s| s.leader_changes),
    ("applied_entries", "Entries of the log applied", |s| {
        s.applied
    }),
    ("rounds", "Rounds of grants proposed", |s| s.rounds),
    ("sessions_refused", "Clients refused a session", |s| {
        s.refused
    }),
    (
        "sessions_moved",
        "Clients redirected to another node",
        |s| s.moved,
    ),
    ("reports", "Reports of clients taken", |s| s.reports),
    ("answers", "Answers given to clients", |s| s.answers),
    (
        "keys_shed",
        "New keys not asked for, because too many waited",
        |s| s.keys_shed,
    ),
    ("gossip_records", "Records that gossip brought", |s| {
        s.records
    }),
];

/// Name, help text and value of a figure of a key.
type KeyFigure = (&'static str, &'static str, fn(&KeyUse) -> f64);

const KEYS: &[KeyFigure] = &[
    (
        "key_admitted_per_second",
        "Tokens per second admitted, of the keys that admit most",
        |key| key.admitted_per_s,
    ),
    (
        "key_held",
        "Tokens per second or permits held, of the keys that admit most",
        |key| key.held,
    ),
];

#[derive(Debug)]
struct Figures(Arc<Snapshot>);

impl FaceFigures {
    /// Returns the sources of the figures of faces with this decider.
    #[must_use]
    pub fn of(decider: &Decider) -> Self {
        Self {
            decider: Some(decider.clone()),
            rlqs: None,
        }
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (name, help, value) in GAUGES {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            gauge.encode_gauge(&value(&self.0))?;
        }
        for (name, help, value) in COUNTERS {
            let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            counter.encode_counter::<NoLabels, _, u64>(&value(&self.0), None)?;
        }
        encode_process(&self.0.ports, &self.0.faces, &mut encoder)?;
        let (name, help) = (
            "peer_round_trip_seconds",
            "Least round trip to a peer in the last seconds",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (peer, seconds) in &self.0.round_trips_s {
            family
                .encode_family(&[("peer", *peer)])?
                .encode_gauge(seconds)?;
        }
        let top = top(&self.0.keys);
        for (name, help, value) in KEYS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for key in &top {
                let labels = [("key", key.key.as_str())];
                family.encode_family(&labels)?.encode_gauge(&value(key))?;
            }
        }
        Ok(())
    }
}

/// Encodes the figures that every process has.
fn encode_process(
    ports: &[Connections],
    faces: &FaceFigures,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let build = [("version", env!("CARGO_PKG_VERSION"))];
    let mut info = encoder.encode_descriptor(
        "build_info",
        "1, of the version that runs",
        None,
        MetricType::Gauge,
    )?;
    info.encode_family(&build)?.encode_gauge(&1_u64)?;
    encode_ports(ports, encoder)?;
    encode_descriptors(encoder)?;
    encode_faces(faces, encoder)
}

/// Encodes the decisions of faces, and what they hold. The quota service makes none itself: Envoys decide.
fn encode_faces(faces: &FaceFigures, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(decider) = &faces.decider else {
        return Ok(());
    };
    let (name, help) = ("face_decisions", "Decisions of a face, by outcome");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for face in [Face::Http, Face::Grpc, Face::Redis] {
        for outcome in Outcome::ALL {
            let labels = [("face", face.name()), ("outcome", outcome.name())];
            let count = decider.counts().of(face, outcome);
            let mut line = family.encode_family(&labels)?;
            line.encode_counter::<NoLabels, _, u64>(&count, None)?;
        }
    }
    let rlqs = |read: fn(&Rlqs) -> usize| faces.rlqs.as_ref().map(read);
    for (name, help, value) in [
        (
            "face_keys",
            "Keys that the faces hold in memory",
            Some(decider.keys_held()),
        ),
        (
            "reservations",
            "Reservations that are neither settled nor over",
            Some(decider.reservations_open()),
        ),
        ("rlqs_streams", "Streams of quotas", rlqs(Rlqs::streams)),
        (
            "rlqs_buckets",
            "Buckets of all streams of quotas",
            rlqs(Rlqs::buckets),
        ),
    ] {
        if let Some(value) = value {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            gauge.encode_gauge(&(value as u64))?;
        }
    }
    Ok(())
}

fn encode_ports(ports: &[Connections], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (name, help) = ("connections", "Open connections");
    let mut open = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for connections in ports {
        let labels = [("port", connections.port().label())];
        open.encode_family(&labels)?
            .encode_gauge(&(connections.open() as u64))?;
    }
    let refused = "Connections refused, or ended without a request";
    let failed = "Connections refused because of TLS";
    for (name, help, of_tls) in [
        ("connections_refused", refused, false),
        ("tls_failures", failed, true),
    ] {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for connections in ports {
            for cause in Cause::ALL.into_iter().filter(|it| it.is_tls() == of_tls) {
                let labels = [
                    ("port", connections.port().label()),
                    ("cause", cause.label()),
                ];
                let count = connections.refused(cause);
                let mut line = family.encode_family(&labels)?;
                line.encode_counter::<NoLabels, _, u64>(&count, None)?;
            }
        }
    }
    Ok(())
}

/// Encodes the used and the allowed file descriptors of this process, where the system reports them.
fn encode_descriptors(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let used = std::fs::read_dir("/dev/fd").map(|open| open.count() as u64);
    for (name, help, value) in [
        ("file_descriptors", "File descriptors in use", used.ok()),
        (
            "file_descriptors_allowed",
            "Limit of file descriptors",
            allowed,
        ),
    ] {
        if let Some(value) = value {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            gauge.encode_gauge(&value)?;
        }
    }
    Ok(())
}

type NoLabels = prometheus_client::encoding::NoLabelSet;

/// Returns the keys with the highest rates of admission.
fn top(keys: &[KeyUse]) -> Vec<&KeyUse> {
    let mut keys: Vec<&KeyUse> = keys.iter().collect();
    let order = |a: &&KeyUse, b: &&KeyUse| {
        let by_use = b.admitted_per_s.total_cmp(&a.admitted_per_s);
        by_use.then_with(|| a.key.cmp(&b.key))
    };
    if keys.len() > TOP_KEYS {
        keys.select_nth_unstable_by(TOP_KEYS, order);
        keys.truncate(TOP_KEYS);
    }
    keys.sort_unstable_by(order);
    keys
}
