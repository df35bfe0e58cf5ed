//! The two threads of a store on sled: one flushes and tells, the other does
//! what may take long.

use super::log::Swept;
use super::shared::Shared;
use crate::store::{Done, SnapshotItem, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How long what the watermark says may be in memory alone.
const SYNC_WITHIN: Duration = Duration::from_secs(1);

/// A write that was made and waits for its flush, or that was not made.
pub(super) struct Job {
    pub(super) outcome: Result<Written, StoreError>,
    pub(super) done: Done,
}

/// What a write still needs.
#[derive(Debug)]
pub(super) enum Written {
    /// A flush.
    Applied,
    /// A flush of what came before it, then its file. Its number says which
    /// snapshot is the later one.
    Snapshot(u64, SnapshotItem),
}

/// What may take long and holds nobody up.
pub(super) enum Chore {
    Snapshot(u64, SnapshotItem, Done),
    Sweep,
    /// The watermark was told something that is not on the medium.
    Sync,
}

/// Flushes whenever something waits: one flush serves all that waits by then.
/// Ends when the queue is closed and everybody was told.
pub(super) fn flush_all(shared: &Shared) {
    while let Some(jobs) = shared.jobs.take() {
        let flushed = shared.flush();
        for Job { outcome, done } in jobs {
            match (&flushed, outcome) {
                (Err(error), _) => tell(done, Err(error.clone())),
                (Ok(()), Err(error)) => tell(done, Err(error)),
                (Ok(()), Ok(Written::Applied)) => tell(done, Ok(())),
                (Ok(()), Ok(Written::Snapshot(number, snapshot))) => {
                    shared.chores.push(Chore::Snapshot(number, snapshot, done));
                }
            }
        }
    }
    shared.flush_rest();
}

/// Writes snapshots, brings the watermark to the medium, and between them sweeps away what was purged.
/// Ends when the queue is closed, the snapshots are written and the watermark is on
/// the medium; what is not swept is swept after the next start.
pub(super) fn do_chores(shared: &Shared) {
    let (mut to_sweep, mut to_sync) = (Swept::All, false);
    loop {
        let chores = match (to_sweep, to_sync) {
            (Swept::Some, _) => shared.chores.take_now(),
            (Swept::All, true) => shared.chores.take_within(SYNC_WITHIN),
            (Swept::All, false) => shared.chores.take(),
        };
        // After a second, or since it is awake anyway.
        if to_sync && to_sweep == Swept::All {
            shared.sync_watermark();
            to_sync = false;
        }
        let Some(chores) = chores else { break };
        for chore in chores {
            match chore {
                Chore::Sweep => to_sweep = Swept::Some,
                Chore::Sync => to_sync = true,
                Chore::Snapshot(number, snapshot, done) => {
                    tell(done, shared.write_snapshot(number, &snapshot));
                }
            }
        }
        if to_sweep == Swept::Some {
            to_sweep = shared.sweep();
        }
    }
    shared.sync_watermark();
}

/// A Done that panics is its owner's fault and must not silence all others: the
/// panic was reported by its hook, and the next is told.
fn tell(done: Done, result: Result<(), StoreError>) {
    drop(catch_unwind(AssertUnwindSafe(|| done(result))));
}
