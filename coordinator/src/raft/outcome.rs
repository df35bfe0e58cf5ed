//! What a committed command did, and why one was not committed.

use super::skip::Halt;
use aliquot_core::state::Effect;
use std::sync::Arc;

/// What a command did, for whoever proposed it.
pub type Outcome = Arc<Vec<Effect>>;

/// A node and where its peers reach it.
pub type Leader = (u64, String);

/// Why a command has no outcome, and whether it may still get one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// It was not written anywhere, and never will be.
    #[error("{}", not_leader(.leader.as_ref()))]
    NotLeader {
        /// Who leads, as far as this node knows.
        leader: Option<Leader>,
    },
    /// It may have been written, and may be applied at any time, once or never.
    #[error("the leader changed under way: the command may be applied or not")]
    Unknown,
    /// It was not written: this node has stopped.
    #[error("this node has stopped")]
    Stopped,
    /// It was not written: no replica could read it.
    #[error("no node could read the command: {reason}")]
    Unreadable {
        /// The reader's error.
        reason: String,
    },
    /// It was not written: it is longer than an entry may be.
    #[error("the command has {bytes} bytes: must be at most {most}")]
    TooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
}

/// Why it is not certain that this node leads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// It does not.
    #[error("{}", not_leader(.leader.as_ref()))]
    NotLeader {
        /// Who leads, as far as this node knows.
        leader: Option<Leader>,
    },
    /// It leads, but another term than was asked about.
    #[error("this node leads term {term}, not the one asked about")]
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

/// Why the members are not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// Nothing was changed: another node leads.
    #[error("{}", not_leader(.leader.as_ref()))]
    NotLeader {
        /// Who leads, as far as this node knows.
        leader: Option<Leader>,
    },
    /// Nothing was changed, and why.
    #[error("refused: {reason}")]
    Refused {
        /// What stands against it, and what to do.
        reason: String,
    },
    /// It may have been made in part or whole: look, and ask again.
    #[error("not known to be made: {what}")]
    Unknown {
        /// What is known.
        what: String,
    },
    /// This node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

/// Why the protocol does not run, or could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RaftError {
    /// A setting cannot be used; nothing was touched.
    #[error("{field} = {value}: must be {allowed}")]
    Setting {
        /// Which.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// The disk or the machine refused; what was acknowledged is on the disk.
    #[error("the log cannot go on: {reason}")]
    Storage {
        /// What was said.
        reason: String,
    },
    /// The log says what this version cannot read, or is not to skip as it was told.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// It was stopped.
    #[error("this node has stopped")]
    Stopped,
}

fn not_leader(leader: Option<&Leader>) -> String {
    match leader {
        Some((node, address)) => {
            format!("this node does not lead; node {node} at {address} does")
        }
        None => "this node does not lead, and knows of no leader".to_owned(),
    }
}
