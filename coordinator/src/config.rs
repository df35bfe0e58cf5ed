//! What a node is told: one set of settings, by file, environment and flag alike.
//!
//! Every setting stands once, in [`SETTINGS`], and from there has its key in the
//! file, its variable and its flag. A flag goes before a variable, a variable
//! before the file, the file before the default. What is written is read once,
//! into a [`Config`] in which nothing can be wrong any more; everything that is
//! wrong is told at once.
//!
//! ```
//! use aliquot_coordinator::config::{Config, Sources};
//!
//! let mut sources = Sources::default();
//! sources.file("node.toml", "lease = \"3s\"\nlisten = \"127.0.0.1:7001\"\n");
//! let loaded = Config::load(&sources)?;
//! assert_eq!(loaded.config.listen.port(), 7001);
//! assert_eq!(loaded.origin("lease").unwrap().to_string(), "node.toml:1");
//!
//! sources.file("node.toml", "leese = \"3s\"");
//! let problems = Config::load(&sources).unwrap_err();
//! assert!(problems.to_string().contains("did you mean \"lease\"?"));
//! # Ok::<(), aliquot_coordinator::config::Problems>(())
//! ```

mod check;
mod flags;
mod problem;
mod read;
mod setting;
mod show;
mod skip;
mod source;

pub use check::{LeaseTooShort, lease_needs};
pub use flags::Flags;
pub use problem::{Origin, Problem, Problems};
pub use read::{Address, AddressError};
pub use setting::{SETTINGS, Setting, Shape};
pub use skip::{SkipEntry, SkipEntryError};
pub use source::Sources;

use aliquot_core::unit::{Drift, Span};
use source::Written;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Everything that a node is told, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which cluster and where its nodes are.
    pub cluster: ClusterConfig,
    /// Where clients and operators are listened to.
    pub listen: SocketAddr,
    /// Where other nodes are listened to.
    pub peer_listen: SocketAddr,
    /// Where metrics are read, over plain HTTP; nowhere if off.
    pub metrics_listen: Option<SocketAddr>,
    /// Where clients reach this node.
    pub advertise: Address,
    /// Where other nodes reach this node.
    pub peer_advertise: Address,
    /// What the node keeps on disk is in here.
    pub data_dir: PathBuf,
    /// Leases, reports and elections.
    pub pace: PaceConfig,
    /// A snapshot is made after so many entries of the log, at least 1.
    pub snapshot_every: u64,
    /// Entries of the log that this node skips, by its operator's consent.
    pub skip_entry: Vec<SkipEntry>,
    /// What clients may take of this node.
    pub session: SessionConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// TLS, if it is on.
    pub tls: Option<TlsConfig>,
    /// Tokens and the roles they give; without, tokens give none.
    pub tokens: Option<PathBuf>,
    /// Budgets that are applied when the cluster is formed.
    pub budgets: Option<PathBuf>,
    /// Whether metrics, which name the busiest keys over plain HTTP, are shown off loopback.
    pub metrics_security: Security,
    /// Whether plaintext, or peers that nobody knows, are accepted off loopback.
    pub security: Security,
}

/// Which cluster, and where its nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// The peer addresses of the nodes that form it, this node's own included, each once.
    pub peers: Vec<Address>,
}

/// How a node keeps time. The values fit each other: see [`lease_needs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceConfig {
    /// The nodes' lease, as the leader counts it. Taken when the cluster is formed.
    pub lease: Span,
    /// How often nodes and clients report.
    pub report_every: Span,
    /// How far any clock may drift. Taken when the cluster is formed.
    pub drift: Drift,
    /// How often a leader is heard of by its followers.
    pub heartbeat: Span,
    /// The shortest that a follower waits for a leader before it stands for election.
    pub election_min: Span,
    /// The longest.
    pub election_max: Span,
    /// The slowest round trip between nodes, flush included, that an ordinary leader change may meet.
    pub round_trip: Span,
}

/// What clients may take of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// So many sessions at once.
    pub most: u32,
    /// So many keys in one session.
    pub keys: u32,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How a line looks.
    pub format: LogFormat,
    /// Which lines there are, as `tracing_subscriber::EnvFilter` reads it.
    pub filter: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// The files of TLS, and what names in certificates may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// This node's certificate and those between it and the authority, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The authority that signs nodes and clients, PEM.
    pub ca: PathBuf,
    /// Whether clients and operators must show a certificate. Other nodes always must.
    pub client_certs: ClientCerts,
    /// Names whose certificates may administer. `*` is any name.
    pub admins: Vec<String>,
    /// Names whose certificates may open sessions. `*` is any name.
    pub clients: Vec<String>,
    /// Names whose certificates are other nodes.
    pub peers: Vec<String>,
}

/// Whether clients and operators must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCerts {
    /// They must.
    Required,
    /// They may; who does not needs a token.
    Optional,
}

/// What is accepted off loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Only TLS, and only those who say who they are.
    Strict,
    /// Anything: the operator said so.
    Insecure,
}

/// A configuration, and where each of its values comes from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is odd and does not stop the node, such as a variable that means nothing.
    pub warnings: Vec<String>,
    written: Written,
}

impl Config {
    /// Reads the sources.
    ///
    /// # Errors
    ///
    /// Every setting that is unknown, wrong, or at odds with another.
    pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
        let mut problems = Problems::default();
        let written = Written::of(sources, &mut problems);
        let config = read::config(&written, &mut problems);
        if let Some(config) = &config {
            check::all(config, &written, &mut problems);
        }
        match config {
            Some(config) if problems.is_empty() => Ok(Loaded {
                config,
                warnings: sources.warnings(),
                written,
            }),
            _ => Err(problems),
        }
    }
}

impl Loaded {
    /// Where a setting's value comes from; `None` if there is no such setting.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        Some(&self.written.get(key)?.origin)
    }
}
