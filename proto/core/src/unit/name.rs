//! Names: identifiers and counters that must not be mistaken for one another.

use core::fmt;

/// Declares a 64-bit name.
macro_rules! name {
    ($(#[$doc:meta])+ $name:ident, $prefix:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        pub struct $name(u64);

        impl $name {
            /// Names or counts by `value`.
            #[must_use]
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The value.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The next one, or `None` after the last.
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(next) => Some(Self(next)),
                    None => None,
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    };
}

name! {
    /// A coordinator node, for as long as its data lives.
    NodeId, "n"
}
name! {
    /// One life of a holder, issued by its parent (a node's by the log, a
    /// client's by its node) and never issued twice. A restart is a new one.
    Incarnation, "i"
}
name! {
    /// One generation of one key's budget, issued by the log. A key that is
    /// deleted, wound up and created again has another.
    BudgetId, "b"
}
name! {
    /// A key rule: an exact key or a template.
    RuleId, "k"
}
name! {
    /// A child's reports on one edge, counted from 1. Zero is no report.
    Seq, "s"
}
name! {
    /// A parent's answers on one edge (for a leader: in one term), counted from 1. Zero is no answer.
    Number, "a"
}
name! {
    /// A term of leadership in the replicated log.
    Term, "t"
}
name! {
    /// A round within a term, counted from 1.
    Round, "r"
}
name! {
    /// A period of a quota. Greater is later.
    PeriodId, "p"
}
name! {
    /// An operator's request, so that a retry is not a second change.
    RequestId, "q"
}

/// The pair that every counter belongs to: a parent's life and a child's life.
///
/// Losing state on either side makes another pair, and what is said about one
/// pair means nothing to another.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Edge {
    /// The parent's life; for the nodes' edges to the log it is the cluster's, which never ends.
    pub parent: Incarnation,
    /// The child's life.
    pub child: Incarnation,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>{}", self.parent, self.child)
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
