//! What is on a disk when the process that wrote it was killed, or could not go on.
//!
//! These fork, so they are apart from all who lock directories, and from each other.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests as well")]

use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "store/full.rs"]
mod full;
#[path = "store/kill.rs"]
mod kill;
#[path = "store/told.rs"]
#[expect(dead_code, reason = "the tests beside need more of it")]
mod told;

/// Held by whoever forks, or opens what its child may not have to itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
