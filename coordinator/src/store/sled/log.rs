//! The entries in their sled tree. The caller keeps the first and the last index, under its lock.

use super::error::io_error;
use super::layout::{Assembly, damaged, log_key, parse_key, pieces};
use crate::store::{LogItem, StoreError};
use sled::{Batch, Tree};
use std::ops::Range;

/// The sled tree of the entries.
#[derive(Debug)]
pub(super) struct Log {
    tree: Tree,
}

impl Log {
    pub(super) fn new(tree: Tree) -> Self {
        Self { tree }
    }

    /// Reads the whole log from `floor` on, and returns its first and last index.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if it has a hole or an incomplete entry.
    pub(super) fn check(&self, floor: u64) -> Result<Option<(u64, u64)>, StoreError> {
        let mut bounds: Option<(u64, u64)> = None;
        self.walk(log_key(floor), |item| {
            let first = match bounds {
                None => item.index,
                Some((first, last)) if item.index == last.saturating_add(1) => first,
                Some((_, last)) => {
                    let reason = format!("after entry {last} comes entry {}", item.index);
                    return Err(damaged(&reason));
                }
            };
            bounds = Some((first, item.index));
            Ok(Walk::On)
        })?;
        Ok(bounds)
    }

    /// Returns the entries of a range: see [`crate::store::Disk::entries`].
    pub(super) fn entries(
        &self,
        range: Range<u64>,
        bytes_max: usize,
    ) -> Result<Vec<LogItem>, StoreError> {
        let mut items = Vec::new();
        let mut total = 0usize;
        if range.is_empty() {
            return Ok(items);
        }
        self.walk(log_key(range.start), |item| {
            total = total.saturating_add(item.bytes.len());
            if item.index >= range.end || (total > bytes_max && !items.is_empty()) {
                return Ok(Walk::Stop);
            }
            let walk = if item.index.saturating_add(1) >= range.end || total >= bytes_max {
                Walk::Stop
            } else {
                Walk::On
            };
            items.push(item);
            Ok(walk)
        })?;
        Ok(items)
    }

    /// Appends entries, all or none. A single piece is inserted without a batch, because sled writes a
    /// batch in two steps.
    pub(super) fn append(&self, items: &[LogItem]) -> Result<(), StoreError> {
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            all.append(&mut pieces(item)?);
        }
        if let [(key, value)] = &all[..] {
            let inserted = self.tree.insert(key, value);
            return inserted.map(drop).map_err(|error| write_error(&error));
        }
        let mut batch = Batch::default();
        for (key, value) in all {
            batch.insert(&key, value);
        }
        self.apply(batch)
    }

    /// Removes the entries from `from` on, all or none.
    pub(super) fn truncate(&self, from: u64) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for key in self.tree.range(log_key(from)..).keys() {
            batch.remove(key.map_err(|error| io_error("reading the log", &error))?);
        }
        self.apply(batch)
    }

    /// Removes some of the pieces below `floor`. They are not read any more, so that they can be
    /// removed one by one at any time.
    pub(super) fn sweep(&self, floor: u64) -> Result<Swept, StoreError> {
        let mut batch = Batch::default();
        let mut removed = 0usize;
        for key in self.tree.range(..log_key(floor)).keys().take(SWEEP_PIECES) {
            let key = key.map_err(|error| io_error("reading the log", &error))?;
            parse_key(&key)?;
            batch.remove(key);
            removed = removed.saturating_add(1);
        }
        self.apply(batch)?;
        Ok(if removed < SWEEP_PIECES {
            Swept::All
        } else {
            Swept::Some
        })
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.tree
            .apply_batch(batch)
            .map_err(|error| write_error(&error))
    }

    /// Passes entries in order, from a key on, to `show` until it returns [`Walk::Stop`].
    fn walk(
        &self,
        from: [u8; 12],
        mut show: impl FnMut(LogItem) -> Result<Walk, StoreError>,
    ) -> Result<(), StoreError> {
        let mut assembly = Assembly::default();
        for pair in self.tree.range(from..) {
            let (key, value) = pair.map_err(|error| io_error("reading the log", &error))?;
            let Some(item) = assembly.take(&key, &value)? else {
                continue;
            };
            if show(item)? == Walk::Stop {
                return Ok(());
            }
        }
        if assembly.is_between() {
            Ok(())
        } else {
            Err(damaged("its last entry has pieces missing"))
        }
    }
}

fn write_error(error: &sled::Error) -> StoreError {
    io_error("writing the log", error)
}

/// Number of pieces that one step of sweeping removes. A step delays writers for about a tenth of a
/// millisecond.
const SWEEP_PIECES: usize = 64;

/// Answer of a visitor of entries: to continue, or to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    On,
    Stop,
}

/// Result of one step of sweeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    /// Everything was removed.
    All,
    /// Some pieces were removed, and there may be more.
    Some,
}
