//! A node's disk: a disk in memory whose flushes take time.

use super::event_log::{EventLog, Happened};
use super::host::now;
use crate::draw::Draw;
use crate::scenario::DamagedPart;
use aliquot_coordinator::store::{Disk, Done, LogItem, MemoryDisk, SnapshotItem, StoreError};
use bytes::Bytes;
use std::ops::{Range, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The time that a flush of a node's disk takes.
#[derive(Debug)]
pub(super) struct FlushTime {
    usual: Duration,
    /// Time by which a fault makes it longer, in nanoseconds.
    slower: AtomicU64,
}

impl FlushTime {
    pub(super) const fn new(usual: Duration) -> Self {
        Self {
            usual,
            slower: AtomicU64::new(0),
        }
    }

    /// Makes flushes take longer by this number of nanoseconds, from the next one on.
    pub(super) fn make_slower(&self, nanos: u64) {
        self.slower.store(nanos, Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        self.usual + Duration::from_nanos(self.slower.load(Ordering::Relaxed))
    }
}

/// Damaged part of a disk.
#[derive(Clone, Debug)]
enum Damaged {
    /// The entry with this index.
    Entry(u64),
    /// The snapshot with this metadata. A later one that takes its place is intact.
    Snapshot(Bytes),
}

impl Damaged {
    /// Draws what to damage. Returns `None` if the disk has no such part.
    fn choose(memory: &MemoryDisk, part: DamagedPart, mut draw: Draw) -> Option<Self> {
        match part {
            DamagedPart::Entry => {
                let (first, last) = memory.bounds().ok().flatten()?;
                Some(Self::Entry(draw.range(first, last + 1)))
            }
            DamagedPart::Snapshot => {
                let snapshot = memory.snapshot().ok().flatten()?;
                Some(Self::Snapshot(snapshot.meta))
            }
        }
    }
}

/// Damages a part of a disk instead of what was damaged. Returns false, and changes nothing, if the disk has no such part.
fn damage(
    damaged: &mut Option<Damaged>,
    memory: &MemoryDisk,
    part: DamagedPart,
    draw: Draw,
) -> bool {
    let found = Damaged::choose(memory, part, draw);
    let took = found.is_some();
    *damaged = found.or(damaged.take());
    took
}

/// Returns the error of a reader that compares checksums.
fn differs(what: String) -> StoreError {
    StoreError::Damaged {
        what,
        reason: "its checksum differs".to_owned(),
    }
}

/// Contents of a node's disk while no process uses it.
#[derive(Debug, Default)]
pub(super) struct Image {
    memory: MemoryDisk,
    damaged: Option<Damaged>,
}

impl Image {
    /// Damages a part of the disk. Returns false if the disk has no such part.
    pub(super) fn damage(&mut self, part: DamagedPart, draw: Draw) -> bool {
        damage(&mut self.damaged, &self.memory, part, draw)
    }
}

/// The disk of a node, from one start of its process to the next crash.
#[derive(Debug)]
pub(super) struct NodeDisk {
    node: usize,
    memory: MemoryDisk,
    damaged: Mutex<Option<Damaged>>,
    wrote: Notify,
    event_log: EventLog,
}

impl NodeDisk {
    pub(super) fn new(node: usize, image: Image, event_log: EventLog) -> Self {
        Self {
            node,
            memory: image.memory,
            damaged: Mutex::new(image.damaged),
            wrote: Notify::new(),
            event_log,
        }
    }

    /// Returns the disk for the next start after a crash. The first `kept` of the writes that were not
    /// flushed have survived.
    pub(super) fn after_crash(&self, kept: usize) -> Image {
        self.memory.crash_keeping(kept);
        Image {
            memory: MemoryDisk::from_image(self.memory.image()),
            damaged: self.lock_damaged().clone(),
        }
    }

    fn lock_damaged(&self) -> MutexGuard<'_, Option<Damaged>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Damages a part of the disk. Returns false if the disk has no such part.
    pub(super) fn damage(&self, part: DamagedPart, draw: Draw) -> bool {
        damage(&mut self.lock_damaged(), &self.memory, part, draw)
    }

    /// Reads all entries, as the store does when it is opened.
    ///
    /// # Errors
    /// If one of them is damaged.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.memory.bounds()? {
            Some((first, last)) => self.intact(first..last + 1),
            None => Ok(()),
        }
    }

    /// Returns an error if the range has the damaged entry.
    fn intact(&self, entries: Range<u64>) -> Result<(), StoreError> {
        match *self.lock_damaged() {
            Some(Damaged::Entry(damaged)) if entries.contains(&damaged) => {
                Err(differs(format!("entry {damaged} of the log")))
            }
            _ => Ok(()),
        }
    }

    /// Forgets the damage if its entry is in the range, which is written anew or dropped.
    fn drops(&self, entries: impl RangeBounds<u64>) {
        let mut damaged = self.lock_damaged();
        damaged
            .take_if(|damaged| matches!(damaged, Damaged::Entry(entry) if entries.contains(entry)));
    }

    pub(super) fn waiting(&self) -> usize {
        self.memory.waiting()
    }

    /// Makes every write fail from now on.
    pub(super) fn fail(&self) {
        self.memory.fail_with(StoreError::Io {
            what: "writing to the log".to_owned(),
            reason: "no space left on device".to_owned(),
        });
        self.wrote.notify_one();
    }

    /// Flushes writes, `time` after the first of them. One flush covers all writes that wait.
    pub(super) async fn flush(self: Arc<Self>, time: Arc<FlushTime>) {
        loop {
            self.wrote.notified().await;
            tokio::time::sleep(time.now()).await;
            self.memory.sync();
        }
    }

    fn wrote(&self) {
        self.wrote.notify_one();
    }
}

impl Disk for NodeDisk {
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        self.memory.bounds()
    }

    fn entries(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<LogItem>, StoreError> {
        let items = self.memory.entries(range, bytes_max)?;
        if let (Some(first), Some(last)) = (items.first(), items.last()) {
            self.intact(first.index..last.index + 1)?;
        }
        Ok(items)
    }

    fn append(&self, items: Vec<LogItem>, done: Done) {
        let written = items
            .iter()
            .map(|item| (now(), self.node, item.index, item.bytes.clone()));
        self.event_log.write(written.map(Happened::Written));
        self.memory.append(items, done);
        self.wrote();
    }

    fn truncate(&self, from: u64, done: Done) {
        self.drops(from..);
        self.memory.truncate(from, done);
        self.wrote();
    }

    fn purge(&self, upto: u64, marker: (&'static str, Bytes), done: Done) {
        self.drops(..=upto);
        self.memory.purge(upto, marker, done);
        self.wrote();
    }

    fn value(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        self.memory.value(name)
    }

    fn put(&self, name: &'static str, value: Bytes, done: Done) {
        self.memory.put(name, value, done);
        self.wrote();
    }

    fn snapshot(&self) -> Result<Option<SnapshotItem>, StoreError> {
        let snapshot = self.memory.snapshot()?;
        match (&snapshot, &*self.lock_damaged()) {
            (Some(read), Some(Damaged::Snapshot(damaged))) if read.meta == damaged => {
                Err(differs("the snapshot".to_owned()))
            }
            _ => Ok(snapshot),
        }
    }

    fn put_snapshot(&self, snapshot: SnapshotItem, done: Done) {
        self.memory.put_snapshot(snapshot, done);
        self.wrote();
    }
}
