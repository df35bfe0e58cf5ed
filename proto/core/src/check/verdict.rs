//! Verdicts of checkers.

use crate::unit::Tick;
use core::fmt;

/// An invariant, by its number in `docs/invariants.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// 1: the contract itself.
    Envelope,
    /// 2: believed holdings add up to no more than the limit.
    Conservation,
    /// 3: a reclaimed incarnation admits nothing.
    Disjointness,
    /// 4: nothing is used before it is committed.
    CommitBeforeEffect,
    /// 5: a new leader waits before it proposes a reclaim.
    Patience,
    /// 6: counters of an edge only grow.
    MonotoneEdges,
    /// 7: a cut-off holder follows its policy.
    DegradedBound,
    /// 8: everything recovers once faults stop.
    Healing,
    /// 9: demand that is allowed is served.
    WorkConservation,
    /// 10: shares are max-min fair.
    Fairness,
    /// 11: one bucket that saw everything would have admitted as much.
    Dominance,
    /// 12: no behaviour of a clock makes tokens.
    NoMinting,
    /// 13: memory, queues and retries have bounds.
    Bounded,
    /// 14: the same seed gives the same trace.
    Determinism,
}

impl Invariant {
    /// Returns the number and the name, as in `docs/invariants.md`.
    #[must_use]
    pub const fn title(self) -> (u8, &'static str) {
        match self {
            Self::Envelope => (1, "envelope"),
            Self::Conservation => (2, "conservation"),
            Self::Disjointness => (3, "disjointness"),
            Self::CommitBeforeEffect => (4, "commit before effect"),
            Self::Patience => (5, "patience"),
            Self::MonotoneEdges => (6, "monotone edges"),
            Self::DegradedBound => (7, "degraded bound"),
            Self::Healing => (8, "healing"),
            Self::WorkConservation => (9, "work conservation"),
            Self::Fairness => (10, "fairness"),
            Self::Dominance => (11, "dominance"),
            Self::NoMinting => (12, "no minting"),
            Self::Bounded => (13, "bounded"),
            Self::Determinism => (14, "determinism"),
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, name) = self.title();
        write!(f, "invariant {number} ({name})")
    }
}

/// Time at which an invariant was broken, in the time of the checker's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At one instant.
    At(Tick),
    /// Over a closed window.
    Within {
        /// The window's first instant.
        from: Tick,
        /// The window's last instant.
        to: Tick,
    },
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => write!(f, "at {at:?}"),
            Self::Within { from, to } => write!(f, "within [{from:?}, {to:?}]"),
        }
    }
}

/// One breach of one invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The time.
    pub when: When,
    /// The excess, rounded up; at least 1, unless the breach has no size.
    pub excess: u128,
    /// Unit of the excess: reads after the number, as in "3 permits over the limit".
    pub what: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            when,
            excess,
            what,
        } = self;
        write!(f, "{invariant} broken {when}: {excess} {what}")
    }
}

impl core::error::Error for Violation {}

/// Reason why a checker cannot judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// An event had an earlier time than one before it. It was left out.
    OutOfOrder {
        /// The time of the event that came too late.
        at: Tick,
    },
    /// A sum left 128 bits. The event was left out.
    OutOfRange,
    /// An event that undoes another one came without it. It was left out.
    Unmatched {
        /// The time of the event.
        at: Tick,
    },
    /// Costs differ, and the invariant is defined for equal ones only.
    WeightedCosts,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfOrder { at } => write!(f, "an event at {at:?} is older than the last one"),
            Self::OutOfRange => write!(f, "a sum left 128 bits"),
            Self::Unmatched { at } => write!(f, "an event at {at:?} undoes what was never done"),
            Self::WeightedCosts => write!(f, "costs differ: the bound is a reference only"),
        }
    }
}

/// Result of a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing in the recorded events breaks the invariant.
    Pass,
    /// The invariant was broken, whatever became doubtful later.
    Fail(Violation),
    /// No breach was seen, but one may be hidden in what could not be judged: the event of the doubt, and
    /// everything after it.
    Unknown(Doubt),
}

impl Verdict {
    /// Returns both verdicts as one: a failure outweighs a doubt, a doubt a pass. Of two equals the first
    /// stays.
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Fail(_), _) | (Self::Unknown(_), Self::Pass | Self::Unknown(_)) => self,
            (Self::Unknown(_) | Self::Pass, _) => other,
        }
    }

    /// Returns true if everything was judged and nothing found.
    #[must_use]
    pub const fn is_pass(&self) -> bool {
        matches!(self, Self::Pass)
    }

    /// Returns the breach, if there is one.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        match self {
            Self::Fail(violation) => Some(violation),
            Self::Pass | Self::Unknown(_) => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => write!(f, "pass"),
            Self::Fail(violation) => write!(f, "fail: {violation}"),
            Self::Unknown(doubt) => write!(f, "unknown: {doubt}"),
        }
    }
}

/// State of an accumulator for its verdict: the first breach and the first doubt. After a doubt nothing is
/// judged any more, since the event that was left out may have justified the rest. A breach before it is
/// kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Findings {
    violation: Option<Violation>,
    doubt: Option<Doubt>,
}

impl Findings {
    pub(super) const NONE: Self = Self {
        violation: None,
        doubt: None,
    };

    pub(super) fn fail(&mut self, violation: Violation) {
        if self.doubt.is_none() {
            self.violation.get_or_insert(violation);
        }
    }

    pub(super) fn doubt(&mut self, doubt: Doubt) {
        self.doubt.get_or_insert(doubt);
    }

    pub(super) const fn is_doubtful(&self) -> bool {
        self.doubt.is_some()
    }

    /// Returns true if `at` is not before `last`. Notes a doubt if it is.
    pub(super) fn in_order(&mut self, last: Tick, at: Tick) -> bool {
        if at < last {
            self.doubt(Doubt::OutOfOrder { at });
        }
        at >= last
    }

    pub(super) fn verdict(&self) -> Verdict {
        match (self.violation, self.doubt) {
            (Some(violation), _) => Verdict::Fail(violation),
            (None, Some(doubt)) => Verdict::Unknown(doubt),
            (None, None) => Verdict::Pass,
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/check/verdict.rs"]
mod tests;
