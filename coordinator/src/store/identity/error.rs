//! Why a data directory is refused.

use super::START_ANEW;
use std::path::PathBuf;

/// Why a data directory cannot be used, with what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataDirError {
    /// The operating system refused.
    #[error(
        "the data directory {} cannot be used: {what}: {reason}. Give the user that runs aliquot \
         the right to read and write there, see that the disk is not full, or set another data \
         directory",
        path.display()
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What was tried.
        what: String,
        /// What the operating system said.
        reason: String,
    },
    /// Another process has it. Nothing was changed.
    #[error(
        "the data directory {} is in use by another process{}. Stop that one, or give this node \
         a data directory of its own",
        path.display(),
        pid.map(|pid| format!(" ({pid})")).unwrap_or_default()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The number of the process, if it says so.
        pid: Option<u32>,
    },
    /// It holds something, but no stamp. Nothing was changed.
    #[error(
        "the data directory {} is not empty ({found}) and has no identity.toml: it is not \
         aliquot's. Set a directory that is empty or missing; if it is aliquot's, the stamp is \
         lost: {START_ANEW}",
        path.display()
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// It belongs to another cluster. Nothing was changed.
    #[error(
        "the data directory {} belongs to the cluster {found:?}, and this node is of the cluster \
         {expected:?}. Correct cluster.id, or set another data directory",
        path.display()
    )]
    WrongCluster {
        /// The directory.
        path: PathBuf,
        /// The cluster that its stamp names.
        found: String,
        /// The cluster that was asked for.
        expected: String,
    },
    /// A newer version wrote it. Nothing was changed.
    #[error(
        "the data directory {} has format {found}, and this version of aliquot knows formats up \
         to {known}. Run the newer version; or {START_ANEW}",
        path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format that its stamp names.
        found: u32,
        /// The newest format that is known.
        known: u32,
    },
    /// Its stamp is not what was written. Nothing was changed.
    #[error(
        "{} is damaged: {reason}; {START_ANEW}",
        path.join("identity.toml").display()
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It is a copy, or a backup that was put back. Nothing was changed.
    #[error(
        "the data directory {} was copied, or restored from a backup: {reason}. A node must never \
         come back with an older memory of what it promised; {START_ANEW}",
        path.display()
    )]
    Copied {
        /// The directory.
        path: PathBuf,
        /// What shows it.
        reason: String,
    },
    /// A part of it is gone. Nothing was changed.
    #[error(
        "the data directory {} is incomplete: {} is missing, and with it what the node promised; \
         {START_ANEW}",
        path.display(),
        missing.display()
    )]
    Incomplete {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        missing: PathBuf,
    },
}

impl DataDirError {
    /// Whether the node may start if it is only tried again: the reason is not in the
    /// directory.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Unusable { .. } | Self::InUse { .. })
    }
}
