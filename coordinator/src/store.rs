//! Persistent storage of a node: a log of opaque entries, a few named values, and the last snapshot.
//!
//! Entries are not interpreted here. A write can be read as soon as the call returns, and is on the
//! disk when its [`Done`] is called. Writes reach the disk, and Dones are called, in the order of the
//! calls, so that a vote and the log never overtake each other. One flush serves all writes that wait
//! for it. Only a snapshot, which may take long, does not delay others: its Done is called after those
//! of earlier writes, but perhaps after those of later writes too.
//!
//! A write that fails on the disk ends all writing. Its fate is unknown until the store is opened
//! again, so that every later Done gets an error. A write that is [`StoreError::Refused`] changes
//! nothing, and the next one may succeed.

mod file;
mod identity;
mod memory;
mod sled;

pub use identity::{DataDir, DataDirError};
pub use memory::{MemoryDisk, MemoryImage};
pub use sled::SledDisk;

use bytes::Bytes;
use std::fmt;
use std::ops::Range;

/// Called once a write is on the disk, or will never be.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Error of the store, with instructions for the operator.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk failed. Recent writes may be lost, but none whose [`Done`] reported success.
    #[error("{what} failed: {reason}")]
    Io {
        /// The failed operation, and its path.
        what: String,
        /// Error of the operating system.
        reason: String,
    },
    /// The stored data differs from what was written.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// The data that was read.
        what: String,
        /// Description of the damage, and how to proceed.
        reason: String,
    },
    /// The write would have left a hole in the log, or an entry below what was purged, or is too large.
    /// Nothing was changed, and the store can still be used.
    #[error("{what} was refused: {reason}")]
    Refused {
        /// The refused operation.
        what: String,
        /// Contents of the log, and what it would accept.
        reason: String,
    },
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogItem {
    /// Index of the entry. Indices have no gaps. The first is 0 or 1, as the writer likes, or greater
    /// in a log that was purged.
    pub index: u64,
    /// Contents of the entry.
    pub bytes: Bytes,
}

/// A snapshot of the state to which the log before it led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotItem {
    /// Metadata of the writer, which names the state.
    pub meta: Bytes,
    /// Contents of the snapshot.
    pub data: Bytes,
}

/// Instructions to the operator for a directory that cannot be used any more.
pub(crate) const START_ANEW: &str = "move the node's data directory away and start the node again: it joins as a \
                                     new node and copies everything from the others. At its old address it joins by \
                                     itself; at another address, run `aliquot cluster replace OLD NEW`";

/// Maximum number of bytes of a named value.
pub const VALUE_BYTES_MAX: usize = 4096;

/// A disk, or its replacement in a simulation.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Returns the first and the last index of the log, or `None` if it is empty.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the read fails.
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError>;

    /// Returns the entries of a range that exist, in order and without gaps. Returns at least one if
    /// there is any, and no further ones that would bring the total above `bytes_max` bytes. The range
    /// may be empty or reach beyond the log.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the read fails.
    fn entries(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<LogItem>, StoreError>;

    /// Appends entries, all or none, that follow the last one without a gap. An empty log takes any
    /// index above what was purged. An append of no entries is a write too: its Done confirms that all
    /// writes before it are on the disk.
    fn append(&self, items: Vec<LogItem>, done: Done);

    /// Removes all entries from `from` on, all or none. There may be none.
    fn truncate(&self, from: u64, done: Done);

    /// Removes all entries up to and including `upto`, which may be beyond the last, and writes the
    /// named value `marker`.
    ///
    /// The marker never lags behind the log, and is never on the disk before a snapshot that was put
    /// earlier. Purging after that snapshot's Done avoids a wait in this call.
    fn purge(&self, upto: u64, marker: (&'static str, Bytes), done: Done);

    /// Returns a named value.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the read fails.
    fn value(&self, name: &str) -> Result<Option<Bytes>, StoreError>;

    /// Writes a named value of at most [`VALUE_BYTES_MAX`] bytes.
    fn put(&self, name: &'static str, value: Bytes, done: Done);

    /// Writes a named value without a flush of its own. It is on the disk when a later write is. After
    /// a crash before that, the former value may be left.
    fn hint(&self, name: &'static str, value: Bytes) {
        self.put(name, value, Box::new(|_| ()));
    }

    /// Returns the last snapshot.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the read fails.
    fn snapshot(&self) -> Result<Option<SnapshotItem>, StoreError>;

    /// Replaces the last snapshot, completely or not at all.
    fn put_snapshot(&self, snapshot: SnapshotItem, done: Done);
}

/// Checks that a named value is not too large.
fn check_value(name: &str, value: &[u8]) -> Result<(), StoreError> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::Refused {
        what: format!("writing the value {name}"),
        reason: format!(
            "it has {} bytes; at most {VALUE_BYTES_MAX} are allowed",
            value.len()
        ),
    })
}

/// Checks that entries may follow a log: without gaps, after its last entry, and not below `floor`,
/// which is one above what was purged. An empty log takes any entry that is not below the floor.
fn check_append(
    floor: u64,
    bounds: Option<(u64, u64)>,
    items: &[LogItem],
) -> Result<(), StoreError> {
    let mut expected = bounds.map(|(_, last)| last.saturating_add(1));
    for item in items {
        let allowed = match expected {
            Some(next) => item.index == next,
            None => item.index >= floor,
        };
        if !allowed {
            let reason = match expected {
                Some(next) => format!("the next entry of the log must be {next}"),
                None => format!("everything below {floor} was purged"),
            };
            let what = format!("appending entry {}", item.index);
            return Err(StoreError::Refused { what, reason });
        }
        expected = Some(item.index.saturating_add(1));
    }
    Ok(())
}
