//! Atomics. The tests that explore interleavings compile the cell against
//! another module of this name, with a model's atomics and with bugs.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Whether atomics are what they are, and not a model's.
pub(crate) const PLAIN: bool = true;

/// A bug that a test plants, to see that it is caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A reconfiguration rewrites the slot in use.
    SameEpoch,
    /// A reconfiguration overwrites the word, whoever decided meanwhile.
    BlindStore,
    /// What was taken is put back whatever became of its edge.
    EraIgnored,
    /// Who takes a slot from a key does not look at its debt again.
    DebtUnseen,
    /// Who charges a key does not look at its slot again.
    OwnerUnseen,
}

/// Waits for another thread's next few stores.
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// Whether a bug is planted: never, outside of such tests.
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
