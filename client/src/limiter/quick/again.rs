//! Cached refusals of a thread, so that it can be refused again without a decision.

use crate::switch::Switch;
use aliquot_core::unit::Span;
use std::cell::Cell;
use std::time::Duration;

/// The last refusal of one key, in a cache line of its own.
#[repr(align(64))]
struct Note {
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
    static NOTES: [Note; KEYS] = const { [const { Note::new() }; KEYS] };
}

impl Note {
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
fn note_of<T>(stamp: u64, with: impl FnOnce(&Note) -> T) -> T {
    NOTES.with(|notes| with(&notes[Switch::place(stamp, KEYS)]))
}

/// Returns true if this thread's last decision on the key refused a token. The functions below expect such a
/// key.
#[inline(always)]
pub(super) fn is_of(stamp: u64) -> bool {
    note_of(stamp, |note| note.stamp.get()) == stamp
}

/// Returns true if the refusal was made at this word and this time.
#[inline(always)]
pub(super) fn is_of_now(stamp: u64, word: u64, noted: u64) -> bool {
    note_of(stamp, |note| {
        note.word.get() == word && note.noted.get() == noted
    })
}

/// Returns the wait of the refusal.
#[inline(always)]
pub(super) fn wait(stamp: u64) -> Duration {
    note_of(stamp, |note| note.wait.get())
}

/// Uses up one repetition. Returns false if none was left.
#[inline(always)]
pub(super) fn one_less(stamp: u64) -> bool {
    note_of(stamp, |note| {
        let (less, none) = note.left.get().overflowing_sub(1);
        note.left.set(less);
        if none {
            none_is_left(&note.left);
        }
        !none
    })
}

/// A function of its own, so that the common path tests the counter only once.
#[cold]
fn none_is_left(left: &Cell<u64>) {
    left.set(0);
}

/// Remembers a refusal, for [`OFTEN`] repetitions. The thread cache of the key is empty.
pub(super) fn say(stamp: u64, word: u64, noted: u64, wait: Span) {
    note_of(stamp, |note| {
        note.stamp.set(stamp);
        note.word.set(word);
        note.noted.set(noted);
        note.left.set(OFTEN);
        note.wait.set(Duration::from_nanos(wait.nanos()));
    });
}

/// Allows [`OFTEN`] more repetitions.
pub(super) fn renew(stamp: u64) {
    note_of(stamp, |note| note.left.set(OFTEN));
}

/// Forgets the refusal, because the thread cache may hold tokens from now on.
pub(super) fn forget(stamp: u64) {
    if is_of(stamp) {
        note_of(stamp, |note| note.stamp.set(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stamp of a switch without modes.
    fn stamp(number: u64) -> u64 {
        number << 5
    }

    fn said(number: u64, word: u64, noted: u64) -> bool {
        is_of(stamp(number)) && is_of_now(stamp(number), word, noted)
    }

    #[test]
    fn what_is_said_is_of_one_key_one_word_and_one_time() {
        let long = Span::from_secs(1);
        say(stamp(3), 5, 7, long);
        for (number, word, noted) in [(3 + KEYS as u64, 5, 7), (3, 6, 7), (3, 5, 8), (4, 5, 7)] {
            assert!(!said(number, word, noted));
        }
        for _ in 0..OFTEN {
            assert!(said(3, 5, 7) && one_less(stamp(3)));
            assert_eq!(wait(stamp(3)), Duration::from_secs(1));
        }
        assert!(!one_less(stamp(3)) && !one_less(stamp(3)));
        assert!(said(3, 5, 7));
        renew(stamp(3));
        for _ in 0..OFTEN {
            assert!(one_less(stamp(3)));
        }
        assert!(!one_less(stamp(3)));
        // Another key with the same place.
        say(stamp(3 + KEYS as u64), 5, 7, long);
        assert!(!said(3, 5, 7));
        forget(stamp(3));
        assert!(said(3 + KEYS as u64, 5, 7));
        forget(stamp(3 + KEYS as u64));
        assert!(!said(3 + KEYS as u64, 5, 7));
    }
}
