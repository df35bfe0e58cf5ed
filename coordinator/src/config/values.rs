//! The values of a configuration, checked.

use super::address::{Address, FaceAddress};
use super::skip::SkipEntry;
use aliquot_client::http::LimitFields;
use aliquot_core::unit::{Drift, Span};
use aliquot_faces::{Face, KeyRules, Uncovered};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The configuration of a node, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name and nodes of the cluster.
    pub cluster: ClusterConfig,
    /// Address to listen on for clients and operators.
    pub listen: SocketAddr,
    /// Address to listen on for other nodes.
    pub peer_listen: SocketAddr,
    /// Address to listen on for metrics, over plain HTTP; `None` if off.
    pub metrics_listen: Option<SocketAddr>,
    /// Address at which clients reach this node.
    pub advertise: Address,
    /// Address at which other nodes reach this node.
    pub peer_advertise: Address,
    /// Directory for all that the node keeps on disk.
    pub data_dir: PathBuf,
    /// Leases, reports and elections.
    pub pace: PaceConfig,
    /// Number of log entries between two snapshots, at least 1.
    pub snapshot_every: u64,
    /// Entries of the log that this node skips, as its operator configured.
    pub skip_entry: Vec<SkipEntry>,
    /// Limits for client sessions.
    pub session: SessionConfig,
    /// Interfaces for services that embed no client.
    pub faces: FacesConfig,
    /// Limits for connections to the ports.
    pub connections: ConnectionsConfig,
    /// Format and filter of the log.
    pub log: LogConfig,
    /// TLS, if it is on.
    pub tls: Option<TlsConfig>,
    /// File of tokens and their roles. Without it, a token gives no role.
    pub tokens: Option<PathBuf>,
    /// File of budgets that are applied when the cluster is formed.
    pub budgets: Option<PathBuf>,
    /// Security of metrics off loopback, which show the busiest keys over plain HTTP.
    pub metrics_security: Security,
    /// Security off loopback: accept plaintext and unauthenticated callers, or not.
    pub security: Security,
}

/// Name and nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Name of the cluster: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// Peer addresses of the nodes that form the cluster, this node's own included, each once.
    pub peers: Vec<Address>,
}

/// Leases, reports and elections. The values fit each other: see [`lease_needs`](super::lease_needs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceConfig {
    /// Lease of the nodes, as the leader counts it. Fixed when the cluster is formed.
    pub lease: Span,
    /// Interval between two reports of a node, and the longest between two reports of a client.
    pub report_every: Span,
    /// Maximum drift of any clock. Fixed when the cluster is formed.
    pub drift: Drift,
    /// Interval between two heartbeats of a leader.
    pub heartbeat: Span,
    /// Minimum random wait of a follower before it starts an election, after `election_max` without its leader.
    pub election_min: Span,
    /// Silence of a leader after which followers may replace it, and the maximum of the random wait that follows.
    pub election_max: Span,
    /// Longest round trip between nodes, disk flush included, that an ordinary leader change must allow for.
    pub round_trip: Span,
}

impl fmt::Display for PaceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lease,
            report_every,
            drift: _,
            heartbeat,
            election_min,
            election_max,
            round_trip,
        } = self;
        write!(
            f,
            "round trip {round_trip}: heartbeat {heartbeat}, elections {election_min} to {election_max}, \
             lease {lease}, reports {report_every}"
        )
    }
}

/// Limits for client sessions of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Maximum number of concurrent sessions.
    pub most: u32,
    /// Maximum number of keys in one session.
    pub keys: u32,
}

/// Limits for connections to the ports of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsConfig {
    /// Maximum number of connections to `listen`.
    pub clients: u32,
    /// Maximum number of connections to `peer_listen`.
    pub peers: u32,
    /// Maximum number of connections to `metrics_listen`.
    pub metrics: u32,
    /// Maximum number of connections to all faces together.
    pub faces: u32,
    /// Maximum number of connections of one remote address to each port; `None` for half of the port's.
    pub per_address: Option<u32>,
}

/// Interfaces for services that embed no client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacesConfig {
    /// Address of each face that is on.
    pub listen: BTreeMap<Face, FaceAddress>,
    /// Rules that map keys of requests to keys of budgets.
    pub rules: KeyRules,
    /// Header fields of the HTTP face.
    pub http: LimitFields,
    /// Assignment of buckets of the rate limit quota service that nothing covers.
    pub uncovered: Uncovered,
}

/// Format and filter of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Format of a line.
    pub format: LogFormat,
    /// Filter of lines, as `tracing_subscriber::EnvFilter` reads it.
    pub filter: String,
}

/// Format of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Files for TLS, and the roles of names in certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate chain of this node, without the authority, PEM.
    pub cert: PathBuf,
    /// Private key of this node, PEM.
    pub key: PathBuf,
    /// Certificate authority of nodes and clients, PEM.
    pub ca: PathBuf,
    /// Rule for certificates of clients and operators. Other nodes always need one.
    pub client_certs: ClientCerts,
    /// Names whose certificates may administer. `*` is any name.
    pub admins: Vec<String>,
    /// Names whose certificates have the role client. `*` is any name.
    pub clients: Vec<ClientName>,
    /// Names whose certificates belong to other nodes.
    pub peers: Vec<String>,
}

/// A name whose certificates have the role client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName {
    /// DNS name or IP address; `*` is any name.
    pub name: String,
    /// Prefixes of the keys that such a caller may ask for, at faces. If empty, it may ask for all keys and open sessions.
    pub prefixes: Vec<String>,
}

/// Rule for certificates of clients and operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCerts {
    /// A certificate is required.
    Required,
    /// A caller without a certificate needs a token.
    Optional,
}

/// Requirements for connections off loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Only TLS, and only callers that identify themselves.
    Strict,
    /// Anything, as the operator configured.
    Insecure,
}
