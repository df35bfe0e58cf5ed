//! A disk in memory, for tests and the simulator. It is deterministic, has no threads, and models
//! exactly what a crash leaves.

mod image;

pub use image::MemoryImage;

use super::{Disk, Done, LogItem, SnapshotItem, StoreError};
use bytes::Bytes;
use image::Write;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A disk in memory that distinguishes durable writes from others.
///
/// A write can be read at once. It becomes durable, and its [`Done`] is called, when [`Self::sync`] is
/// called. A disk made by [`Self::synced`] does that with every write, before the write returns. Dones
/// are called on the thread that syncs, without any lock, so that they may write again.
#[derive(Debug)]
pub struct MemoryDisk {
    inner: Mutex<Inner>,
    each: SyncEach,
}

/// Time at which writes become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncEach {
    /// With every write.
    Write,
    /// When [`MemoryDisk::sync`] is called.
    Call,
}

#[derive(Default)]
struct Inner {
    /// Contents as they are read.
    seen: MemoryImage,
    /// Contents that a crash leaves. `seen` is `durable` with all of `waiting` applied.
    durable: MemoryImage,
    waiting: VecDeque<Waiting>,
    failed: Option<StoreError>,
    /// True while a thread is calling Dones. Another thread that syncs leaves the rest to it, so that
    /// the order is kept.
    syncing: bool,
    /// Number of crashes. A sync does not continue past a crash.
    crashes: u64,
}

/// A write whose turn has not come. Then it becomes durable, or, after an error, only its Done is
/// called.
struct Waiting {
    outcome: Result<Write, StoreError>,
    done: Done,
}

impl MemoryDisk {
    /// Creates an empty disk, on which nothing is durable before [`Self::sync`].
    #[must_use]
    pub fn new() -> Self {
        Self::from_image(MemoryImage::default())
    }

    /// Creates an empty disk, on which every write is durable at once.
    #[must_use]
    pub fn synced() -> Self {
        Self::with(MemoryImage::default(), SyncEach::Write)
    }

    /// Creates a disk with the contents of an image. Later writes are not durable before
    /// [`Self::sync`].
    #[must_use]
    pub fn from_image(image: MemoryImage) -> Self {
        Self::with(image, SyncEach::Call)
    }

    fn with(image: MemoryImage, each: SyncEach) -> Self {
        let inner = Inner {
            seen: image.clone(),
            durable: image,
            ..Inner::default()
        };
        Self {
            inner: Mutex::new(inner),
            each,
        }
    }

    /// Returns the durable contents, which a crash now would leave.
    #[must_use]
    pub fn image(&self) -> MemoryImage {
        self.lock().durable.clone()
    }

    /// Returns the number of writes that are not durable yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Makes all writes durable and calls their Dones in order, including those of writes made by these
    /// Dones.
    pub fn sync(&self) {
        self.sync_some(usize::MAX);
    }

    /// Makes the first `writes` pending writes durable and calls their Dones. Does nothing when called
    /// from a Done, whose sync handles these writes in turn.
    pub fn sync_some(&self, writes: usize) {
        let crashes = {
            let mut inner = self.lock();
            if inner.syncing {
                return;
            }
            inner.syncing = true;
            inner.crashes
        };
        for _ in 0..writes {
            let Some((done, result)) = self.lock().settle_next(crashes) else {
                return;
            };
            done(result);
        }
        self.lock().stop_syncing(crashes);
    }

    /// Loses everything that is not durable, as a crash does. Pending Dones are dropped and never
    /// called. The disk continues with the durable contents, as if it had been opened again, also after
    /// [`Self::fail_with`].
    pub fn crash(&self) {
        let lost = {
            let mut inner = self.lock();
            inner.seen = inner.durable.clone();
            inner.failed = None;
            inner.syncing = false;
            inner.crashes = inner.crashes.wrapping_add(1);
            std::mem::take(&mut inner.waiting)
        };
        // Dropped outside of the lock: the contents of a Done may use the disk when they are dropped.
        drop(lost);
    }

    /// Crashes as [`Self::crash`] does, except that the first `kept` pending writes had reached the
    /// disk, although their Dones were not called.
    pub fn crash_keeping(&self, kept: usize) {
        {
            let mut inner = self.lock();
            let Inner {
                durable, waiting, ..
            } = &mut *inner;
            for waiting in waiting.iter().take(kept) {
                if let Ok(write) = &waiting.outcome {
                    durable.apply(write.clone());
                }
            }
        }
        self.crash();
    }

    /// Makes the disk fail from now on. No pending or later write becomes durable. Their Dones get this
    /// error, those of pending writes at the next sync. Reads continue to work.
    pub fn fail_with(&self, error: StoreError) {
        self.lock().failed = Some(error);
    }

    fn write(&self, write: Write, done: Done) {
        {
            let mut inner = self.lock();
            let outcome = match inner.failed.clone() {
                Some(error) => Err(error),
                None => inner.seen.check(&write).map(|()| write),
            };
            if let Ok(write) = &outcome {
                inner.seen.apply(write.clone());
            }
            inner.waiting.push_back(Waiting { outcome, done });
        }
        if self.each == SyncEach::Write {
            self.sync();
        }
    }

    /// The state is consistent between any two statements that could panic, so a poisoned lock can be
    /// ignored.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes the next write, makes it durable, and returns its Done. Ends the sync if there is none, or
    /// if the disk has crashed since the sync began.
    fn settle_next(&mut self, crashes: u64) -> Option<(Done, Result<(), StoreError>)> {
        if self.crashes != crashes {
            return None;
        }
        let Some(Waiting { outcome, done }) = self.waiting.pop_front() else {
            self.syncing = false;
            return None;
        };
        let outcome = match self.failed.clone() {
            Some(error) => Err(error),
            None => outcome,
        };
        Some((done, outcome.map(|write| self.durable.apply(write))))
    }

    fn stop_syncing(&mut self, crashes: u64) {
        if self.crashes == crashes {
            self.syncing = false;
        }
    }
}

impl Disk for MemoryDisk {
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        Ok(self.lock().seen.bounds())
    }

    fn entries(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<LogItem>, StoreError> {
        Ok(self.lock().seen.entries(range, bytes_max))
    }

    fn append(&self, items: Vec<LogItem>, done: Done) {
        self.write(Write::Append(items), done);
    }

    fn truncate(&self, from: u64, done: Done) {
        self.write(Write::Truncate(from), done);
    }

    fn purge(&self, upto: u64, marker: (&'static str, Bytes), done: Done) {
        self.write(Write::Purge(upto, marker), done);
    }

    fn value(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        Ok(self.lock().seen.value(name))
    }

    fn put(&self, name: &'static str, value: Bytes, done: Done) {
        self.write(Write::Put(name, value), done);
    }

    fn snapshot(&self) -> Result<Option<SnapshotItem>, StoreError> {
        Ok(self.lock().seen.snapshot())
    }

    fn put_snapshot(&self, snapshot: SnapshotItem, done: Done) {
        self.write(Write::PutSnapshot(snapshot), done);
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("bounds", &self.seen.bounds())
            .field("durable", &self.durable.bounds())
            .field("waiting", &self.waiting.len())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/store/memory.rs"]
mod tests;
