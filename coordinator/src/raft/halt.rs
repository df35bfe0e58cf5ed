//! Reasons why the log ends for good.

use crate::config::SkipEntry;

/// Reference to the documentation, for the operator.
const READ_ON: &str = "docs/operations.md, \"An entry that cannot be read\", explains what is lost";

/// Reason why the log ends. The same version with the same settings would end there again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// This version cannot read an entry. No part of it was applied.
    #[error(
        "entry {} of the log (checksum {:016x}) cannot be read: {reason}; this node has stopped at the entry before it. \
         Start a version of aliquot that reads it, on every node; or, if there is none, have every node skip it, \
         with skip_entry = [\"{entry}\"]: {READ_ON}",
        .entry.index, .entry.checksum
    )]
    Entry {
        /// The entry, as a consent names it.
        entry: SkipEntry,
        /// The field that cannot be read, and why.
        reason: String,
    },
    /// This version cannot read a snapshot. The state is unchanged.
    #[error(
        "the snapshot up to entry {index} of the log cannot be read: {reason}. Start a version of aliquot that reads it; or, \
         if the other nodes are well, move the data directory away and start the node: it joins as a new one"
    )]
    Snapshot {
        /// Index of the last entry that the snapshot contains.
        index: u64,
        /// The field that cannot be read, and why.
        reason: String,
    },
    /// A consent does not match the log.
    #[error("skip_entry = \"{entry}\": {reason}")]
    Consent {
        /// The consent.
        entry: SkipEntry,
        /// Description of the error, and how to proceed.
        reason: String,
    },
}
