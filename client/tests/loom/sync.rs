//! The atomics of a bucket, as loom explores them, and the bugs that are planted.

pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
use std::cell::Cell;

pub(crate) const STD_ATOMICS: bool = false;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    SameEpoch,
    BlindStore,
    EraIgnored,
    MidChangeRefunded,
    EraEndsEarly,
    SaidAgain,
    OthersUnseen,
    DebtUnseen,
    OwnerUnseen,
    NotHeld,
    NotRevoked,
    FilledForNothing,
    GenerationIgnored,
    EpochIgnored,
    ArrivesFull,
    Torn,
    TurnUnchanged,
    LeaseUnseen,
    LeaseBeforeEpoch,
    LeaseAfterCache,
    Unmarked,
}

/// Lets the other threads of the model run.
pub(crate) fn spin() {
    loom::thread::yield_now();
}

pub(crate) const NO_THREAD: u32 = 0;

loom::thread_local! {
    static THREAD_ID: Cell<u32> = Cell::new(NO_THREAD);
}

/// Returns the number of this thread of the model.
pub(crate) fn thread_id() -> u32 {
    THREAD_ID.with(Cell::get)
}

/// Makes this thread the one with that number.
pub(crate) fn set_thread_id(id: u32) {
    THREAD_ID.with(|own| own.set(id));
}

/// Threads with odd numbers share a cache.
pub(crate) fn thread_caches() -> usize {
    2
}

thread_local! {
    // Loom runs all threads of a model on the thread of the test.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug, or none, from now on on this thread.
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
