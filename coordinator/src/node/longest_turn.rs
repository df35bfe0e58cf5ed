//! Longest turn of the actor's loop, which is the longest delay of lease renewals.

use aliquot_core::unit::{Span, Tick};

/// Part of a turn that divisible work may take. Reports of peers, barriers and this node's own report
/// wait for at most two of these.
pub(super) const SLICE: Span = Span::from_millis(8);

/// A turn that takes longer is logged as a warning.
const LONG: Span = Span::from_millis(200);

/// Minimum time between two warnings, and length of the window for the longest turn.
const WARN_EVERY: Span = Span::from_secs(60);

/// Duration of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnTime {
    /// By the clock: the delay of renewals.
    pub held: Span,
    /// Processor time of the loop's thread. The rest of the duration, the processors did something else.
    pub worked: Span,
}

impl TurnTime {
    /// Returns the longer of each.
    fn max(self, other: Self) -> Self {
        Self {
            held: self.held.max(other.held),
            worked: self.worked.max(other.worked),
        }
    }
}

/// The longest turns of the current window and of the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongestTurn {
    since: Tick,
    /// Longest turn since the window began, and of the window before.
    longest: TurnTime,
    before: TurnTime,
    warned: Option<Tick>,
}

impl LongestTurn {
    pub(super) fn new(now: Tick) -> Self {
        Self {
            since: now,
            longest: TurnTime::default(),
            before: TurnTime::default(),
            warned: None,
        }
    }

    /// Records a turn that `cause` began.
    pub(super) fn note(&mut self, cause: &'static str, took: TurnTime, now: Tick) {
        if now.since(self.since) >= WARN_EVERY {
            self.before = self.longest;
            (self.since, self.longest) = (now, TurnTime::default());
        }
        self.longest = self.longest.max(took);
        let warned = self.warned.is_some_and(|at| now.since(at) < WARN_EVERY);
        if took.held > LONG && !warned {
            self.warned = Some(now);
            let ms = took.held.nanos() / 1_000_000;
            let worked_ms = took.worked.nanos() / 1_000_000;
            tracing::warn!(
                cause,
                ms,
                worked_ms,
                "a turn of the loop that renews leases took long"
            );
        }
    }

    /// Returns the longest turn of the last one to two minutes, by the clock, and the most processor time of one.
    #[must_use]
    pub(super) fn longest(&self) -> TurnTime {
        self.longest.max(self.before)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/longest_turn.rs"]
mod tests;
