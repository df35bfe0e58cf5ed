//! Ticks of the actor's loop, which do the work that depends on time alone.

use aliquot_core::node::Node;
use aliquot_core::unit::{Span, Tick};

/// The time of the last tick, and of the last overload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    last: Tick,
    /// The last time at which this node had more work than it could do.
    behind: Option<Tick>,
}

impl Ticks {
    /// A tick that is later than this shows that the node is overloaded.
    const LATE: Span = Span::from_millis(300);

    /// Time after an overload during which no session is ended for silence: a message that the client
    /// sent in time may still be unread in a socket.
    const CAUGHT_UP: Span = Span::from_secs(2);

    pub(super) const fn new(now: Tick) -> Self {
        Self {
            last: now,
            behind: None,
        }
    }

    /// Returns the time of the next tick. `rests` is true while nothing is pending.
    pub(super) fn next(&self, rests: bool) -> Tick {
        self.last.after(match rests {
            true => Node::TICK_AT_REST,
            false => Node::TICK,
        })
    }

    /// Begins a tick. Returns true if all that clients sent in time was read by now. `many` is true if more
    /// events of sessions wait than are handled in one turn.
    pub(super) fn begin(&mut self, rests: bool, many: bool, now: Tick) -> bool {
        if many || now.since(self.next(rests)) >= Self::LATE {
            self.behind = Some(now);
        }
        self.last = now;
        self.behind
            .is_none_or(|at| now.since(at) >= Self::CAUGHT_UP)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/ticks.rs"]
mod tests;
