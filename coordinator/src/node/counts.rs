//! What this node did since it began, to be looked at.

/// Counts since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often another leader, or none, was heard of.
    pub leader_changes: u64,
    /// Entries of the log that were applied.
    pub applied: u64,
    /// Rounds that were proposed here.
    pub rounds: u64,
    /// Barriers that were asked for here.
    pub barriers: u64,
    /// Clients that were refused a session.
    pub refused: u64,
    /// Clients that were asked to go on elsewhere.
    pub moved: u64,
    /// Reports of clients that were taken.
    pub reports: u64,
    /// Answers that were given to clients.
    pub answers: u64,
    /// New keys that were not asked for, because too many waited.
    pub keys_shed: u64,
    /// Records that gossip brought.
    pub records: u64,
}
