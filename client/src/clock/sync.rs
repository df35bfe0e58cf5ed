//! Atomics of the hot path. The loom tests compile the bucket against another module of this name, with loom's
//! atomics and with planted bugs.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// True if the atomics are those of the standard library, false for loom's.
pub(crate) const STD_ATOMICS: bool = true;

/// A bug that a loom test plants in order to see that it is caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A reconfiguration rewrites the slot in use.
    SameEpoch,
    /// A reconfiguration stores the word without a compare-and-swap, and so loses a concurrent decision.
    BlindStore,
    /// A refund ignores that the edge has changed.
    EraIgnored,
    /// A refund is made of what was taken while the edge was changing.
    MidChangeRefunded,
    /// The era ends before the epoch that forgets the permits has begun.
    EraEndsEarly,
    /// A refund counts its own announcements that came to nothing against its room.
    SaidAgain,
    /// A refund does not count concurrent refunds.
    OthersUnseen,
    /// The slot of one key is given to another without a second look at its debt.
    DebtUnseen,
    /// A key is charged without a second look at the slot's owner.
    OwnerUnseen,
    /// The capacity of thread caches is not held back from the burst.
    NotHeld,
    /// A reconfiguration does not revoke thread caches.
    NotRevoked,
    /// A thread cache is filled with tokens that are not taken from the word.
    FilledForNothing,
    /// A thread spends cached tokens without checking their generation.
    GenerationIgnored,
    /// Tokens left from one epoch are put back in another.
    EpochIgnored,
    /// The capacity of a closed thread cache arrives with tokens in it.
    ArrivesFull,
    /// A reader of a pair of words does not check that they belong together.
    Torn,
    /// A refund does not change the word that a concurrent decision compares.
    TurnUnchanged,
    /// A decision does not check the lease.
    LeaseUnseen,
    /// A decision checks the lease before it loads the word.
    LeaseBeforeEpoch,
    /// A thread checks the lease after it has read its cache.
    LeaseAfterCache,
    /// Demand is counted without marking the key for the session.
    Unmarked,
}

/// A number that no thread has.
pub(crate) const NO_THREAD: u32 = 0;

thread_local! {
    static THREAD_ID: std::cell::Cell<u32> = const { std::cell::Cell::new(NO_THREAD) };
}

/// Returns the number of this thread; [`NO_THREAD`] if it has none yet.
#[inline]
pub(crate) fn thread_id() -> u32 {
    THREAD_ID.get()
}

/// Returns the number of this thread, assigning one if it has none. After 2³² threads there are none left:
/// later threads keep [`NO_THREAD`].
#[inline]
pub(crate) fn assign_thread_id() -> u32 {
    match THREAD_ID.get() {
        NO_THREAD => number(),
        id => id,
    }
}

#[cold]
fn number() -> u32 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let next = u32::try_from(next).unwrap_or(NO_THREAD);
    THREAD_ID.set(next);
    next
}

/// Returns the number of thread caches in a bucket: four for each thread that can run at once, rounded up to a
/// power of two from 16 to 64.
pub(crate) fn thread_caches() -> usize {
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *COUNT.get_or_init(|| {
        let threads = std::thread::available_parallelism();
        let threads = threads.map_or(1, std::num::NonZero::get);
        (4 * threads).next_power_of_two().clamp(16, 64)
    })
}

/// Spins while another thread finishes its next few stores.
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// Returns true if a bug is planted; always false outside of loom tests.
#[inline]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
