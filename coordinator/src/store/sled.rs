//! A disk on sled: the log and the values are in one database, and the last snapshot in a file beside
//! it.
//!
//! A write is applied at once on the calling thread, and queued. Another thread flushes whenever writes
//! wait, so that one flush serves many writes.
//!
//! ```text
//! DIR/db/        sled's files
//! DIR/snapshot   the last snapshot
//! DIR.watermark  how much was on the disk
//! ```

mod error;
mod layout;
mod log;
mod queue;
mod shared;
mod snapshot;
#[cfg(test)]
#[path = "../../tests/unit/store/sled.rs"]
mod tests;
mod values;
mod watermark;
mod work;
mod worker;

use super::{Disk, Done, LogItem, SnapshotItem, StoreError, file};
use bytes::Bytes;
use error::{damaged, io_error, open_error, path_error, unmarked};
use log::Log;
use queue::Queue;
use shared::{Book, Shared, Sync};
use snapshot::SnapshotFile;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use values::{Found, Record, Values};
use watermark::{Level, Watermark};
use work::{DiskTask, Written};

/// A disk on sled.
///
/// After a flush has failed, nothing is written any more, and every Done gets that error. The data of
/// the failed flush may be gone from the page cache, and only opening the store again shows what was
/// written. Dropping this waits until all writes are on the disk and every Done was called.
#[derive(Debug)]
pub struct SledDisk {
    /// `None` only while this is dropped.
    shared: Option<Arc<Shared>>,
    threads: Vec<(JoinHandle<()>, OnShared)>,
}

/// Number of attempts to open a database that another process has locked, and the pause between them.
const LOCKED_TRIES: u32 = 50;
const LOCKED_NAP: Duration = Duration::from_millis(20);

/// The work of a thread, and the call that lets it end.
type OnShared = fn(&Shared);

/// Bytes of pages that sled keeps in memory. Reads are of the end of the log, and after a start of all of it; the
/// system's cache has the rest.
const CACHE_BYTES: u64 = 4 << 20;

impl SledDisk {
    /// Opens the store in a directory, and creates the directory if it is missing. Reads all of the
    /// store once to check that it is complete. A file beside the directory, with the same name and the
    /// suffix `.watermark`, records how much must be there.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] if the directory cannot be used, or another process uses it.
    /// [`StoreError::Damaged`] if the contents differ from what was written, or are less than what was
    /// reported to be on the disk. The error describes how to proceed.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(dir.as_ref(), |db_file| {
            Box::new(move || db_file.sync_data())
        })
    }

    fn open_with(dir: &Path, sync: impl FnOnce(File) -> Sync) -> Result<Self, StoreError> {
        let db_dir = dir.join("db");
        let mark_path = watermark_of(dir);
        let mark = Watermark::open(&mark_path)?;
        let recorded = mark.as_ref().map_or(Level::default(), Watermark::level);
        if recorded.flush > 0 && !db_dir.join("db").exists() {
            return Err(lost(&db_dir, Level::default(), recorded));
        }
        fs::create_dir_all(&db_dir).map_err(|error| path_error("creating", &db_dir, &error))?;
        remove_unfinished(&db_dir)?;
        let db = open_db(&db_dir)?;
        let db_file = make_durable(dir, &db_dir)?;
        let tree = |name: &str| {
            let tree = db.open_tree(name);
            tree.map_err(|error| open_error(&db_dir, error))
        };
        let (values, log) = (Values::new(tree("values")?), Log::new(tree("log")?));
        let snapshots = SnapshotFile::open(dir.join("snapshot"))?;
        let Found { record, old } = values.read()?;
        if record.flush < recorded.flush {
            return Err(lost(&db_dir, record.level(), recorded));
        }
        let bounds = log.check(record.floor)?;
        check_bounds(&db_dir, &record, bounds)?;
        let watermark = match mark {
            Some(mark) => mark,
            // The watermark is created before the first record.
            None if record.flush > 0 => return Err(unmarked(&mark_path)),
            None => Watermark::create(&mark_path, Level::default())?,
        };
        let mut record = Record { bounds, ..record };
        if !old.is_empty() {
            record.flush = record.flush.saturating_add(1);
            values.replace(&record, old)?;
        }
        let book = Book {
            record,
            ..Book::default()
        };
        let shared = Shared {
            db,
            sync: sync(db_file),
            log,
            values,
            snapshots,
            watermark,
            book: book.into(),
            jobs: Queue::new(),
            disk_tasks: Queue::new(),
        };
        shared.disk_tasks.push(DiskTask::Sweep);
        Self::start(Arc::new(shared))
    }

    fn start(shared: Arc<Shared>) -> Result<Self, StoreError> {
        let mut disk = Self {
            shared: Some(Arc::clone(&shared)),
            threads: Vec::new(),
        };
        let parts: [(&str, OnShared, OnShared); 2] = [
            ("store-flush", worker::flush_all, |shared| {
                shared.jobs.close()
            }),
            ("store-disk-tasks", worker::do_disk_tasks, |shared| {
                shared.disk_tasks.close()
            }),
        ];
        for (name, run, close) in parts {
            let shared = Arc::clone(&shared);
            let builder = thread::Builder::new().name(name.to_owned());
            let thread = builder.spawn(move || run(&shared));
            let thread = thread.map_err(|error| io_error("starting a thread", &error))?;
            disk.threads.push((thread, close));
        }
        Ok(disk)
    }

    /// Returns true if anything was ever written into the store.
    pub(super) fn was_written(&self) -> bool {
        let book = self.shared().book();
        book.record.flush > 0 || book.record.bounds.is_some()
    }

    fn shared(&self) -> &Shared {
        self.shared.as_ref().expect("it is taken by drop alone")
    }
}

impl Disk for SledDisk {
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        Ok(self.shared().book().record.bounds)
    }

    fn entries(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<LogItem>, StoreError> {
        let bounds = self.shared().book().record.bounds;
        let Some((first, last)) = bounds else {
            return Ok(Vec::new());
        };
        let range = range.start.max(first)..range.end.min(last.saturating_add(1));
        self.shared().log.entries(range, bytes_max)
    }

    fn append(&self, items: Vec<LogItem>, done: Done) {
        self.shared()
            .write(done, |shared, book| shared.append(book, &items));
    }

    fn truncate(&self, from: u64, done: Done) {
        self.shared()
            .write(done, |shared, book| shared.truncate(book, from));
    }

    fn purge(&self, upto: u64, marker: (&'static str, Bytes), done: Done) {
        self.shared()
            .write(done, |shared, book| shared.purge(book, upto, marker));
    }

    fn value(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        Ok(self.shared().book().record.values.get(name).cloned())
    }

    fn put(&self, name: &'static str, value: Bytes, done: Done) {
        self.shared()
            .write(done, |shared, book| shared.put(book, name, value));
    }

    fn hint(&self, name: &'static str, value: Bytes) {
        self.shared().hint(name, value);
    }

    fn snapshot(&self) -> Result<Option<SnapshotItem>, StoreError> {
        let pending = self.shared().book().pending.clone();
        match pending {
            Some((_, snapshot)) => Ok(Some(snapshot)),
            None => self.shared().snapshots.read(),
        }
    }

    fn put_snapshot(&self, snapshot: SnapshotItem, done: Done) {
        self.shared().write(done, |_, book| {
            book.snapshots = book.snapshots.saturating_add(1);
            book.pending = Some((book.snapshots, snapshot.clone()));
            Ok(Written::Snapshot(book.snapshots, snapshot))
        });
    }
}

impl Drop for SledDisk {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        // In this order, because the flushing thread still queues work for the other one.
        for (thread, close) in self.threads.drain(..) {
            close(&shared);
            // A Done may own the last reference to the store. Then its thread must not join itself.
            if thread.thread().id() != thread::current().id() {
                drop(thread.join());
            }
        }
        // After a failed flush, sled panics if its last flush fails as well.
        drop(catch_unwind(AssertUnwindSafe(|| drop(shared))));
    }
}

/// Returns the parts that a store always has: the directory, the database and the watermark. None of
/// them is ever replaced by another file.
pub(super) fn parts(dir: &Path) -> [PathBuf; 3] {
    [dir.to_owned(), dir.join("db/db"), watermark_of(dir)]
}

/// Returns the path of the watermark. It is beside the directory, so that a restored old directory does
/// not bring its watermark along.
fn watermark_of(dir: &Path) -> PathBuf {
    let mut path = dir.components().as_path().as_os_str().to_owned();
    path.push(".watermark");
    path.into()
}

/// Checks that the log has at least the entries that the record lists: see [`Record`].
fn check_bounds(
    db_dir: &Path,
    record: &Record,
    bounds: Option<(u64, u64)>,
) -> Result<(), StoreError> {
    let Some((first, last)) = record.bounds else {
        return Ok(());
    };
    match bounds {
        Some(found) if found.0 == first && found.1 >= last => Ok(()),
        Some((begin, end)) => Err(damaged(
            db_dir,
            &format!(
                "entries {first} to {last} were written, and those from {begin} to {end} are left"
            ),
        )),
        None => Err(damaged(
            db_dir,
            &format!("entries {first} to {last} were written, and none is left"),
        )),
    }
}

/// Returns the error of a store that has less than its watermark records.
fn lost(db_dir: &Path, found: Level, recorded: Level) -> StoreError {
    let reason = format!(
        "it ends with write {} (entry {}), and write {} (entry {}) was on the disk: what came after was lost, \
         or the store was restored from a backup",
        found.flush, found.last, recorded.flush, recorded.last
    );
    damaged(db_dir, &reason)
}

/// Removes a file that is left if the process is killed while sled writes its own snapshot. sled would
/// take it for damage. Its contents are in sled's log too.
fn remove_unfinished(db_dir: &Path) -> Result<(), StoreError> {
    let fail = |error: io::Error| path_error("tidying", db_dir, &error);
    for item in fs::read_dir(db_dir).map_err(fail)? {
        let item = item.map_err(fail)?;
        let name = item.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(item.path()).map_err(fail)?;
        }
    }
    Ok(())
}

fn open_db(db_dir: &Path) -> Result<sled::Db, StoreError> {
    let config = sled::Config::new()
        .path(db_dir)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(None);
    let mut left = LOCKED_TRIES;
    loop {
        // Some damage makes sled panic instead of returning an error.
        match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => return Ok(db),
            // A process that is just being started may have the lock file open too.
            Ok(Err(sled::Error::Io(error))) if is_locked(&error) && left > 0 => {
                left -= 1;
                // There is no wait for the lock with a deadline.
                thread::park_timeout(LOCKED_NAP);
            }
            Ok(Err(error)) => return Err(open_error(db_dir, error)),
            Err(_) => return Err(damaged(db_dir, "sled cannot read it")),
        }
    }
}

/// Returns true for sled's error of a locked database, which wraps that of the system.
fn is_locked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.to_string().contains("could not acquire lock")
}

/// Flushes the files that sled creates without a flush: its settings and the directories. Returns a
/// separate handle of sled's database file.
fn make_durable(dir: &Path, db_dir: &Path) -> Result<File, StoreError> {
    let make = || {
        File::open(db_dir.join("conf"))?.sync_all()?;
        file::sync_dir(db_dir)?;
        file::sync_dir(dir)?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            file::sync_dir(parent)?;
        }
        File::options().write(true).open(db_dir.join("db"))
    };
    make().map_err(|error| path_error("flushing", dir, &error))
}
