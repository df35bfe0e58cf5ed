//! What a node keeps on disk: a log of opaque entries, a few named values, and
//! the last snapshot.
//!
//! Nothing here knows what an entry says. Writing is asked for and later done:
//! a write can be read as soon as the call returns, and is on the disk when its
//! [`Done`] is called. Writes reach the disk, and Dones are called, in the order
//! in which they were made, so that a vote and the log never overtake each
//! other; and one flush serves all that wait for it. Only snapshots, which may
//! take long, hold nobody up: the Done of a snapshot is called after those of
//! the writes before it, and perhaps after those of later writes too.
//!
//! A write that fails on the disk ends all writing: what became of it is not
//! known before the store is opened again, so every later Done gets an error.
//! A write that is [`StoreError::Refused`] changes nothing, and the next may succeed.

mod file;
mod identity;
mod memory;
mod sled;

pub(crate) use identity::START_ANEW;
pub use identity::{DataDir, DataDirError};
pub use memory::{MemoryDisk, MemoryImage};
pub use sled::SledDisk;

use bytes::Bytes;
use std::fmt;
use std::ops::Range;

/// What is called once a write is on the disk, or will never be.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Why the store cannot go on, or cannot begin, with what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk refused. What was written last may be lost; what was done is not.
    #[error("{what} failed: {reason}")]
    Io {
        /// What was tried, and on which path.
        what: String,
        /// What the operating system said.
        reason: String,
    },
    /// What is there is not what was written.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// What was read.
        what: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The write would have left a hole in the log, or an entry below what was
    /// purged, or is too large. Nothing was changed, and the store goes on.
    #[error("{what} was refused: {reason}")]
    Refused {
        /// What was asked for.
        what: String,
        /// What the log holds, and what it would take.
        reason: String,
    },
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogItem {
    /// Its place, counted without gaps, from 0 or 1 as its writer likes; a log that
    /// was purged begins later.
    pub index: u64,
    /// What it says.
    pub bytes: Bytes,
}

/// A snapshot of everything that the log before it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotItem {
    /// Of what it is a snapshot, as its writer says it.
    pub meta: Bytes,
    /// What it says.
    pub data: Bytes,
}

/// The most bytes a named value may have.
pub const VALUE_BYTES_MAX: usize = 4096;

/// A disk, or what stands for one in a simulation.
pub trait Disk: fmt::Debug + Send + Sync {
    /// The first and the last index of the log; `None` if it is empty.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError>;

    /// The entries of a range that are there, in order, without gaps. At least one
    /// if there is any, and no more than that when more would have above
    /// `bytes_max` bytes altogether. The range may be empty or reach beyond the log.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn entries(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<LogItem>, StoreError>;

    /// Appends entries, all or none, that follow the last one without a gap. An
    /// empty log takes any index above what was purged. No entries are a write too:
    /// their Done says that all before them is on the disk.
    fn append(&self, items: Vec<LogItem>, done: Done);

    /// Removes all entries from `from` on, all or none; there may be none.
    fn truncate(&self, from: u64, done: Done);

    /// Removes all entries up to and with `upto`, which may be beyond the last,
    /// and writes the named value `marker`, which never lags behind the log. It is
    /// never on the disk before a snapshot that was put earlier; putting it after
    /// that snapshot's Done spares the caller waiting for that.
    fn purge(&self, upto: u64, marker: (&'static str, Bytes), done: Done);

    /// A named value.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn value(&self, name: &str) -> Result<Option<Bytes>, StoreError>;

    /// Writes a named value of at most [`VALUE_BYTES_MAX`] bytes.
    fn put(&self, name: &'static str, value: Bytes, done: Done);

    /// The same of a value that nobody waits for: it is on the disk when a write that is made
    /// later is, and a crash before that may leave the value that was there.
    fn hint(&self, name: &'static str, value: Bytes) {
        self.put(name, value, Box::new(|_| ()));
    }

    /// The last snapshot.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn snapshot(&self) -> Result<Option<SnapshotItem>, StoreError>;

    /// Replaces the last snapshot, whole or not at all.
    fn put_snapshot(&self, snapshot: SnapshotItem, done: Done);
}

/// Whether a named value may be written.
fn check_value(name: &str, value: &[u8]) -> Result<(), StoreError> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::Refused {
        what: format!("writing the value {name}"),
        reason: format!(
            "it has {} bytes, and {VALUE_BYTES_MAX} are the most",
            value.len()
        ),
    })
}

/// Whether entries may follow a log: without gaps, after its last one, and not
/// below `floor`, which is one above what was purged. An empty log takes any
/// entry that is not below the floor.
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
