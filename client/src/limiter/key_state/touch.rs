//! Marks the keys that were used since the session last looked.
//!
//! A caller adds to a key's demand counter. If the counter was zero, because the session has taken the last
//! value, the caller also marks the key here. So the session finds the used keys without looking at any
//! others.
//!
//! > Invariant: a key whose counter is not zero is marked, or a thread is about to mark it.
//!
//! A caller adds to the counter before it marks the key; the session takes the mark before it takes the
//! counter. So whatever one look misses is marked for the next.

use crate::sync::{self, AtomicU64, Bug, Ordering};
use std::sync::Arc;

/// Marks of all keys of a client: one bit per key, and one summary bit per word of those.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    words: Box<[AtomicU64]>,
    summary: Box<[AtomicU64]>,
}

/// Handle to mark one key.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    list: Arc<Touched>,
    place: u32,
}

const BITS: usize = 64;

impl Touched {
    /// Returns marks for this many keys.
    pub(crate) fn of(keys: usize) -> Self {
        let zeros = |bits: usize| {
            (0..bits.div_ceil(BITS))
                .map(|_| AtomicU64::new(0))
                .collect()
        };
        let words: Box<[AtomicU64]> = zeros(keys);
        let summary = zeros(words.len());
        Self { words, summary }
    }

    fn mark(&self, place: usize) {
        let (at, bit) = (place / BITS, place % BITS);
        let Some(word) = self.words.get(at) else {
            return;
        };
        word.fetch_or(1 << bit, Ordering::Release);
        self.summary[at / BITS].fetch_or(1 << (at % BITS), Ordering::Release);
    }

    /// Calls `found` with the place of each key marked since the last call. Called by the session alone.
    pub(crate) fn take(&self, mut found: impl FnMut(usize)) {
        for (above, summary) in self.summary.iter().enumerate() {
            for at in bits(take(summary)) {
                let at = above * BITS + at;
                for bit in bits(take(&self.words[at])) {
                    found(at * BITS + bit);
                }
            }
        }
    }
}

impl Touch {
    /// Returns the handle of the key with this place.
    pub(crate) const fn new(list: Arc<Touched>, place: u32) -> Self {
        Self { list, place }
    }

    pub(crate) const fn place(&self) -> usize {
        self.place as usize
    }

    pub(super) fn mark(&self) {
        self.list.mark(self.place());
    }
}

/// Takes all bits of a word, leaving zero.
fn take(word: &AtomicU64) -> u64 {
    match word.load(Ordering::Relaxed) {
        0 => 0,
        _ => word.swap(0, Ordering::AcqRel),
    }
}

fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit as usize)
    })
}

/// Adds to a counter. Returns true if it was zero, so that the key must be marked.
#[inline(always)]
pub(super) fn add(count: &AtomicU64, n: u64) -> bool {
    count.fetch_add(n, Ordering::Relaxed) == 0 && n > 0 && !sync::planted(Bug::Unmarked)
}
