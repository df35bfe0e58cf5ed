//! Which keys something was asked of since the session last looked.
//!
//! A caller that counts demand for a key finds a count of zero after the session took the last one,
//! and only then comes here: the session finds the keys that were asked, and looks at no others.
//!
//! > A count that is not zero is of a key that is marked, or that a thread is about to mark.
//!
//! The count is added to before the key is marked, and the mark is taken before the count is: so what a
//! look misses is marked for the next one.

use crate::sync::{self, AtomicU64, Bug, Ordering};
use std::sync::Arc;

/// The marks of all keys of a client: a bit for each, and a bit for each word of these.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    words: Box<[AtomicU64]>,
    summary: Box<[AtomicU64]>,
}

/// Where one key is marked.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    list: Arc<Touched>,
    place: u32,
}

const BITS: usize = 64;

impl Touched {
    /// Marks of so many keys.
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

    /// Tells `found` where keys were marked since the last call. The session's alone.
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
    /// The key of that place.
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

/// All bits of a word, which has none then.
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

/// Adds to a count. Whether it was zero, so that the key must be marked.
#[inline(always)]
pub(super) fn add(count: &AtomicU64, n: u64) -> bool {
    count.fetch_add(n, Ordering::Relaxed) == 0 && n > 0 && !sync::planted(Bug::Unmarked)
}
