//! Errors of data directories.

use crate::store::START_ANEW;
use std::path::PathBuf;

/// Error of a data directory that cannot be used, with instructions for the operator.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataDirError {
    /// The operating system reported an error.
    #[error(
        "the data directory {} cannot be used: {what}: {reason}. Give the user that runs aliquot \
         the right to read and write there, see that the disk is not full, or set another data \
         directory",
        path.display()
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The failed operation.
        what: String,
        /// Error of the operating system.
        reason: String,
    },
    /// Another process uses it. Nothing was changed.
    #[error(
        "the data directory {} is in use by another process{}. Stop that one, or give this node \
         a data directory of its own",
        path.display(),
        pid.map(|pid| format!(" ({pid})")).unwrap_or_default()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Id of the process, if it is known.
        pid: Option<u32>,
    },
    /// The directory is not empty, but has no stamp. Nothing was changed.
    #[error(
        "the data directory {} is not empty ({found}) and has no identity.toml, so aliquot did not create it. Set a \
         directory that is empty or does not exist. If aliquot did create it, its stamp was lost: {START_ANEW}",
        path.display()
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Name of one of the files in it.
        found: String,
    },
    /// The directory belongs to another cluster. Nothing was changed.
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
        /// The configured cluster.
        expected: String,
    },
    /// A newer version wrote the directory. Nothing was changed.
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
        /// The newest format that this version reads.
        known: u32,
    },
    /// The stamp is damaged. Nothing was changed.
    #[error(
        "{} is damaged: {reason}; {START_ANEW}",
        path.join("identity.toml").display()
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
    },
    /// The directory is a copy, or a restored backup. Nothing was changed.
    #[error(
        "the data directory {} was copied, or restored from a backup: {reason}. A node must not run from older \
         data, because it could break promises that it has made since; {START_ANEW}",
        path.display()
    )]
    Copied {
        /// The directory.
        path: PathBuf,
        /// The difference that shows this.
        reason: String,
    },
    /// A part of the directory is missing. Nothing was changed.
    #[error(
        "the data directory {} is incomplete: {} is missing, and with it the record of what the node has promised; \
         {START_ANEW}",
        path.display(),
        missing.display()
    )]
    Incomplete {
        /// The directory.
        path: PathBuf,
        /// Path of the missing part.
        missing: PathBuf,
    },
}

impl DataDirError {
    /// Returns true if the node may start when it is tried again, because the reason lies outside of
    /// the directory.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Unusable { .. } | Self::InUse { .. })
    }
}
