//! openraft's conformance suite for stores, run against ours.

use super::log::LogStore;
use super::machine::{Applier, Committed, Encode, Machine, MachineError, Skipping};
use super::outcome::Outcome;
use super::skip::Skips;
use super::types::{Entry, LogId, Payload, Types, Vote};
use crate::store::{Disk, LogItem, MemoryDisk, SledDisk, SnapshotItem};
use aliquot_wire::Wire;
use aliquot_wire::raft as wire;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::poll;
use openraft::StorageError;
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use std::sync::Arc;
use std::task::Poll;
use tempfile::TempDir;

/// A machine that does nothing.
struct Idle;

impl Machine for Idle {
    fn apply(
        &mut self,
        entries: Vec<Committed>,
    ) -> BoxFuture<'_, Result<Vec<Outcome>, MachineError>> {
        let outcomes = entries.iter().map(|_| Outcome::default()).collect();
        Box::pin(ready(Ok(outcomes)))
    }

    fn snapshot(&mut self) -> BoxFuture<'_, Result<Encode, MachineError>> {
        let encode: Encode = Box::new(|| Bytes::from_static(b"snapshot"));
        Box::pin(ready(Ok(encode)))
    }

    fn restore(&mut self, _index: u64, _bytes: Bytes) -> BoxFuture<'_, Result<(), MachineError>> {
        Box::pin(ready(Ok(())))
    }
}

fn skipping() -> Skipping {
    Skipping {
        skips: Skips::default(),
        readable: |_| Ok(()),
        halted: Arc::default(),
    }
}

struct Memory;

impl StoreBuilder<Types, LogStore, Applier> for Memory {
    async fn build(&self) -> Result<((), LogStore, Applier), StorageError<Types>> {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::synced());
        let store = LogStore::open(Arc::clone(&disk)).await.unwrap();
        Ok(((), store, Applier::new(Box::new(Idle), disk, skipping())))
    }
}

struct OnDisk;

impl StoreBuilder<Types, LogStore, Applier, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, LogStore, Applier), StorageError<Types>> {
        let dir = TempDir::new().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(SledDisk::open(dir.path().join("store")).unwrap());
        let store = LogStore::open(Arc::clone(&disk)).await.unwrap();
        Ok((dir, store, Applier::new(Box::new(Idle), disk, skipping())))
    }
}

#[tokio::test]
async fn a_log_on_sled_obeys_every_law_of_the_library() {
    Suite::test_all(OnDisk).await.unwrap();
}

#[tokio::test]
async fn a_log_in_memory_obeys_every_law_of_the_library() {
    Suite::test_all(Memory).await.unwrap();
}

fn entry(index: u64) -> Entry {
    Entry {
        log_id: LogId::new_term_index(1, index),
        payload: Payload::Blank,
    }
}

#[tokio::test]
async fn an_entry_is_read_at_once_and_acknowledged_after_the_flush_behind_the_vote() {
    let disk = Arc::new(MemoryDisk::new());
    let mut store = LogStore::open(disk.clone()).await.unwrap();
    let mut other = store.clone();
    let vote = Vote::new(1, 1);
    let (send, mut acknowledged) = Types::oneshot();
    {
        let mut voted = std::pin::pin!(other.save_vote(&vote));
        assert_eq!(poll!(voted.as_mut()).map(|_| ()), Poll::Pending);
        let flushed = IOFlushed::signal(send);
        store.append([entry(0), entry(1)], flushed).await.unwrap();
        assert_eq!(store.try_get_log_entries(0..9).await.unwrap().len(), 2);
        disk.sync_some(1);
        voted.await.unwrap();
    }
    assert!(acknowledged.try_recv().is_err());
    disk.sync();
    acknowledged.await.unwrap().unwrap();
    assert_eq!(store.read_vote().await.unwrap(), Some(vote));
    // Empty and inverted ranges yield no entries.
    let mut read = async |from, to| store.try_get_log_entries(from..to).await.unwrap().len();
    assert_eq!((read(1, 1).await, read(2, 1).await), (0, 0));
    assert_eq!((read(1, 2).await, read(2, u64::MAX).await), (1, 0));
}

#[tokio::test]
async fn a_purge_that_was_marked_and_not_carried_out_is_carried_out_at_the_start() {
    let disk = Arc::new(MemoryDisk::synced());
    let mut store = LogStore::open(disk.clone()).await.unwrap();
    let entries = (0..4).map(entry);
    store.append(entries, IOFlushed::noop()).await.unwrap();
    let mark = wire::LogId { term: 1, index: 3 };
    put_snapshot(&disk, mark);
    disk.put("raft.purged", mark.to_bytes(), Box::new(|_| ()));
    assert_eq!(disk.bounds().unwrap(), Some((1, 4)));
    let mut store = LogStore::open(disk.clone()).await.unwrap();
    assert_eq!(disk.bounds().unwrap(), Some((4, 4)));
    let left = store.try_get_log_entries(..).await.unwrap();
    assert_eq!(left, [entry(3)]);
}

fn put_snapshot(disk: &MemoryDisk, last: wire::LogId) {
    let meta = wire::SnapshotMeta {
        last: Some(last),
        ..wire::SnapshotMeta::default()
    };
    let snapshot = SnapshotItem {
        meta: meta.to_bytes(),
        data: Bytes::new(),
    };
    disk.put_snapshot(snapshot, Box::new(|_| ()));
}

#[tokio::test]
async fn a_log_whose_beginning_is_in_no_snapshot_is_refused_and_left_alone() {
    let disk = Arc::new(MemoryDisk::synced());
    let mut store = LogStore::open(disk.clone()).await.unwrap();
    let entries = (0..4).map(entry);
    store.append(entries, IOFlushed::noop()).await.unwrap();
    let id = |index| wire::LogId { term: 1, index };
    disk.put("raft.purged", id(3).to_bytes(), Box::new(|_| ()));
    for reached in [0, 2] {
        if reached > 0 {
            put_snapshot(&disk, id(reached));
        }
        let message = LogStore::open(disk.clone()).await.unwrap_err().to_string();
        let what = format!("up to entry 3, and the snapshot ends with entry {reached}");
        assert!(message.contains(&what), "{message}");
        assert_eq!(disk.bounds().unwrap(), Some((1, 4)));
    }
}

#[tokio::test]
async fn what_is_not_what_was_written_is_named() {
    let disk = Arc::new(MemoryDisk::synced());
    let item = LogItem {
        index: 1,
        bytes: Bytes::from_static(b"\xff"),
    };
    disk.append(vec![item], Box::new(|_| ()));
    disk.put("raft.vote", Bytes::from_static(b"\xff"), Box::new(|_| ()));
    let mut store = LogStore::open(disk).await.unwrap();
    let entry = store.try_get_log_entries(..).await.unwrap_err();
    assert!(
        entry.to_string().starts_with("entry 1 of the log: "),
        "{entry}"
    );
    let vote = store.read_vote().await.unwrap_err();
    assert!(
        vote.to_string().starts_with("the stored value raft.vote: "),
        "{vote}"
    );
}
