//! The two threads of a store on sled: one flushes and calls Dones, the other does long work.

use super::log::Swept;
use super::shared::Shared;
use super::work::{DiskTask, Job, Written};
use crate::store::{Done, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Maximum time for which the watermark may be only in memory.
const SYNC_WITHIN: Duration = Duration::from_secs(1);

/// Flushes whenever writes wait: one flush serves all that are queued by then. Ends when the queue is
/// closed and all Dones were called.
pub(super) fn flush_all(shared: &Shared) {
    while let Some(jobs) = shared.jobs.take() {
        let flushed = shared.flush();
        for Job { outcome, done } in jobs {
            match (&flushed, outcome) {
                (Err(error), _) => tell(done, Err(error.clone())),
                (Ok(()), Err(error)) => tell(done, Err(error)),
                (Ok(()), Ok(Written::Applied)) => tell(done, Ok(())),
                (Ok(()), Ok(Written::Snapshot(number, snapshot))) => {
                    shared
                        .disk_tasks
                        .push(DiskTask::Snapshot(number, snapshot, done));
                }
            }
        }
    }
    shared.flush_rest();
}

/// Writes snapshots, flushes the watermark, and in between removes purged entries. Ends when the queue
/// is closed, the snapshots are written and the watermark is on the medium. Purged entries that are
/// left are removed after the next start.
pub(super) fn do_disk_tasks(shared: &Shared) {
    let (mut to_sweep, mut to_sync) = (Swept::All, false);
    loop {
        let disk_tasks = match (to_sweep, to_sync) {
            (Swept::Some, _) => shared.disk_tasks.take_now(),
            (Swept::All, true) => shared.disk_tasks.take_within(SYNC_WITHIN),
            (Swept::All, false) => shared.disk_tasks.take(),
        };
        // Flushed after a second, or earlier if the thread is awake anyway.
        if to_sync && to_sweep == Swept::All {
            shared.sync_watermark();
            to_sync = false;
        }
        let Some(disk_tasks) = disk_tasks else { break };
        for chore in disk_tasks {
            match chore {
                DiskTask::Sweep => to_sweep = Swept::Some,
                DiskTask::Sync => to_sync = true,
                DiskTask::Snapshot(number, snapshot, done) => {
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

/// Calls a Done. If it panics, which the panic hook reports, the others must still be called.
fn tell(done: Done, result: Result<(), StoreError>) {
    drop(catch_unwind(AssertUnwindSafe(|| done(result))));
}
