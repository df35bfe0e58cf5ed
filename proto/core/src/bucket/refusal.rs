//! Refusals of a bucket.

use crate::unit::{Span, Tokens};
use core::fmt;

/// Reason why tokens were refused, and the time to ask again. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refusal {
    /// More was requested than the bucket can hold. Waiting does not help.
    ExceedsBurst {
        /// The maximum that can be had at once.
        burst: Tokens,
    },
    /// The tokens are not there yet.
    NotYet {
        /// The shortest wait, counted from the tick of the request, after which the same request is admitted
        /// if no other one takes tokens in the meantime.
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
