//! Spending what a thread holds.

use super::{GENERATIONS, LEFT, Purse, THREAD};
use crate::sync::{self, Bug, Ordering};
use aliquot_core::unit::Tick;

impl Purse {
    /// So many tokens are spent at most by one look at a lease that is looked at now and then.
    const STRETCH: u64 = 64;

    /// Whether `me` could spend `n` here: the coins that [`Purse::spend`] is told.
    #[inline]
    pub(crate) fn coins_of(&self, me: u32, n: u64) -> Option<u64> {
        // Whoever is refused again has none, and needs to know no more than that.
        let coins = self.coins.load(Ordering::Relaxed);
        if n > coins & LEFT {
            return None;
        }
        let owner = self.owner.load(Ordering::Acquire);
        let mine = owner >> THREAD == u64::from(me);
        let same = (owner ^ coins) & GENERATIONS == 0 || sync::planted(Bug::GenerationIgnored);
        (mine && same).then_some(coins)
    }

    /// Whether to spend `n` of these coins goes on to other [`Purse::STRETCH`] tokens than those that the last of them was of.
    #[inline(always)]
    pub(crate) const fn goes_on(coins: u64, n: u64) -> bool {
        (coins ^ (coins - n)) >= Self::STRETCH
    }

    /// Spends `n` of these coins; answers when they were taken from the word.
    #[inline]
    pub(crate) fn spend(&self, coins: u64, n: u64) -> Tick {
        self.coins.store(coins - n, Ordering::Relaxed);
        Tick::from_nanos(self.filled.load(Ordering::Relaxed))
    }
}
