//! Reasons why a book refuses a change.

use crate::edge::EdgeError;
use core::fmt;

/// Reason why the book did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AccountError {
    /// The edge is closed. Nothing sent on it counts.
    Closed,
    /// The whole does not have enough left.
    NotFree,
    /// Tokens without the capacity that they fill, or a floor without its rate and burst.
    Unaccompanied,
    /// The counters belong to another period.
    OtherPeriod,
    /// It was drawn before the limit was lowered.
    Outdated,
    /// The snapshot contradicts the edge.
    Edge(EdgeError),
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the edge is closed"),
            Self::NotFree => f.write_str("the budget has not so much left"),
            Self::Unaccompanied => {
                f.write_str("tokens travel only with capacity, a floor with its share")
            }
            Self::OtherPeriod => f.write_str("the counters belong to another period"),
            Self::Outdated => f.write_str("it was drawn before the limit was lowered"),
            Self::Edge(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AccountError {}

impl From<EdgeError> for AccountError {
    fn from(error: EdgeError) -> Self {
        Self::Edge(error)
    }
}
