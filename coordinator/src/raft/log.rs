//! The log, the votes and other persistent Raft state, stored on a [`Disk`].

use super::types::{
    Entry, LogId, Types, Vote, damaged, entry_in, entry_out, index_in, index_out, log_id_in,
    log_id_out, vote_in, vote_out,
};
use crate::store::{Disk, Done, LogItem, START_ANEW, StoreError};
use aliquot_core::planted::{self, Bug};
use aliquot_wire::Wire;
use aliquot_wire::raft as wire;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{OptionalSend, RaftTypeConfig};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// Key of the stored vote.
const VOTE: &str = "raft.vote";
/// Key of the stored index up to which the log was purged.
const PURGED: &str = "raft.purged";
/// Key of the stored index up to which the log is known to be committed.
const COMMITTED: &str = "raft.committed";

/// Maximum number of bytes of entries that are read at once to be sent, unless a single entry is
/// longer. It is far below the limit of a message, so that they are sent within its deadline.
const SEND_BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes of entries that are read at once to be applied.
const READ_BYTES_MAX: usize = 4 << 20;

/// The log on a disk. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct LogStore {
    disk: Arc<dyn Disk>,
    /// Index of the last entry that was handed to the disk, even if its write failed. openraft stops
    /// after a failed write, but may still apply entries before, and would not notice that some are
    /// missing here.
    handed: Arc<AtomicU64>,
}

impl LogStore {
    /// Opens the log. Completes a purge that was marked but not carried out, so that no entry below the
    /// mark is ever read again.
    pub(super) async fn open(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let store = Self {
            disk,
            handed: Arc::default(),
        };
        if let Some(purged) = store.purged()? {
            store.check_snapshot(&purged)?;
            let left = store.disk.bounds().map_err(failed)?;
            let upto = index_out(purged.index);
            if left.is_some_and(|(first, _)| first <= upto) {
                store.purge_upto(&purged).await?;
            }
        }
        Ok(store)
    }

    /// Checks that the snapshot contains the entries that were purged.
    fn check_snapshot(&self, purged: &LogId) -> io::Result<()> {
        let snapshot = self.disk.snapshot().map_err(failed)?;
        let meta = snapshot.map(|item| wire::SnapshotMeta::from_bytes(item.meta));
        let meta = meta.transpose();
        let meta = meta.map_err(|error| damaged(format!("the stored snapshot: {error}")))?;
        let reached = meta.and_then(|meta| meta.last).map_or(0, |last| last.index);
        let purged = index_out(purged.index);
        if reached >= purged {
            return Ok(());
        }
        Err(damaged(format!(
            "the log was purged up to entry {purged}, and the snapshot ends with entry {reached}: it is an old one, \
             or missing; {START_ANEW}"
        )))
    }

    /// Returns true if the log shows that there was a leader before this term. Other nodes may have had
    /// entries then that they have lost since.
    pub(super) fn had_a_leader_before(&self, term: u64) -> io::Result<bool> {
        if self.purged()?.is_some() {
            return Ok(true);
        }
        // The first entry initializes the cluster, the second is written by its first leader.
        let second = self.read(1..2, READ_BYTES_MAX)?.pop();
        Ok(second.is_some_and(|entry| entry.log_id.leader_id.term != term))
    }

    /// Returns true if this node has ever been part of a cluster. Entries count as soon as they are
    /// written, even before they are committed.
    pub(super) fn formed(&self) -> io::Result<bool> {
        if self.disk.bounds().map_err(failed)?.is_some() || self.purged()?.is_some() {
            return Ok(true);
        }
        Ok(self.disk.snapshot().map_err(failed)?.is_some())
    }

    fn purged(&self) -> io::Result<Option<LogId>> {
        Ok(self.value::<wire::LogId>(PURGED)?.map(log_id_in))
    }

    fn value<T: Wire>(&self, name: &str) -> io::Result<Option<T>> {
        let bytes = self.disk.value(name).map_err(failed)?;
        let value = bytes.map(T::from_bytes).transpose();
        value.map_err(|error| damaged(format!("the stored value {name}: {error}")))
    }

    /// Returns the first entries of a range of openraft's indices: at least one if there is any, and at
    /// most `bytes_max` bytes of them.
    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let purged = self.purged()?.map_or(0, |id| index_out(id.index));
        let from = index_out(range.start).max(purged.saturating_add(1));
        let to = index_out(range.end);
        // An empty or inverted range would panic in the maps below.
        if from >= to {
            return Ok(Vec::new());
        }
        let items = self.disk.entries(from..to, bytes_max).map_err(failed)?;
        items.into_iter().map(read_item).collect()
    }

    async fn purge_upto(&self, id: &LogId) -> io::Result<()> {
        let marker = (PURGED, log_id_out(id).to_bytes());
        let (done, finished) = waiter();
        // The mark is written first. Missing entries without a mark would be a gap, while a mark with
        // entries left is a purge to be completed.
        self.disk.purge(index_out(id.index), marker, done);
        wait(finished).await
    }
}

fn read_item(item: LogItem) -> io::Result<Entry> {
    let index = item.index;
    let entry = wire::Entry::from_bytes(item.bytes)
        .map_err(|error| damaged(format!("entry {index} of the log: {error}")))?;
    if entry.id.index != index {
        let found = entry.id.index;
        return Err(damaged(format!("entry {index} of the log says {found}")));
    }
    entry_in(entry)
}

/// Returns the next entries of a range, and the rest of the range. Returns an error if the disk did not
/// take some of them: a caller that applied the rest would skip those.
async fn next_piece(
    (store, mut range): (LogStore, Range<u64>),
) -> io::Result<Option<(Vec<Entry>, (LogStore, Range<u64>))>> {
    let entries = store.read(range.clone(), READ_BYTES_MAX)?;
    let Some(last) = entries.last() else {
        let purged = store.purged()?.map_or(0, |id| index_out(id.index));
        let from = index_out(range.start).max(purged.saturating_add(1));
        let last = index_out(range.end).saturating_sub(1);
        let last = last.min(store.handed.load(Ordering::Acquire));
        if from <= last {
            let what = format!("entries {from} to {last} of the log were not written");
            return Err(io::Error::other(what));
        }
        return Ok(None);
    };
    range.start = last.log_id.index.saturating_add(1);
    Ok(Some((entries, (store, range))))
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let entries = self.entries_stream(range).await;
        entries.try_collect().await
    }

    // Read piece by piece, because the entries to be applied may exceed the memory.
    async fn entries_stream<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = io::Result<Entry>> + OptionalSend {
        let pieces = stream::try_unfold((self.clone(), plain(&range)), next_piece);
        pieces
            .map_ok(|entries| stream::iter(entries.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.value::<wire::Vote>(VOTE)?.map(vote_in))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read(start..end, SEND_BYTES_MAX)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let purged = self.purged()?;
        let bounds = self.disk.bounds().map_err(failed)?;
        let last = match bounds {
            Some((_, last)) => self.read(index_in(last)..last, 1)?.pop(),
            None => None,
        };
        Ok(LogState {
            last_purged_log_id: purged,
            last_log_id: last.map(|entry| entry.log_id).or(purged),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (done, finished) = waiter();
        self.disk.put(VOTE, vote_out(vote).to_bytes(), done);
        wait(finished).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        // This only saves a restart some waiting, so it is not worth a flush. It cannot overtake the
        // entries it refers to, because the disk keeps the order of writes.
        if let Some(committed) = committed {
            let bytes = log_id_out(&committed).to_bytes();
            self.disk.hint(COMMITTED, bytes);
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.value::<wire::LogId>(COMMITTED)?.map(log_id_in))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = <Types as RaftTypeConfig>::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let items = entries.into_iter().map(|entry| LogItem {
            index: index_out(entry.log_id.index),
            bytes: entry_out(&entry).to_bytes(),
        });
        let items: Vec<LogItem> = items.collect();
        if items.is_empty() {
            callback.io_completed(Ok(()));
            return Ok(());
        }
        // The entries are readable on return. They are acknowledged after the flush, in the order of
        // all writes of this disk, votes included.
        if let Some(last) = items.last() {
            self.handed.store(last.index, Ordering::Release);
        }
        if planted::is(Bug::EntriesUnsynced) {
            self.disk.append(items, Box::new(drop));
            callback.io_completed(Ok(()));
            return Ok(());
        }
        let done = move |result: Result<(), StoreError>| {
            callback.io_completed(result.map_err(failed));
        };
        self.disk.append(items, Box::new(done));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |id| index_out(id.index)).saturating_add(1);
        self.handed
            .fetch_min(from.saturating_sub(1), Ordering::AcqRel);
        let (done, finished) = waiter();
        self.disk.truncate(from, done);
        wait(finished).await
    }

    async fn purge(&mut self, id: LogId) -> io::Result<()> {
        self.purge_upto(&id).await
    }
}

/// Converts a range to one with an included start and an excluded end.
fn plain(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

/// Receives the result of a write.
pub(super) type Finished = oneshot::Receiver<Result<(), StoreError>>;

/// Returns a [`Done`] callback to hand to the disk, and the receiver of its result.
pub(super) fn waiter() -> (Done, Finished) {
    let (send, finished) = oneshot::channel();
    let done = move |result| {
        // If the receiver is gone, the write was not acknowledged to any caller.
        let _ = send.send(result);
    };
    (Box::new(done), finished)
}

/// Waits until a write is on the disk.
pub(super) async fn wait(finished: Finished) -> io::Result<()> {
    match finished.await {
        Ok(result) => result.map_err(failed),
        Err(_) => Err(io::Error::other("the disk was closed during a write")),
    }
}

/// Converts an error of the disk for openraft.
pub(super) fn failed(error: StoreError) -> io::Error {
    io::Error::other(error.to_string())
}

/// Writes a value other than openraft's own, such as the mark of joining.
pub(super) async fn put(disk: &dyn Disk, name: &'static str, value: Bytes) -> io::Result<()> {
    let (done, finished) = waiter();
    disk.put(name, value, done);
    wait(finished).await
}

#[cfg(test)]
#[path = "../../tests/unit/raft/log.rs"]
mod tests;
