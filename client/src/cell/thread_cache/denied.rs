//! Refusals of one token, counted per thread next to a thread cache, which may belong to another thread.

use super::ThreadCache;
use crate::sync::{self, Ordering};

impl ThreadCache {
    const OFTEN: u64 = 256;

    /// Counts a refusal, if `thread` counts here already or no thread does. Returns `None` if it could not be
    /// counted. Returns true if no thread counted here before: the session then looks at this counter only if
    /// the key is marked.
    #[inline]
    pub(crate) fn denied(&self, thread: u32) -> Option<bool> {
        let known = thread != sync::NO_THREAD;
        let mine = known && self.denier.load(Ordering::Relaxed) == u64::from(thread);
        if !mine && !self.count_for(thread) {
            return None;
        }
        let denied = self.denied.load(Ordering::Relaxed);
        self.denied.store(denied.wrapping_add(1), Ordering::Relaxed);
        Some(!mine)
    }

    /// Counts a refusal of the thread that counted here a moment ago. Returns false once in
    /// [`ThreadCache::OFTEN`] times, so that the caller checks again that it still does. If another thread
    /// counts here by now, some refusals are lost.
    #[inline(always)]
    pub(crate) fn deny_repeated(&self) -> bool {
        let denied = self.denied.load(Ordering::Relaxed);
        if denied.is_multiple_of(Self::OFTEN) {
            return false;
        }
        self.denied.store(denied.wrapping_add(1), Ordering::Relaxed);
        true
    }

    #[cold]
    fn count_for(&self, thread: u32) -> bool {
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        thread != sync::NO_THREAD
            && self
                .denier
                .compare_exchange(0, thread.into(), done, found)
                .is_ok()
    }

    /// Returns the refusals since the last call. If there were none, another thread may take the counter
    /// over. If the former thread was just counting, some refusals are lost.
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
