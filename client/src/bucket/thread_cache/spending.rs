//! Spending from a thread cache.

use super::{GENERATIONS, LEFT, THREAD, ThreadCache};
use crate::sync::{self, Bug, Ordering};
use aliquot_core::unit::Tick;

impl ThreadCache {
    /// Returns true if there are `n` tokens here, for whichever thread owns them.
    #[inline]
    pub(crate) fn may_have(&self, n: u64) -> bool {
        n <= self.remaining.load(Ordering::Relaxed) & LEFT
    }

    /// Returns the word to pass to [`ThreadCache::spend`] if `thread` can spend `n` tokens here.
    #[inline]
    pub(crate) fn remaining_for(&self, thread: u32, n: u64) -> Option<u64> {
        let remaining = self.remaining.load(Ordering::Relaxed);
        if n > remaining & LEFT {
            return None;
        }
        let owner = self.owner.load(Ordering::Acquire);
        let mine = owner >> THREAD == u64::from(thread);
        let same = (owner ^ remaining) & GENERATIONS == 0 || sync::planted(Bug::GenerationIgnored);
        (mine && same).then_some(remaining)
    }

    /// Spends `n` of the remaining tokens. Returns when they were taken from the word.
    #[inline]
    pub(crate) fn spend(&self, remaining: u64, n: u64) -> Tick {
        self.remaining.store(remaining - n, Ordering::Relaxed);
        Tick::from_nanos(self.filled.load(Ordering::Relaxed))
    }
}
