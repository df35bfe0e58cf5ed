//! What a thread was refused a moment ago: so it can be refused again at a glance.

use aliquot_core::unit::Span;
use std::cell::Cell;
use std::time::Duration;

/// One key's refusal, in a line of its own.
#[repr(align(64))]
struct Note {
    /// Whose key: the number of its gate, and zero nobody's.
    gate: Cell<u64>,
    /// What its word was.
    word: Cell<u64>,
    /// At which reading of the time that is written down.
    noted: Cell<u64>,
    /// How often it may be said again before the long way is gone once more, however little time seems to pass; or the count
    /// of refusals at which it is.
    left: Cell<u64>,
    /// How long to wait from that reading on.
    wait: Cell<Duration>,
}

/// Of so many keys at once, by the lowest bits of their gates' numbers.
const KEYS: usize = 8;
const OFTEN: u64 = 255;

thread_local! {
    static NOTES: [Note; KEYS] = const { [const { Note::new() }; KEYS] };
}

impl Note {
    const fn new() -> Self {
        Self {
            gate: Cell::new(0),
            word: Cell::new(0),
            noted: Cell::new(0),
            left: Cell::new(0),
            wait: Cell::new(Duration::ZERO),
        }
    }
}

#[inline(always)]
fn note_of<T>(gate: u64, with: impl FnOnce(&Note) -> T) -> T {
    NOTES.with(|notes| with(&notes[gate as usize % KEYS]))
}

/// How long to wait, if this thread was told so when word and time were these, and `counted` does so as often as may be.
#[inline(always)]
pub(super) fn said(
    gate: u64,
    word: u64,
    noted: u64,
    counted: impl FnOnce(&Cell<u64>) -> bool,
) -> Option<Duration> {
    note_of(gate, |note| {
        let same = note.gate.get() == gate && note.word.get() == word && note.noted.get() == noted;
        (same && counted(&note.left)).then(|| note.wait.get())
    })
}

/// Where there is no other count: as often as is left.
#[inline(always)]
pub(super) fn one_less(left: &Cell<u64>) -> bool {
    let less = left.get().checked_sub(1);
    left.set(less.unwrap_or(0));
    less.is_some()
}

/// Whether it was said at that time, already: then time stands still, or this is the end of what may be said.
pub(super) fn was_said(gate: u64, word: u64, noted: u64) -> bool {
    said(gate, word, noted, |_| true).is_some()
}

/// Remembers that, up to [`OFTEN`] times from a count on.
pub(super) fn say(gate: u64, word: u64, noted: u64, wait: Span, from: u64) {
    note_of(gate, |note| {
        note.gate.set(gate);
        note.word.set(word);
        note.noted.set(noted);
        note.left.set(from.wrapping_add(OFTEN));
        note.wait.set(Duration::from_nanos(wait.nanos()));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_of_one_key_one_word_and_one_time() {
        let wait = Span::from_secs(1);
        say(3, 5, 7, wait, 0);
        for (gate, word, noted) in [(3 + KEYS as u64, 5, 7), (3, 6, 7), (3, 5, 8), (4, 5, 7)] {
            assert_eq!(said(gate, word, noted, one_less), None);
        }
        for _ in 0..OFTEN {
            assert_eq!(said(3, 5, 7, one_less), Some(Duration::from_secs(1)));
        }
        assert_eq!(said(3, 5, 7, one_less), None);
        assert!(was_said(3, 5, 7));
        say(3 + KEYS as u64, 5, 7, wait, 0);
        assert!(!was_said(3, 5, 7));
    }
}
