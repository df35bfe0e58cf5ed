//! What a thread is refused, counted in a purse that need not be its own.

use super::Purse;
use crate::sync::{self, Ordering};

impl Purse {
    const OFTEN: u64 = 256;

    /// Counts a refusal, if this is where `me` does that or nobody does. Whether nobody did before:
    /// then the session does not look here unless it is told to.
    #[inline]
    pub(crate) fn denied(&self, me: u32) -> Option<bool> {
        let known = me != sync::NOBODY;
        let mine = known && self.denier.load(Ordering::Relaxed) == u64::from(me);
        if !mine && !self.count_for(me) {
            return None;
        }
        let denied = self.denied.load(Ordering::Relaxed);
        self.denied.store(denied.wrapping_add(1), Ordering::Relaxed);
        Some(!mine)
    }

    /// The same for who counted here a moment ago, but once in [`Purse::OFTEN`] times, when that is to be found out anew. If another thread
    /// does by now, some are not counted.
    #[inline(always)]
    pub(crate) fn denied_again(&self) -> bool {
        let denied = self.denied.load(Ordering::Relaxed);
        if denied.is_multiple_of(Self::OFTEN) {
            return false;
        }
        self.denied.store(denied.wrapping_add(1), Ordering::Relaxed);
        true
    }

    #[cold]
    fn count_for(&self, me: u32) -> bool {
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        me != sync::NOBODY
            && self
                .denier
                .compare_exchange(0, me.into(), done, found)
                .is_ok()
    }

    /// What was counted since the last call. Where that is nothing, another thread may count: if
    /// the last one was in the middle of it, some are not counted.
    pub(super) fn take_denied(&self) -> u64 {
        let denied = self.denied.load(Ordering::Acquire);
        let told = self.told.swap(denied, Ordering::Relaxed);
        let more = denied.wrapping_sub(told);
        if more == 0 {
            self.denier.store(0, Ordering::Release);
        }
        if more > u64::MAX / 2 { 0 } else { more }
    }
}
