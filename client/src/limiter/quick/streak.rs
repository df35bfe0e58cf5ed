//! What a thread left behind at a reading of the clock: while it decides often, it may go on by that for a few tokens.

use crate::cell::deferred::Known;
use crate::key::Gate;
use aliquot_core::unit::{Span, Tick};
use std::cell::Cell;

/// One epoch's, in a line of its own. Each number for itself: what was just written is read again before it is in memory, and so
/// must be read as it was written.
#[repr(align(64))]
struct Streak {
    /// Which epoch's: its name, and zero none's.
    name: Cell<u64>,
    word: Cell<u64>,
    token: Cell<u64>,
    at: Cell<u64>,
}

/// Of so many keys at once, by where their gates are.
const PLACES: usize = 8;

/// Decisions that follow each other within this are frequent: elsewhere a reading of the clock is next to nothing, and exact.
const OFTEN: Span = Span::from_nanos(10_000);

thread_local! {
    static STREAKS: [Streak; PLACES] = const { [const { Streak::new() }; PLACES] };
}

impl Streak {
    const fn new() -> Self {
        Self {
            name: Cell::new(0),
            word: Cell::new(0),
            token: Cell::new(0),
            at: Cell::new(0),
        }
    }

    #[inline(always)]
    fn known(&self) -> Known {
        Known {
            word: self.word.get(),
            name: self.name.get(),
            token: self.token.get(),
            at: Tick::from_nanos(self.at.get()),
        }
    }
}

/// Where it is stands in no word, so that what is there is known as soon as can be.
#[inline(always)]
fn streak_of<T>(gate: &Gate, with: impl FnOnce(&Streak) -> T) -> T {
    let place = std::ptr::from_ref(gate).addr() / align_of::<Gate>();
    STREAKS.with(|streaks| with(&streaks[place % PLACES]))
}

/// Takes `n` tokens that this thread knows to be there. Answers when they were.
#[inline(always)]
pub(super) fn go_on(gate: &Gate, n: u64) -> Option<Tick> {
    streak_of(gate, |streak| {
        let known = streak.known();
        let name = gate.cell.name();
        streak.word.set(gate.cell.take_known(known, n, name)?);
        Some(known.at)
    })
}

/// Remembers what is known after a decision, if another was not long before.
#[inline(always)]
pub(super) fn begin(gate: &Gate, known: Known) {
    streak_of(gate, |streak| {
        let before = streak.known();
        let follows = before.name == known.name && known.at.since(before.at) < OFTEN;
        streak.name.set(known.name);
        streak.word.set(if follows { known.word } else { u64::MAX });
        streak.token.set(known.token);
        streak.at.set(known.at.nanos());
    });
}
