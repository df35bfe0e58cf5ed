//! The settings of a node's part in the protocol.

use super::outcome::{Outcome, RaftError};
use super::skip::Skips;
use aliquot_wire::limits::{CHUNK_BYTES_MAX, CLUSTER_BYTES_MAX, MEMBERS_MAX};
use bytes::Bytes;
use openraft::{Config, SnapshotPolicy};
use std::time::Duration;

/// How long a change of the members may take: a learner that catches up, and two quorums. Who
/// waits for one waits for longer, or does not learn what became of it.
pub const CHANGE_WITHIN: Duration = Duration::from_secs(65);

/// The settings of a node's part in the protocol.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's id. Whoever lost its disk must come back with another one: a
    /// node that forgot its votes could give them twice.
    pub node: u64,
    /// The cluster's name. Calls of another are refused.
    pub cluster: String,
    /// Where peers reach this node; one of `peers`.
    pub address: String,
    /// The peers to form with, this node among them. The same on all of them.
    pub peers: Vec<String>,
    /// When what is sent, and how long is waited.
    pub timing: Timing,
    /// After how many entries a snapshot is made and the log before it purged.
    pub snapshot_every: u64,
    /// How many entries stay in the log although a snapshot contains them, for
    /// followers that are a little behind.
    pub keep_entries: u64,
    /// The most bytes of a piece of a snapshot on its way.
    pub chunk_bytes: usize,
    /// What random pauses of forming are made of.
    pub seed: u64,
    /// How an outcome travels to a node that had its command proposed here.
    pub encode_outcome: fn(&Outcome) -> Bytes,
    /// The command after which a node that is removed, by its id, gets nothing
    /// more, if there is one. It is committed before the node is removed.
    pub forget_node: fn(u64) -> Option<Bytes>,
    /// Reads a command, and returns the reader's error if it cannot. A command that
    /// cannot be read is not proposed here, whoever asks.
    pub readable: fn(&Bytes) -> Result<(), String>,
    /// The entries that this node skips. `cluster` is what [`Skips::cluster`] makes of the name.
    pub skips: Skips,
}

/// When what is sent, and how long is waited.
///
/// A leader that dies is replaced after about `election_max + U(election_min,
/// election_max)`. The heartbeat also bounds its own call: three quarters of it
/// must be more than a round trip and a flush at their worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader says that it is there. 1 ms or more.
    pub heartbeat: Duration,
    /// The shortest silence after which a follower stands for election; more
    /// than the heartbeat.
    pub election_min: Duration,
    /// The longest; more than the shortest.
    pub election_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(600),
        }
    }
}

/// How long a piece of a snapshot may take, in milliseconds, and the last one
/// with the installing.
const PIECE_MS_MAX: u64 = 60_000;

impl Options {
    /// The most bytes of a piece of a snapshot, unless something else is asked for.
    pub const CHUNK_BYTES: usize = 1 << 20;

    /// The peers in rising order, each once.
    pub(super) fn sorted_peers(&self) -> Vec<String> {
        let mut peers = self.peers.clone();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// # Errors
    ///
    /// [`RaftError::Setting`].
    pub(super) fn check(&self) -> Result<(), RaftError> {
        let named = 1..=CLUSTER_BYTES_MAX;
        if !named.contains(&self.cluster.len()) {
            let allowed = format!("1 to {CLUSTER_BYTES_MAX} bytes");
            return Err(setting("cluster.id", &self.cluster, allowed));
        }
        if !self.peers.contains(&self.address) {
            let value = format!("{:?}", self.peers);
            let allowed = format!("addresses with {} among them, this node's", self.address);
            return Err(setting("peers", value, allowed));
        }
        if self.peers.len() > MEMBERS_MAX {
            let allowed = format!("at most {MEMBERS_MAX} addresses");
            return Err(setting("peers", self.peers.len(), allowed));
        }
        if self.snapshot_every == 0 {
            return Err(setting("snapshot_every", 0, "at least 1".to_owned()));
        }
        if !(1..=CHUNK_BYTES_MAX).contains(&self.chunk_bytes) {
            let allowed = format!("1 to {CHUNK_BYTES_MAX} bytes");
            return Err(setting("chunk_bytes", self.chunk_bytes, allowed));
        }
        Ok(())
    }

    /// # Errors
    ///
    /// [`RaftError::Setting`] if the timing makes no sense.
    pub(super) fn config(&self) -> Result<Config, RaftError> {
        let config = Config {
            cluster_name: self.cluster.clone(),
            heartbeat_interval: ms(self.timing.heartbeat),
            election_timeout_min: ms(self.timing.election_min),
            election_timeout_max: ms(self.timing.election_max),
            // Nobody who merely could not hear disturbs a leader that others hear.
            enable_pre_vote: Some(true),
            // A restarted leader must win an election first: the library would
            // let it lead on in its old term, with nothing remembered of it.
            enable_leader_restore: Some(false),
            install_snapshot_timeout: PIECE_MS_MAX,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            snapshot_max_chunk_size: self.chunk_bytes as u64,
            max_in_snapshot_log_to_keep: self.keep_entries,
            // The bytes of a message are bounded where entries are read.
            max_payload_entries: 4_096,
            ..Config::default()
        };
        config.validate().map_err(|error| {
            let allowed = "heartbeat < election_min < election_max".to_owned();
            setting("timing", error, allowed)
        })
    }
}

fn setting(field: &'static str, value: impl ToString, allowed: String) -> RaftError {
    RaftError::Setting {
        field,
        value: value.to_string(),
        allowed,
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
