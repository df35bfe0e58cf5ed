//! What the last refusal knew: until when one more token is refused, as long as the word stays as it is.
//!
//! That is a function of the word and its epoch alone: what threads hold, and what leases end, only
//! refuse more. So it holds for every thread, and whoever finds the word unchanged needs
//! no precise clock to refuse, only one that is never ahead.

use crate::sync::{self, AtomicU64, Bug, Ordering, fence};
use aliquot_core::unit::Tick;

/// A word and a tick that belong together; an odd `turn` says that somebody is writing them.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Dry {
    turn: AtomicU64,
    word: AtomicU64,
    until: AtomicU64,
}

impl Dry {
    pub(super) fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            word: AtomicU64::new(0),
            until: AtomicU64::new(0),
        }
    }

    /// Until when one token is refused by `word`, if that is known.
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

    /// Remembers that; not if somebody else is about to.
    pub(super) fn note(&self, word: u64, until: Tick) {
        let turn = self.turn.load(Ordering::Relaxed);
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let free = turn & 1 == 0;
        if !free
            || self
                .turn
                .compare_exchange(turn, turn + 1, done, found)
                .is_err()
        {
            return;
        }
        // Who reads any of these stores sees that the turn has changed.
        fence(Ordering::Release);
        self.word.store(word, Ordering::Relaxed);
        self.until.store(until.nanos(), Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
    }
}
