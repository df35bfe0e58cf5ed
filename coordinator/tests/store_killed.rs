//! Contents of a disk after the process that wrote it was killed, or could not continue.
//!
//! These tests fork. They are therefore separate from all tests that lock directories, and run one at a
//! time.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests as well")]

use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "store/completions.rs"]
#[expect(dead_code, reason = "the tests beside need more of it")]
mod completions;
#[path = "store/full.rs"]
mod full;
#[path = "store/kill.rs"]
mod kill;

/// Held by a test that forks, or that opens files which no child may have open.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
