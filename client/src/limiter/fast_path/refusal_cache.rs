//! Cached refusals of a thread, so that it can be refused again without a decision.

use crate::switch::Switch;
use aliquot_core::unit::Span;
use std::cell::Cell;
use std::time::Duration;

/// The last refusal of one key, in a cache line of its own.
#[repr(align(64))]
struct CachedRefusal {
    /// Stamp of the key's switch at the refusal: which key, and which modes. Zero if there is none.
    stamp: Cell<u64>,
    /// The key's word at the refusal.
    word: Cell<u64>,
    /// The written-down time at the refusal.
    noted: Cell<u64>,
    /// Number of repetitions that are left before the next check that time passes. Used where nothing else
    /// counts them.
    left: Cell<u64>,
    /// Wait, counted from the written-down time.
    wait: Cell<Duration>,
}

/// Number of keys that a thread remembers, chosen by the lowest bits of their numbers.
const KEYS: usize = 8;
const OFTEN: u64 = 255;

thread_local! {
    static CACHE: [CachedRefusal; KEYS] = const { [const { CachedRefusal::new() }; KEYS] };
}

impl CachedRefusal {
    const fn new() -> Self {
        Self {
            stamp: Cell::new(0),
            word: Cell::new(0),
            noted: Cell::new(0),
            left: Cell::new(0),
            wait: Cell::new(Duration::ZERO),
        }
    }
}

#[inline(always)]
fn with_entry<T>(stamp: u64, with: impl FnOnce(&CachedRefusal) -> T) -> T {
    CACHE.with(|entries| with(&entries[Switch::place(stamp, KEYS)]))
}

/// Returns true if this thread's last decision on the key refused a token. The functions below expect such a
/// key.
#[inline(always)]
pub(super) fn has(stamp: u64) -> bool {
    with_entry(stamp, |entry| entry.stamp.get()) == stamp
}

/// Returns true if the refusal was made at this word and this time.
#[inline(always)]
pub(super) fn is_current(stamp: u64, word: u64, noted: u64) -> bool {
    with_entry(stamp, |entry| {
        entry.word.get() == word && entry.noted.get() == noted
    })
}

/// Returns the wait of the refusal.
#[inline(always)]
pub(super) fn wait(stamp: u64) -> Duration {
    with_entry(stamp, |entry| entry.wait.get())
}

/// Uses up one repetition. Returns false if none was left.
#[inline(always)]
pub(super) fn use_one(stamp: u64) -> bool {
    with_entry(stamp, |entry| {
        let (less, none) = entry.left.get().overflowing_sub(1);
        entry.left.set(less);
        if none {
            set_empty(&entry.left);
        }
        !none
    })
}

/// A function of its own, so that the common path tests the counter only once.
#[cold]
fn set_empty(left: &Cell<u64>) {
    left.set(0);
}

/// Remembers a refusal, for [`OFTEN`] repetitions. The thread cache of the key is empty.
pub(super) fn insert(stamp: u64, word: u64, noted: u64, wait: Span) {
    with_entry(stamp, |entry| {
        entry.stamp.set(stamp);
        entry.word.set(word);
        entry.noted.set(noted);
        entry.left.set(OFTEN);
        entry.wait.set(Duration::from_nanos(wait.nanos()));
    });
}

/// Allows [`OFTEN`] more repetitions.
pub(super) fn extend(stamp: u64) {
    with_entry(stamp, |entry| entry.left.set(OFTEN));
}

/// Forgets the refusal, because the thread cache may hold tokens from now on.
pub(super) fn remove(stamp: u64) {
    if has(stamp) {
        with_entry(stamp, |entry| entry.stamp.set(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stamp of a switch without modes.
    fn stamp(number: u64) -> u64 {
        number << 5
    }

    fn cached(number: u64, word: u64, noted: u64) -> bool {
        has(stamp(number)) && is_current(stamp(number), word, noted)
    }

    #[test]
    fn a_refusal_is_cached_for_one_key_one_word_and_one_time() {
        let long = Span::from_secs(1);
        insert(stamp(3), 5, 7, long);
        for (number, word, noted) in [(3 + KEYS as u64, 5, 7), (3, 6, 7), (3, 5, 8), (4, 5, 7)] {
            assert!(!cached(number, word, noted));
        }
        for _ in 0..OFTEN {
            assert!(cached(3, 5, 7) && use_one(stamp(3)));
            assert_eq!(wait(stamp(3)), Duration::from_secs(1));
        }
        assert!(!use_one(stamp(3)) && !use_one(stamp(3)));
        assert!(cached(3, 5, 7));
        extend(stamp(3));
        for _ in 0..OFTEN {
            assert!(use_one(stamp(3)));
        }
        assert!(!use_one(stamp(3)));
        // Another key with the same place.
        insert(stamp(3 + KEYS as u64), 5, 7, long);
        assert!(!cached(3, 5, 7));
        remove(stamp(3));
        assert!(cached(3 + KEYS as u64, 5, 7));
        remove(stamp(3 + KEYS as u64));
        assert!(!cached(3 + KEYS as u64, 5, 7));
    }
}
