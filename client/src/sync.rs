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
    /// What was said to be put back and was not keeps who said it from putting it back.
    SaidAgain,
    /// Who puts back does not count what others put back meanwhile.
    OthersUnseen,
    /// Who takes a slot from a key does not look at its debt again.
    DebtUnseen,
    /// Who charges a key does not look at its slot again.
    OwnerUnseen,
    /// What threads hold is not held back from the burst.
    NotHeld,
    /// A reconfiguration leaves threads what they hold.
    NotRevoked,
    /// A purse is filled with what is still in the word.
    FilledForNothing,
    /// Who spends does not look whose coins those are.
    GenerationIgnored,
    /// What is left of one epoch is put back in another.
    EpochIgnored,
    /// The capacity of a purse that was closed arrives with tokens in it.
    ArrivesFull,
    /// Who reads a pair of words does not look whether they belong together.
    Torn,
    /// What was admitted is taken back from under those who look at it.
    TurnUnchanged,
    /// What was taken without a reading of the clock is forgotten with what a full bucket makes.
    Forgotten,
    /// Who charges what was taken without a reading of the clock reads it before it sees what that was.
    ReadBefore,
    /// Who says when it is charges what was taken of a key without a reading of the clock.
    ChargedEarly,
    /// A key is taken for full by its debt, whatever of that is still to be charged.
    FullByDebt,
    /// Who decides does not look at the lease.
    LeaseUnseen,
    /// Who decides looks at the lease before it looks at what is held.
    LeaseBeforeEpoch,
    /// Who spends what it holds looks at the lease after that.
    LeaseAfterPurse,
    /// A caller that counts demand tells no session.
    Unmarked,
}

/// No thread.
pub(crate) const NOBODY: u32 = 0;

thread_local! {
    static ME: std::cell::Cell<u32> = const { std::cell::Cell::new(NOBODY) };
}

/// The number of this thread, [`NOBODY`] if it has none yet.
#[inline]
pub(crate) fn me() -> u32 {
    ME.get()
}

/// Numbers this thread. There is none left after 2³² of them: what comes then has no number.
#[inline]
pub(crate) fn become_somebody() -> u32 {
    match ME.get() {
        NOBODY => number(),
        me => me,
    }
}

#[cold]
fn number() -> u32 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let next = u32::try_from(next).unwrap_or(NOBODY);
    ME.set(next);
    next
}

/// How many purses a cell has, a power of two: some for each thread that may run at once.
pub(crate) fn purses() -> usize {
    static PURSES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *PURSES.get_or_init(|| {
        let threads = std::thread::available_parallelism();
        let threads = threads.map_or(1, std::num::NonZero::get);
        (4 * threads).next_power_of_two().clamp(16, 64)
    })
}

/// Waits for another thread's next few stores.
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// Whether a bug is planted: never, outside of such tests.
#[inline]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
