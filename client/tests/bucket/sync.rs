//! The atomics of the client, and the bugs that a test plants on its own thread.

pub(crate) use crate::clock::sync::*;
use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Returns true if a bug is planted on this thread.
pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Plants a bug on this thread while `run` runs, if there is one.
pub(crate) fn with<T>(bug: Option<Bug>, run: impl FnOnce() -> T) -> T {
    PLANTED.set(bug);
    let done = run();
    PLANTED.set(None);
    done
}
