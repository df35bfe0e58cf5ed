//! The state machine of the log: the interface between Raft and the actor.

use super::halt::Halt;
use super::log::{Finished, failed, wait, waiter};
use super::outcome::Outcome;
use super::skip::Skips;
use super::types::{
    LogId, Order, Reply, Snapshot, SnapshotMeta, StoredMembership, Types, damaged, index_out,
    log_id_out, meta_in, meta_out,
};
use crate::store::{Disk, SnapshotItem};
use crate::timer;
use aliquot_wire::Wire;
use aliquot_wire::limits::SNAPSHOT_BYTES_MAX;
use aliquot_wire::raft as wire;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use openraft::storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// openraft, with the log applied to a [`Machine`].
pub(super) type Core = openraft::Raft<Types, Applier>;

/// Maximum number of entries that are applied at once.
const BATCH_MAX: usize = 256;

/// The state machine of the log. The actor implements it.
pub trait Machine: Send + 'static {
    /// Applies committed entries in the order of their indices, without gaps. Returns one outcome for
    /// each, in the same order.
    ///
    /// # Errors
    ///
    /// [`MachineError`] stops the node: a replica that cannot apply an entry must not go on.
    fn apply(
        &mut self,
        entries: Vec<Committed>,
    ) -> BoxFuture<'_, Result<Vec<Outcome>, MachineError>>;

    /// Freezes the state as of the last applied entry. It is encoded on another thread while entries
    /// are applied.
    ///
    /// # Errors
    ///
    /// The same as for [`Machine::apply`].
    fn snapshot(&mut self) -> BoxFuture<'_, Result<Encode, MachineError>>;

    /// Replaces the state by that of a snapshot, which contains the entries up to `index`.
    ///
    /// # Errors
    ///
    /// The same as for [`Machine::apply`].
    fn restore(&mut self, index: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), MachineError>>;
}

/// Encodes a frozen state, which may take long.
pub type Encode = Box<dyn FnOnce() -> Bytes + Send + Sync>;

/// A committed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its index, counted from 1.
    pub index: u64,
    /// The term of the leader that wrote it.
    pub term: u64,
    /// The command. `None` in an entry that begins a term, changes the members, or is skipped.
    pub command: Option<Bytes>,
}

/// Error of the state machine, which stops the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The machine failed for a reason that may pass.
    #[error("{reason}")]
    Failed {
        /// Description of the error, and how to proceed.
        reason: String,
    },
    /// This version can never continue with these settings.
    #[error(transparent)]
    Halted(#[from] Halt),
}

/// Applies the log to a [`Machine`], and keeps its snapshots on the disk.
pub(super) struct Applier {
    /// The mutex is never locked, since all access is by `&mut self`. It only makes the machine `Sync`, as
    /// openraft requires.
    machine: tokio::sync::Mutex<Box<dyn Machine>>,
    snapshot_slot: Arc<SnapshotSlot>,
    skipping: Skipping,
    applied: Option<LogId>,
    membership: StoredMembership,
}

/// Entries that are not applied, and the reason why the log ended.
#[derive(Debug)]
pub(super) struct Skipping {
    pub(super) skips: Skips,
    /// Reads a command, and returns the reader's error if it cannot be read.
    pub(super) readable: fn(&Bytes) -> Result<(), String>,
    pub(super) halted: Arc<OnceLock<Halt>>,
}

impl Skipping {
    /// Records the reason why the log ends. openraft itself passes on only a text.
    fn stopped(&self, error: MachineError) -> io::Error {
        let message = error.to_string();
        if let MachineError::Halted(halt) = error {
            // The first reason is kept.
            let _ = self.halted.set(halt);
        }
        io::Error::other(message)
    }
}

impl fmt::Debug for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let applied = &self.applied;
        f.debug_struct("Applier")
            .field("applied", applied)
            .finish_non_exhaustive()
    }
}

/// Responder of an entry, if a caller on this node waits for it.
type Waiting = Option<ApplyResponder<Types>>;

impl Applier {
    /// Creates an applier for a machine that has applied nothing yet.
    pub(super) fn new(machine: Box<dyn Machine>, disk: Arc<dyn Disk>, skipping: Skipping) -> Self {
        Self {
            skipping,
            machine: tokio::sync::Mutex::new(machine),
            snapshot_slot: Arc::new(SnapshotSlot {
                disk,
                turn: Mutex::new(()),
            }),
            applied: None,
            membership: StoredMembership::default(),
        }
    }

    async fn apply_batch(&mut self, batch: Vec<EntryResponder<Types>>) -> io::Result<()> {
        let mut entries = Vec::with_capacity(batch.len());
        let mut waiting: Vec<Waiting> = Vec::with_capacity(batch.len());
        let (mut applied, mut membership) = (self.applied, None);
        for (entry, responder) in batch {
            let id = entry.log_id;
            let command = match entry.payload {
                EntryPayload::Blank => None,
                EntryPayload::Normal(Order(bytes)) => {
                    let skipped = self.is_skipped(index_out(id.index), &bytes).await?;
                    (!skipped).then_some(bytes)
                }
                EntryPayload::Membership(members) => {
                    membership = Some(StoredMembership::new(Some(id), members));
                    None
                }
            };
            entries.push(Committed {
                index: index_out(id.index),
                term: id.leader_id.term,
                command,
            });
            waiting.push(responder);
            applied = Some(id);
        }
        let outcomes = self.machine.get_mut().apply(entries).await;
        let outcomes = outcomes.map_err(|error| self.skipping.stopped(error))?;
        if outcomes.len() != waiting.len() {
            let (got, wanted) = (outcomes.len(), waiting.len());
            return Err(damaged(format!("{got} outcomes of {wanted} entries")));
        }
        self.applied = applied;
        self.membership = membership.unwrap_or_else(|| self.membership.clone());
        for (responder, outcome) in waiting.into_iter().zip(outcomes) {
            if let Some(responder) = responder {
                responder.send(Reply(outcome));
            }
        }
        Ok(())
    }

    async fn is_skipped(&mut self, index: u64, command: &Bytes) -> io::Result<bool> {
        let Skipping {
            skips, readable, ..
        } = &mut self.skipping;
        let skipped = skips.skips(index, command, *readable, &self.snapshot_slot.disk);
        let skipped = skipped.await?;
        skipped.map_err(|halt| self.skipping.stopped(halt.into()))
    }
}

/// Storage of the single snapshot on the disk.
#[derive(Debug)]
struct SnapshotSlot {
    disk: Arc<dyn Disk>,
    /// Held from the comparison to the write, because snapshots are built while others are installed.
    /// An older one must never replace a newer one, up to which the log may have been purged.
    turn: Mutex<()>,
}

impl SnapshotSlot {
    /// Returns the stored snapshot.
    fn stored(&self) -> io::Result<Option<Snapshot>> {
        let Some(item) = self.disk.snapshot().map_err(failed)? else {
            return Ok(None);
        };
        let meta = wire::SnapshotMeta::from_bytes(item.meta)
            .map_err(|error| damaged(format!("the stored snapshot: {error}")))?;
        Ok(Some(Snapshot {
            meta: meta_in(meta)?,
            snapshot: item.data,
        }))
    }

    /// Stores a snapshot, unless the stored one is at least as new.
    async fn put(&self, meta: &SnapshotMeta, data: Bytes) -> io::Result<()> {
        let Some(finished) = self.put_now(meta, data)? else {
            return Ok(());
        };
        wait(finished).await
    }

    fn put_now(&self, meta: &SnapshotMeta, data: Bytes) -> io::Result<Option<Finished>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = self.stored()?;
        if stored.is_some_and(|stored| stored.meta.last_log_id >= meta.last_log_id) {
            return Ok(None);
        }
        let meta = meta_out(meta).to_bytes();
        let (done, finished) = waiter();
        self.disk.put_snapshot(SnapshotItem { meta, data }, done);
        Ok(Some(finished))
    }
}

impl RaftStateMachine<Types> for Applier {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        let mut batches = entries.ready_chunks(BATCH_MAX);
        while let Some(batch) = batches.next().await {
            let batch: io::Result<Vec<_>> = batch.into_iter().collect();
            self.apply_batch(batch?).await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        // The state is frozen between two entries, so that it matches this metadata exactly. Only the
        // encoding runs beside later entries.
        let encode = self.machine.get_mut().snapshot().await;
        Builder {
            snapshot_slot: Arc::clone(&self.snapshot_slot),
            encode: Some(encode),
            meta: SnapshotMeta {
                last_log_id: self.applied,
                last_membership: self.membership.clone(),
            },
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, data: Bytes) -> io::Result<()> {
        let index = meta.last_log_id.map_or(0, |id| log_id_out(&id).index);
        // The sender skips the same entries, since it is of the same cluster. Written before the
        // snapshot: without this, the consents would contradict a snapshot on the disk.
        let skips = &mut self.skipping.skips;
        skips.write_upto(index, &self.snapshot_slot.disk).await?;
        // Stored first, because the log is purged up to it. At a start it is stored already.
        self.snapshot_slot.put(meta, data.clone()).await?;
        let restored = self.machine.get_mut().restore(index, data).await;
        restored.map_err(|error| self.skipping.stopped(error))?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        self.snapshot_slot.stored()
    }
}

/// Builds one snapshot and stores it.
pub(super) struct Builder {
    snapshot_slot: Arc<SnapshotSlot>,
    /// Taken when the snapshot is built.
    encode: Option<Result<Encode, MachineError>>,
    meta: SnapshotMeta,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.meta;
        f.debug_struct("Builder")
            .field("meta", meta)
            .finish_non_exhaustive()
    }
}

/// Pause after a snapshot that was too large, before another is tried.
const TOO_LARGE: Duration = Duration::from_secs(60);

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let encode = self.encode.take();
        let encode = encode.ok_or_else(|| io::Error::other("a snapshot is built once"))?;
        let data = timer::beside(encode.map_err(io::Error::other)?).await;
        if data.len() > SNAPSHOT_BYTES_MAX {
            // No node could read it. The log keeps growing meanwhile, and nothing else is lost.
            tracing::error!(
                bytes = data.len(),
                most = SNAPSHOT_BYTES_MAX,
                "the state is too large for a snapshot: the log is not shortened; lower max_keys or delete budgets"
            );
            timer::sleep(TOO_LARGE).await;
            let stored = self.snapshot_slot.stored()?;
            return stored.ok_or_else(|| io::Error::other("the state is too large for a snapshot"));
        }
        self.snapshot_slot.put(&self.meta, data.clone()).await?;
        Ok(Snapshot {
            meta: self.meta.clone(),
            snapshot: data,
        })
    }
}
