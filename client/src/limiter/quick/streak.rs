//! What a thread left behind at a reading of the clock: while it decides often, it may go on by that for a few tokens.

use crate::cell::deferred::Known;
use crate::key::Gate;
use aliquot_core::unit::{Span, Tick};
use std::cell::Cell;

/// One key's, in a line of its own. Each number for itself: what was just written is read again before it is in memory, and so
/// must be read as it was written.
#[repr(align(64))]
struct Streak {
    /// Whose key: the number of its gate, and zero nobody's.
    gate: Cell<u64>,
    word: Cell<u64>,
    token: Cell<u64>,
    at: Cell<u64>,
}

/// Of so many keys at once, by the lowest bits of their gates' numbers.
const KEYS: usize = 8;

/// Decisions that follow each other within this are frequent: elsewhere a reading of the clock is next to nothing, and exact.
const OFTEN: Span = Span::from_nanos(10_000);

thread_local! {
    static STREAKS: [Streak; KEYS] = const { [const { Streak::new() }; KEYS] };
}

impl Streak {
    const fn new() -> Self {
        Self {
            gate: Cell::new(0),
            word: Cell::new(0),
            token: Cell::new(0),
            at: Cell::new(0),
        }
    }

    fn at(&self) -> Tick {
        Tick::from_nanos(self.at.get())
    }
}

#[inline(always)]
fn streak_of<T>(gate: &Gate, with: impl FnOnce(&Streak) -> T) -> T {
    STREAKS.with(|streaks| with(&streaks[gate.number as usize % KEYS]))
}

/// Takes `n` tokens that this thread knows to be there. Answers when they were.
#[inline(always)]
pub(super) fn go_on(gate: &Gate, n: u64) -> Option<Tick> {
    streak_of(gate, |streak| {
        if streak.gate.get() != gate.number {
            return None;
        }
        let word = gate
            .cell
            .take_known(streak.word.get(), n, streak.token.get())?;
        streak.word.set(word);
        Some(streak.at())
    })
}

/// Remembers what is known after a decision, if another was not long before.
#[inline(always)]
pub(super) fn begin(gate: &Gate, known: Known) {
    streak_of(gate, |streak| {
        let same = streak.gate.get() == gate.number;
        let follows = same && known.at.since(streak.at()) < OFTEN;
        streak.gate.set(gate.number);
        streak.word.set(if follows { known.word } else { u64::MAX });
        streak.token.set(known.token);
        streak.at.set(known.at.nanos());
    });
}
