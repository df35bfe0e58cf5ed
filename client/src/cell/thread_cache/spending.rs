//! Spending from a thread cache.

use super::{GENERATIONS, LEFT, THREAD, ThreadCache};
use crate::sync::{self, Bug, Ordering};
use aliquot_core::unit::Tick;

impl ThreadCache {
    /// Maximum number of tokens spent per check of the lease, where the lease is checked only now and then.
    const STRETCH: u64 = 64;

    /// Returns the word to pass to [`ThreadCache::spend`] if `thread` can spend `n` tokens here.
    #[inline]
    pub(crate) fn remaining_for(&self, thread: u32, n: u64) -> Option<u64> {
        // Checked first: a thread that is refused again has no tokens, and returns here.
        let remaining = self.remaining.load(Ordering::Relaxed);
        if n > remaining & LEFT {
            return None;
        }
        let owner = self.owner.load(Ordering::Acquire);
        let mine = owner >> THREAD == u64::from(thread);
        let same = (owner ^ remaining) & GENERATIONS == 0 || sync::planted(Bug::GenerationIgnored);
        (mine && same).then_some(remaining)
    }

    /// Returns true if spending `n` of the remaining tokens crosses a multiple of [`ThreadCache::STRETCH`],
    /// so that the lease must be checked.
    #[inline(always)]
    pub(crate) const fn goes_on(remaining: u64, n: u64) -> bool {
        (remaining ^ (remaining - n)) >= Self::STRETCH
    }

    /// Spends `n` of the remaining tokens. Returns when they were taken from the word.
    #[inline]
    pub(crate) fn spend(&self, remaining: u64, n: u64) -> Tick {
        self.remaining.store(remaining - n, Ordering::Relaxed);
        Tick::from_nanos(self.filled.load(Ordering::Relaxed))
    }
}
