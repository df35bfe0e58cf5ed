//! Deferred charges: the state that a thread left behind at its last clock reading. While it decides often,
//! it takes a few more tokens by that reading.

use crate::cell::deferred::Known;
use crate::key_state::KeyState;
use aliquot_core::unit::{Span, Tick};
use std::cell::Cell;

/// The state of one epoch, in a cache line of its own. Each field is read with the width that it was written
/// with, since it is read again before the write reaches the cache.
#[repr(align(64))]
struct LastDecision {
    /// Name of the epoch; zero for none.
    name: Cell<u64>,
    word: Cell<u64>,
    token: Cell<u64>,
    at: Cell<u64>,
}

/// Number of keys that a thread remembers, chosen by the address of their key states.
const PLACES: usize = 8;

/// Decisions closer together than this are frequent. For others a clock reading is cheap by comparison, and
/// exact.
const OFTEN: Span = Span::from_nanos(10_000);

thread_local! {
    static LAST: [LastDecision; PLACES] = const { [const { LastDecision::new() }; PLACES] };
}

impl LastDecision {
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

/// The place follows from the address of the key state, which needs no load.
#[inline(always)]
fn with_last<T>(key_state: &KeyState, with: impl FnOnce(&LastDecision) -> T) -> T {
    let place = std::ptr::from_ref(key_state).addr() / align_of::<KeyState>();
    LAST.with(|all| with(&all[place % PLACES]))
}

/// Takes `n` tokens that were there at the last reading of this thread, and returns that reading. `None` if
/// nothing was taken.
#[inline(always)]
pub(super) fn take_deferred(key_state: &KeyState, n: u64) -> Option<Tick> {
    with_last(key_state, |last| {
        let known = last.known();
        let name = key_state.cell.name();
        last.word.set(key_state.cell.take_known(known, n, name)?);
        Some(known.at)
    })
}

/// Remembers the state after a decision, for use only if the decision before it was not long ago.
#[inline(always)]
pub(super) fn record(key_state: &KeyState, known: Known) {
    with_last(key_state, |last| {
        let before = last.known();
        let follows = before.name == known.name && known.at.since(before.at) < OFTEN;
        last.name.set(known.name);
        last.word.set(if follows { known.word } else { u64::MAX });
        last.token.set(known.token);
        last.at.set(known.at.nanos());
    });
}
