//! The refusal of several limits.

use crate::limiter::refused::Refused;

/// A refusal by one of several limits. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit}: {refused}")]
pub struct CombinedRefused<'a> {
    /// Name of the limit with the longest wait.
    pub limit: &'a str,
    /// Position of that limit, from 0.
    pub index: usize,
    /// Refusal of that limit.
    pub refused: Refused,
}
