//! Reasons of refusals.

use crate::bucket::Refusal;
use core::fmt;

/// Reason why a request was refused. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Denial {
    /// The budget is not claimed here, or is of another kind.
    Unknown,
    /// Nothing is held: not granted yet, or all of it recalled.
    NoShare,
    /// The lease is over, and the policy denies.
    Lapsed,
    /// The bucket refused.
    Bucket(Refusal),
    /// The escrow of the quota has fewer tokens than requested.
    Escrow,
    /// All permits are in flight.
    Permits,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such budget is claimed"),
            Self::NoShare => f.write_str("nothing of it is held"),
            Self::Lapsed => f.write_str("the lease is over"),
            Self::Bucket(refusal) => refusal.fmt(f),
            Self::Escrow => f.write_str("not so much of the quota is held"),
            Self::Permits => f.write_str("all permits are in flight"),
        }
    }
}

impl core::error::Error for Denial {}
