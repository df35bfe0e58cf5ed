//! Options of Raft.

use super::outcome::{Outcome, RaftError};
use super::skip::Skips;
use aliquot_wire::limits::{CHUNK_BYTES_MAX, CLUSTER_BYTES_MAX, MEMBERS_MAX};
use bytes::Bytes;
use openraft::{Config, SnapshotPolicy};
use std::time::Duration;

/// Maximum duration of a change of members: a learner that catches up, and two quorums. A caller must
/// wait longer than this to be sure to learn the result.
pub const CHANGE_WITHIN: Duration = Duration::from_secs(65);

/// Options of Raft.
#[derive(Clone, Debug)]
pub struct Options {
    /// Id of this node. A node that has lost its disk must come back under another id, because it has
    /// forgotten its votes and could vote twice.
    pub node: u64,
    /// Name of the cluster. Calls from other clusters are refused.
    pub cluster: String,
    /// Address at which peers reach this node. It is one of `peers`.
    pub address: String,
    /// Peers to form a cluster with, including this node. The same list on all of them.
    pub peers: Vec<String>,
    /// Heartbeat interval and election timeouts.
    pub timing: Timing,
    /// Number of entries after which a snapshot is made and the log before it is purged.
    pub snapshot_every: u64,
    /// Number of entries that stay in the log although a snapshot contains them, for followers that are
    /// a little behind.
    pub keep_entries: u64,
    /// Maximum number of bytes in a chunk of a snapshot.
    pub chunk_bytes: usize,
    /// Seed for the random pauses of forming.
    pub seed: u64,
    /// Encodes an outcome for the node that forwarded the command.
    pub encode_outcome: fn(&Outcome) -> Bytes,
    /// Returns the command that winds up a node's part of the state, by its id, if one is needed. It is
    /// committed before the node is removed.
    pub forget_node: fn(u64) -> Option<Bytes>,
    /// Reads a command, and returns the reader's error if it cannot be read. Such a command is refused
    /// when a peer forwards it.
    pub readable: fn(&Bytes) -> Result<(), String>,
    /// Latest version of the log that this node's program reads: [`APPLY_VERSION`](aliquot_wire::log::APPLY_VERSION),
    /// or less for a node of an earlier version in a simulation.
    pub log_version: u32,
    /// Entries that this node skips. `cluster` must be the name that [`Skips::cluster`] returns.
    pub skips: Skips,
}

/// Heartbeat interval and election timeouts.
///
/// A leader that dies is replaced after about `election_max + U(election_min, election_max)`. The
/// heartbeat interval also bounds the timeout of a heartbeat: three quarters of it must exceed a round
/// trip and a flush at their worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Interval of a leader's heartbeats. At least 1 ms.
    pub heartbeat: Duration,
    /// Shortest random wait before an election. Greater than the heartbeat interval.
    pub election_min: Duration,
    /// Silence after which followers may replace their leader, and the longest random wait. Greater than the
    /// shortest.
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

/// Maximum time in milliseconds for a chunk of a snapshot to be sent, and for the last one to be
/// installed too.
const PIECE_MS_MAX: u64 = 60_000;

impl Options {
    /// Default maximum number of bytes in a chunk of a snapshot.
    pub const CHUNK_BYTES: usize = 1 << 20;

    /// Returns the peers in ascending order, without duplicates.
    pub(super) fn sorted_peers(&self) -> Vec<String> {
        let mut peers = self.peers.clone();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// # Errors
    ///
    /// [`RaftError::Setting`] for the first setting that is not allowed.
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
    /// [`RaftError::Setting`] if the timing is inconsistent.
    pub(super) fn config(&self) -> Result<Config, RaftError> {
        let config = Config {
            cluster_name: self.cluster.clone(),
            heartbeat_interval: ms(self.timing.heartbeat),
            election_timeout_min: ms(self.timing.election_min),
            election_timeout_max: ms(self.timing.election_max),
            // A node that merely lost its connection does not disturb a leader that others still reach.
            enable_pre_vote: Some(true),
            // A restarted leader must first win an election. openraft would let it lead on in its old
            // term, although nothing of that leadership is remembered.
            enable_leader_restore: Some(false),
            install_snapshot_timeout: PIECE_MS_MAX,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            snapshot_max_chunk_size: self.chunk_bytes as u64,
            max_in_snapshot_log_to_keep: self.keep_entries,
            // The size of a message is bounded where entries are read.
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
