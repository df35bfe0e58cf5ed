//! Spending from a thread cache.

use super::{GENERATIONS, LEFT, Purse, THREAD};
use crate::sync::{self, Bug, Ordering};
use aliquot_core::unit::Tick;

impl Purse {
    /// Maximum number of tokens spent per check of the lease, where the lease is checked only now and then.
    const STRETCH: u64 = 64;

    /// Returns the coins to pass to [`Purse::spend`] if `me` can spend `n` tokens here.
    #[inline]
    pub(crate) fn coins_of(&self, me: u32, n: u64) -> Option<u64> {
        // Checked first: a thread that is refused again has no coins, and returns here.
        let coins = self.coins.load(Ordering::Relaxed);
        if n > coins & LEFT {
            return None;
        }
        let owner = self.owner.load(Ordering::Acquire);
        let mine = owner >> THREAD == u64::from(me);
        let same = (owner ^ coins) & GENERATIONS == 0 || sync::planted(Bug::GenerationIgnored);
        (mine && same).then_some(coins)
    }

    /// Returns true if spending `n` of these coins crosses a multiple of [`Purse::STRETCH`], so that the
    /// lease must be checked.
    #[inline(always)]
    pub(crate) const fn goes_on(coins: u64, n: u64) -> bool {
        (coins ^ (coins - n)) >= Self::STRETCH
    }

    /// Spends `n` of these coins. Returns when they were taken from the word.
    #[inline]
    pub(crate) fn spend(&self, coins: u64, n: u64) -> Tick {
        self.coins.store(coins - n, Ordering::Relaxed);
        Tick::from_nanos(self.filled.load(Ordering::Relaxed))
    }
}
