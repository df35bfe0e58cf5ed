//! Outcomes of committed commands, and errors of this module.

use super::halt::Halt;
use aliquot_core::state::Effect;
use std::sync::Arc;

/// Effects of a command, for the caller that proposed it.
pub type Outcome = Arc<Vec<Effect>>;

/// Id of a node, and the address at which its peers reach it.
pub type Leader = (u64, String);

/// Error of a proposal. Each variant states whether the command may still be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// The command was not written anywhere, and never will be.
    #[error("{}", not_leader(.leader.as_ref()))]
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<Leader>,
    },
    /// The command may have been written. It is applied once, at any later time, or never.
    #[error("the leader changed in the meantime: the command may or may not have been applied")]
    Unknown,
    /// The command was not written: this node has stopped.
    #[error("this node has stopped")]
    Stopped,
    /// The command was not written: no replica could read it.
    #[error("no node could read the command: {reason}")]
    Unreadable {
        /// The reader's error.
        reason: String,
    },
    /// The command was not written: it is longer than an entry may be.
    #[error("the command has {bytes} bytes: must be at most {most}")]
    TooLarge {
        /// Length of the command in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        most: usize,
    },
}

/// Error of a barrier: it is not certain that this node leads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// This node does not lead.
    #[error("{}", not_leader(.leader.as_ref()))]
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<Leader>,
    },
    /// This node leads, but in another term than was asked about.
    #[error("this node is the leader in term {term}, not in the term of the request")]
    OtherTerm {
        /// The term.
        term: u64,
    },
    /// No quorum answered in time.
    #[error("no quorum acknowledged this node as the leader in time")]
    NoQuorum,
    /// This node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

/// Error of a change of members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// Nothing was changed: another node leads.
    #[error("{}", not_leader(.leader.as_ref()))]
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<Leader>,
    },
    /// Nothing was changed: the leader refused.
    #[error("refused: {reason}")]
    Refused {
        /// The reason, and how to proceed.
        reason: String,
    },
    /// The change may have been made in part or completely. Check the members, and ask again.
    #[error("it is not known whether the change was made: {what}")]
    Unknown {
        /// Description of what is known.
        what: String,
    },
    /// This node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

/// Error that stops Raft on this node, or prevents its start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RaftError {
    /// A setting cannot be used. Nothing was changed.
    #[error("{field} = {value}: must be {allowed}")]
    Setting {
        /// Name of the setting.
        field: &'static str,
        /// Its value.
        value: String,
        /// Its allowed values.
        allowed: String,
    },
    /// The disk or the machine failed. Acknowledged entries are on the disk.
    #[error("the log has failed: {reason}")]
    Storage {
        /// Description of the error.
        reason: String,
    },
    /// This version cannot read an entry or a snapshot, or cannot skip an entry as configured.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// This node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

fn not_leader(leader: Option<&Leader>) -> String {
    match leader {
        Some((node, address)) => {
            format!("this node is not the leader; node {node} at {address} is")
        }
        None => "this node is not the leader, and knows no leader".to_owned(),
    }
}
