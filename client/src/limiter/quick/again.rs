//! What a thread was refused a moment ago: so it can be refused again at a glance.

use crate::switch::Switch;
use aliquot_core::unit::Span;
use std::cell::Cell;
use std::time::Duration;

/// One key's refusal, in a line of its own.
#[repr(align(64))]
struct Note {
    /// Whose key, and how it was switched: the stamp of its gate, and zero nobody's.
    stamp: Cell<u64>,
    /// What its word was.
    word: Cell<u64>,
    /// At which reading of the time that is written down.
    noted: Cell<u64>,
    /// Where there is no other count: how often it may be said again before it is looked whether time passes at all.
    left: Cell<u64>,
    /// How long to wait from that reading on.
    wait: Cell<Duration>,
}

/// Of so many keys at once, by the lowest bits of their numbers.
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

/// Whether this thread was refused a token of that key last, and not admitted since. What follows is of such a key.
#[inline(always)]
pub(super) fn is_of(stamp: u64) -> bool {
    note_of(stamp, |note| note.stamp.get()) == stamp
}

/// Whether word and time were these.
#[inline(always)]
pub(super) fn is_of_now(stamp: u64, word: u64, noted: u64) -> bool {
    note_of(stamp, |note| {
        note.word.get() == word && note.noted.get() == noted
    })
}

/// How long to wait then.
#[inline(always)]
pub(super) fn wait(stamp: u64) -> Duration {
    note_of(stamp, |note| note.wait.get())
}

/// Where there is no other count: whether it may be said once more.
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

/// Apart, so that who counts need not look at it twice.
#[cold]
fn none_is_left(left: &Cell<u64>) {
    left.set(0);
}

/// Remembers that it was refused, up to [`OFTEN`] times. It has nothing in its purse.
pub(super) fn say(stamp: u64, word: u64, noted: u64, wait: Span) {
    note_of(stamp, |note| {
        note.stamp.set(stamp);
        note.word.set(word);
        note.noted.set(noted);
        note.left.set(OFTEN);
        note.wait.set(Duration::from_nanos(wait.nanos()));
    });
}

/// It may be said as often once more.
pub(super) fn renew(stamp: u64) {
    note_of(stamp, |note| note.left.set(OFTEN));
}

/// Forgets that: it may have something in its purse from now on.
pub(super) fn forget(stamp: u64) {
    if is_of(stamp) {
        note_of(stamp, |note| note.stamp.set(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With no modes.
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
