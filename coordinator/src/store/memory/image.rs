//! The contents of a disk as one value, and the effect of writes on it.

use crate::store::{LogItem, SnapshotItem, StoreError};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Contents of a memory disk, now or at a crash.
///
/// The bytes are shared, not copied: a clone costs one step per entry.
///
/// Invariants: the log has no gaps, and none of it is below `floor`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryImage {
    /// Smallest index that an entry may have: one above what was purged.
    floor: u64,
    log: BTreeMap<u64, Bytes>,
    values: BTreeMap<&'static str, Bytes>,
    snapshot: Option<SnapshotItem>,
}

/// A write that is not durable yet.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Append(Vec<LogItem>),
    Truncate(u64),
    Purge(u64, (&'static str, Bytes)),
    Put(&'static str, Bytes),
    PutSnapshot(SnapshotItem),
}

impl MemoryImage {
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        let (first, _) = self.log.first_key_value()?;
        let (last, _) = self.log.last_key_value()?;
        Some((*first, *last))
    }

    pub(super) fn entries(&self, range: Range<u64>, bytes_max: usize) -> Vec<LogItem> {
        if range.is_empty() {
            return Vec::new();
        }
        let mut items = Vec::new();
        let mut total = 0usize;
        for (index, bytes) in self.log.range(range) {
            total = total.saturating_add(bytes.len());
            if total > bytes_max && !items.is_empty() {
                break;
            }
            items.push(LogItem {
                index: *index,
                bytes: bytes.clone(),
            });
        }
        items
    }

    pub(super) fn value(&self, name: &str) -> Option<Bytes> {
        self.values.get(name).cloned()
    }

    pub(super) fn snapshot(&self) -> Option<SnapshotItem> {
        self.snapshot.clone()
    }

    /// Checks that a write may be made.
    pub(super) fn check(&self, write: &Write) -> Result<(), StoreError> {
        match write {
            Write::Append(items) => crate::store::check_append(self.floor, self.bounds(), items),
            Write::Purge(_, (name, value)) | Write::Put(name, value) => {
                crate::store::check_value(name, value)
            }
            Write::Truncate(_) | Write::PutSnapshot(_) => Ok(()),
        }
    }

    /// Makes a write that [`Self::check`] accepted.
    pub(super) fn apply(&mut self, write: Write) {
        match write {
            Write::Append(items) => {
                self.log
                    .extend(items.into_iter().map(|item| (item.index, item.bytes)));
            }
            Write::Truncate(from) => drop(self.log.split_off(&from)),
            Write::Purge(upto, (name, value)) => {
                self.values.insert(name, value);
                self.floor = self.floor.max(upto.saturating_add(1));
                self.log = self.log.split_off(&self.floor);
            }
            Write::Put(name, value) => drop(self.values.insert(name, value)),
            Write::PutSnapshot(snapshot) => self.snapshot = Some(snapshot),
        }
    }
}
