//! What a bucket says when it says no.

use crate::unit::{Span, Tokens};
use core::fmt;

/// Why tokens were refused, and when to ask again. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refusal {
    /// More was asked for than the bucket can hold: no wait helps.
    ExceedsBurst {
        /// The most that can be had at once.
        burst: Tokens,
    },
    /// The tokens are not there yet.
    NotYet {
        /// The shortest wait, counted from the tick that was asked at, after
        /// which the same question is answered with yes, if nobody else takes
        /// any meanwhile.
        retry_after: Span,
    },
    /// Nothing refills the bucket (or not before the clock's range ends).
    Never,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExceedsBurst { burst } => write!(f, "more than the burst of {burst} grains"),
            Self::NotYet { retry_after } => write!(f, "not before {retry_after} have passed"),
            Self::Never => write!(f, "spent, and nothing refills it"),
        }
    }
}

impl core::error::Error for Refusal {}
