//! Counters of one node.

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of times that this node learned of another leader, or of none.
    pub leader_changes: u64,
    /// Entries of the log that were applied.
    pub applied: u64,
    /// Rounds that this node proposed.
    pub rounds: u64,
    /// Barriers that this node asked for.
    pub barriers: u64,
    /// Clients that were refused a session.
    pub refused: u64,
    /// Clients that were asked to move to another node.
    pub moved: u64,
    /// Reports of clients that were taken in.
    pub reports: u64,
    /// Answers sent to clients.
    pub answers: u64,
    /// New keys that were not requested because too many were waiting.
    pub keys_shed: u64,
    /// Gossip records that were received.
    pub records: u64,
}
