//! The cell's atomics, as loom explores them, and the bugs that are planted.

pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
use std::cell::Cell;

pub(crate) const PLAIN: bool = false;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    SameEpoch,
    BlindStore,
    EraIgnored,
    DebtUnseen,
    OwnerUnseen,
}

/// Lets the other threads of the model go on.
pub(crate) fn spin() {
    loom::thread::yield_now();
}

thread_local! {
    // Loom's threads all run on the thread of their test.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug, or none, for what follows on this thread.
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
