//! The two threads of a store on sled: one flushes and tells, the other does
//! what may take long.

use super::log::Swept;
use super::shared::Shared;
use crate::store::{Done, SnapshotItem, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
}

/// Writes snapshots, and between them sweeps away what was purged.
/// Ends when the queue is closed and the snapshots are written; what is not swept
/// is swept after the next start.
pub(super) fn do_chores(shared: &Shared) {
    let mut to_sweep = Swept::All;
    loop {
        let chores = match to_sweep {
            Swept::All => shared.chores.take(),
            Swept::Some => shared.chores.take_now(),
        };
        let Some(chores) = chores else { return };
        for chore in chores {
            match chore {
                Chore::Sweep => to_sweep = Swept::Some,
                Chore::Snapshot(number, snapshot, done) => {
                    tell(done, shared.write_snapshot(number, &snapshot));
                }
            }
        }
        if to_sweep == Swept::Some {
            to_sweep = shared.sweep();
        }
    }
}

/// A Done that panics is its owner's fault and must not silence all others: the
/// panic was reported by its hook, and the next is told.
fn tell(done: Done, result: Result<(), StoreError>) {
    drop(catch_unwind(AssertUnwindSafe(|| done(result))));
}
