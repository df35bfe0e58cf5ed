//! The last refusal of a bucket: until when one token is refused while the word stays as it is.
//!
//! That tick follows from the word and its epoch alone: it is when the supply reaches `debt + cost − burst`. Thread
//! caches and the end of a lease only refuse more. So it holds for every thread that finds the word unchanged,
//! and such a thread can refuse by any clock that is never ahead, such as the kernel's coarse one, which takes a
//! fraction of the time of a precise reading. Whatever gives tokens back or changes the limit changes the word;
//! a freeze is a change, too, since it begins an epoch.
//!
//! The pair (word, tick) is guarded by a seqlock: `turn` is odd while a thread writes.

use super::step::AtomicWord;
use crate::sync::{self, AtomicU64, Bug, Ordering, fence};
use aliquot_core::unit::Tick;

/// A word and the tick until which it refuses. `turn` is odd while a thread writes them.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct ExhaustedUntil {
    turn: AtomicU64,
    word: AtomicU64,
    until: AtomicU64,
}

impl ExhaustedUntil {
    pub(super) fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            word: AtomicU64::new(0),
            until: AtomicU64::new(0),
        }
    }

    /// Returns until when `word` refuses one token, if that is known.
    #[inline]
    pub(super) fn until(&self, word: u64) -> Option<Tick> {
        let turn = self.turn.load(Ordering::Acquire);
        let noted = self.word.load(Ordering::Relaxed);
        if noted != word {
            return None;
        }
        let until = self.until.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let same = self.turn.load(Ordering::Relaxed) == turn || sync::planted(Bug::Torn);
        (same && turn & 1 == 0).then(|| Tick::from_nanos(until))
    }

    /// Records that `word` refuses until `until`; does nothing while another thread records.
    pub(super) fn note(&self, word: u64, until: Tick) {
        let turn = self.turn.load(Ordering::Relaxed);
        let free = turn & 1 == 0;
        if !free || !self.turn.try_swap(turn, turn + 1) {
            return;
        }
        // A thread that reads any of these stores also sees that `turn` has changed.
        fence(Ordering::Release);
        self.word.store(word, Ordering::Relaxed);
        self.until.store(until.nanos(), Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
    }
}
