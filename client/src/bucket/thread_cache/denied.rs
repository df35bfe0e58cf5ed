//! Refusals of one token, counted per thread next to a thread cache, which may belong to another thread.

use super::super::step::AtomicWord;
use super::ThreadCache;
use crate::sync::{self, Ordering};

impl ThreadCache {
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

    #[cold]
    fn count_for(&self, thread: u32) -> bool {
        thread != sync::NO_THREAD && self.denier.try_swap(0, thread.into())
    }

    /// Returns the refusals since the last call. If there were none, another thread may take the counter
    /// over. If the former thread was just counting, some refusals are lost.
    pub(super) fn take_denied(&self) -> u64 {
        let denied = self.denied.load(Ordering::Acquire);
        let reported = self.reported.swap(denied, Ordering::Relaxed);
        let more = denied.wrapping_sub(reported);
        if more == 0 {
            self.denier.store(0, Ordering::Release);
        }
        if more > u64::MAX / 2 { 0 } else { more }
    }
}
