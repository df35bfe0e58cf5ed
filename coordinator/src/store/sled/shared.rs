//! State shared by the callers and the two threads of a store on sled.
//!
//! Order of locks: first the book, then the file of the snapshot or a queue. A thread that holds one of
//! the latter takes no other lock.

use super::error::io_error;
use super::log::{Log, Swept};
use super::queue::Queue;
use super::snapshot::SnapshotFile;
use super::values::{Record, Values};
use super::watermark::Watermark;
use super::work::{DiskTask, Job, Written};
use crate::store::{Done, LogItem, SnapshotItem, StoreError, check_append, check_value};
use bytes::Bytes;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Flushes the page cache to the medium.
pub(super) type Sync = Box<dyn Fn() -> io::Result<()> + Send + std::marker::Sync>;

pub(super) struct Shared {
    pub(super) db: sled::Db,
    pub(super) sync: Sync,
    pub(super) log: Log,
    pub(super) values: Values,
    pub(super) snapshots: SnapshotFile,
    pub(super) watermark: Watermark,
    pub(super) book: Mutex<Book>,
    pub(super) jobs: Queue<Job>,
    pub(super) disk_tasks: Queue<DiskTask>,
}

/// State that is known without reading. Writes are made under its lock, so that their Dones are queued
/// in the order of the writes.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// State of the log, and the named values.
    pub(super) record: Record,
    /// True if a part of it has not been written yet.
    pub(super) is_stale: bool,
    /// The last snapshot and its number, until it is in its file.
    pub(super) pending: Option<(u64, SnapshotItem)>,
    /// Number of snapshots that were put since the store was opened.
    pub(super) snapshots: u64,
    /// Reason why nothing can be written any more. A failed flush may have dropped data, and a
    /// second flush would succeed without that data.
    pub(super) failed: Option<StoreError>,
}

impl Shared {
    /// Makes a write, and queues its Done for the next flush.
    pub(super) fn write(
        &self,
        done: Done,
        make: impl FnOnce(&Self, &mut Book) -> Result<Written, StoreError>,
    ) {
        let mut book = self.book();
        let outcome = match book.failed.clone() {
            Some(error) => Err(error),
            None => make(self, &mut book),
        };
        if let Err(error) = &outcome {
            book.fail(error);
        }
        self.jobs.push(Job { outcome, done });
    }

    /// Sets a value without a write of its own. The next flush writes it.
    pub(super) fn hint(&self, name: &'static str, value: Bytes) {
        let mut book = self.book();
        if book.failed.is_none() && check_value(name, &value).is_ok() {
            book.record.values.insert(name.to_owned(), value);
            book.is_stale = true;
        }
    }

    pub(super) fn append(&self, book: &mut Book, items: &[LogItem]) -> Result<Written, StoreError> {
        let bounds = book.record.bounds;
        check_append(book.record.floor, bounds, items)?;
        if let (Some(first), Some(last)) = (items.first(), items.last()) {
            self.log.append(items)?;
            let first = bounds.map_or(first.index, |(first, _)| first);
            book.record.bounds = Some((first, last.index));
            book.is_stale = true;
        }
        Ok(Written::Applied)
    }

    pub(super) fn truncate(&self, book: &mut Book, from: u64) -> Result<Written, StoreError> {
        if let Some((first, last)) = book.record.bounds
            && from <= last
        {
            let last = from.checked_sub(1).filter(|last| *last >= first);
            let mut record = book.record.clone();
            record.bounds = last.map(|last| (first, last));
            // The record is written first: after a crash it must not list entries that are gone.
            self.write_record(book, record)?;
            self.log.truncate(from.max(first))?;
        }
        Ok(Written::Applied)
    }

    /// Purges entries by raising the floor. The entries below it are removed later.
    pub(super) fn purge(
        &self,
        book: &mut Book,
        upto: u64,
        (name, value): (&'static str, Bytes),
    ) -> Result<Written, StoreError> {
        check_value(name, &value)?;
        if let Some((number, snapshot)) = &book.pending {
            // The purged entries may survive only in this snapshot.
            self.flush_now()?;
            self.snapshots.write(*number, snapshot)?;
            book.pending = None;
        }
        let mut record = book.record.clone();
        let floor = record.floor.max(upto.saturating_add(1));
        record.floor = floor;
        record.bounds = record
            .bounds
            .and_then(|(first, last)| (last >= floor).then_some((first.max(floor), last)));
        record.values.insert(name.to_owned(), value);
        self.write_record(book, record)?;
        self.disk_tasks.push(DiskTask::Sweep);
        Ok(Written::Applied)
    }

    pub(super) fn put(
        &self,
        book: &mut Book,
        name: &'static str,
        value: Bytes,
    ) -> Result<Written, StoreError> {
        check_value(name, &value)?;
        let mut record = book.record.clone();
        record.values.insert(name.to_owned(), value);
        self.write_record(book, record)?;
        Ok(Written::Applied)
    }

    /// Writes the record under the next number.
    fn write_record(&self, book: &mut Book, mut record: Record) -> Result<(), StoreError> {
        record.flush = record.flush.saturating_add(1);
        self.values.write(&record)?;
        book.record = record;
        book.is_stale = false;
        Ok(())
    }

    /// Flushes all writes to the medium and raises the watermark. After a failure it never flushes
    /// again.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let level = {
            let mut book = self.book();
            if let Some(error) = book.failed.clone() {
                return Err(error);
            }
            if book.is_stale {
                let record = book.record.clone();
                if let Err(error) = self.write_record(&mut book, record) {
                    book.fail(&error);
                    return Err(error);
                }
            }
            book.record.level()
        };
        self.poison_on_error(self.flush_now())?;
        if self.poison_on_error(self.watermark.raise(level))? {
            self.disk_tasks.push(DiskTask::Sync);
        }
        Ok(())
    }

    /// Flushes the last hints, for which no caller waits.
    pub(super) fn flush_rest(&self) {
        if self.book().is_stale {
            // No caller is left to receive an error.
            drop(self.flush());
        }
    }

    /// Flushes the watermark to the medium.
    pub(super) fn sync_watermark(&self) {
        // The next write returns the error.
        drop(self.poison_on_error(self.watermark.sync()));
    }

    fn flush_now(&self) -> Result<(), StoreError> {
        self.db
            .flush()
            .map_err(|error| io_error("flushing the store", &error))?;
        // On Linux, sled waits only until the page cache is written out, and does not flush the disk's
        // own cache.
        (self.sync)().map_err(|error| io_error("flushing the store", &error))
    }

    /// Writes a snapshot to its file, unless this was done already.
    pub(super) fn write_snapshot(
        &self,
        number: u64,
        snapshot: &SnapshotItem,
    ) -> Result<(), StoreError> {
        if let Some(error) = self.book().failed.clone() {
            return Err(error);
        }
        self.poison_on_error(self.snapshots.write(number, snapshot))?;
        let mut book = self.book();
        if book
            .pending
            .as_ref()
            .is_some_and(|(pending, _)| *pending == number)
        {
            book.pending = None;
        }
        Ok(())
    }

    /// Removes some of the purged entries.
    pub(super) fn sweep(&self) -> Swept {
        let floor = {
            let book = self.book();
            if book.failed.is_some() {
                return Swept::All;
            }
            book.record.floor
        };
        self.poison_on_error(self.log.sweep(floor))
            .unwrap_or(Swept::All)
    }

    fn poison_on_error<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result {
            self.book().fail(error);
        }
        result
    }

    /// No code here panics under the lock. If sled does, the book is as it was before the write.
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Ends all writing, unless nothing was changed. The first reason is kept.
    fn fail(&mut self, error: &StoreError) {
        if !matches!(error, StoreError::Refused { .. }) && self.failed.is_none() {
            self.failed = Some(error.clone());
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("book", &self.book)
            .finish_non_exhaustive()
    }
}
