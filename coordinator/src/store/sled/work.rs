//! Work that a write leaves for the two threads of a store on sled.

use crate::store::{Done, SnapshotItem, StoreError};

/// A write that was applied and waits for its flush, or that failed.
pub(super) struct Job {
    pub(super) outcome: Result<Written, StoreError>,
    pub(super) done: Done,
}

/// Remaining work of a write.
#[derive(Debug)]
pub(super) enum Written {
    /// A flush.
    Applied,
    /// A flush of the writes before it, and then its file. The number shows which of two snapshots is
    /// the later one.
    Snapshot(u64, SnapshotItem),
}

/// Long work that must not delay writes.
pub(super) enum DiskTask {
    Snapshot(u64, SnapshotItem, Done),
    Sweep,
    /// The watermark was raised and is not on the medium yet.
    Sync,
}
