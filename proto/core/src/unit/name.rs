//! Names: identifiers and counters as distinct types.

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
            /// Returns the name with this value.
            #[must_use]
            #[inline]
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// Returns the value.
            #[must_use]
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Returns the next one, or `None` after the last.
            #[must_use]
            #[inline]
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
    /// A coordinator node, for as long as its data directory exists.
    NodeId, "n"
}
name! {
    /// One incarnation of a holder, issued by its parent (a node's by the log, a client's by its node) and
    /// never issued twice. A restart begins a new one.
    Incarnation, "i"
}
name! {
    /// One generation of one key's budget, issued by the log. A key that is deleted, wound up and created
    /// again has another.
    BudgetId, "b"
}
name! {
    /// A key rule: an exact key or a template.
    RuleId, "k"
}
name! {
    /// Number of a child's report on one edge, counted from 1. Zero is no report.
    Seq, "s"
}
name! {
    /// Number of a parent's answer on one edge (for a leader: in one term), counted from 1. Zero is no
    /// answer.
    Number, "a"
}
name! {
    /// A term of leadership in the replicated log.
    Term, "t"
}
name! {
    /// Number of a round within a term, counted from 1.
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

/// The pair that every counter belongs to: a parent's incarnation and a child's incarnation.
///
/// Losing state on either side begins another pair, and messages of one pair have no effect on another.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Edge {
    /// The parent's incarnation. For the nodes' edges it is the cluster's, which never ends.
    pub parent: Incarnation,
    /// The child's incarnation.
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
