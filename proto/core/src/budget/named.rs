//! Limits that callers name in the last segment of a key.

use super::error::FieldError;
use super::grammar;
use super::key::Key;
use super::limit::Limit;
use crate::unit::{Frequency, Span};
use alloc::string::ToString;
use core::fmt;

/// A rate and a burst that a key names in its last segment, such as `30-per-1m-burst-15`.
///
/// Callers that bring a limit with each request, as the throttling commands of Redis do, put it into the key,
/// below a template with `named_limits: yes`. So every replica reads the same limit from the same key, and
/// equal requests share one budget in the whole cluster.
///
/// A limit has one spelling, the one that [`fmt::Display`] writes: a second would be a second budget. Two
/// limits are two budgets also if they allow the same, as 30 per minute and 1 per 2 seconds do.
///
/// ```
/// use aliquot_core::budget::NamedLimit;
/// use aliquot_core::unit::{Frequency, Span};
///
/// let rate = Frequency::new(30, Span::from_secs(60))?;
/// let limit = NamedLimit::new(rate, 15)?;
/// assert_eq!(limit.to_string(), "30-per-1m-burst-15");
/// assert_eq!(NamedLimit::try_from("30-per-1m-burst-15"), Ok(limit));
/// assert!(NamedLimit::try_from("30-per-60s-burst-15").is_err());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamedLimit {
    rate: Frequency,
    burst: u64,
}

impl NamedLimit {
    /// Returns the limit of this rate and burst.
    ///
    /// # Errors
    ///
    /// The field that is outside the range of a budget's rate or burst. Neither may be 0.
    pub fn new(rate: Frequency, burst: u64) -> Result<Self, FieldError> {
        if rate.tokens() == 0 {
            let allowed = "a rate of at least 1 token per 10 days";
            return Err(FieldError::new("rate", &rate.to_string(), allowed));
        }
        if burst == 0 {
            return Err(FieldError::new("burst", "0", "at least 1 token"));
        }
        Limit::Rate { rate, burst }.scale()?;
        Ok(Self { rate, burst })
    }

    /// Returns the limit of `tokens` per `per` with a burst.
    ///
    /// # Errors
    ///
    /// See [`NamedLimit::new`].
    pub fn per(tokens: u64, per: Span, burst: u64) -> Result<Self, FieldError> {
        let rate = Frequency::new(tokens, per).map_err(|_| {
            let allowed = "from 1 token per 10 days to 1T/s";
            FieldError::new("rate", &alloc::format!("{tokens}/{per}"), allowed)
        })?;
        Self::new(rate, burst)
    }

    /// Returns the limit that the last segment of a key names.
    ///
    /// # Errors
    ///
    /// The segment, if it is no limit as [`fmt::Display`] writes it.
    pub fn of(key: &Key) -> Result<Self, FieldError> {
        Self::try_from(key.segments().next_back().unwrap_or_default())
    }

    /// Returns the rate.
    #[must_use]
    pub const fn rate(self) -> Frequency {
        self.rate
    }

    /// Returns the burst.
    #[must_use]
    pub const fn burst(self) -> u64 {
        self.burst
    }

    /// Returns the smaller rate and the smaller burst of this and of what the operator allows.
    ///
    /// Any scale that counts one of the two limits up to its burst also counts the smaller one: the result is
    /// a valid limit if both are.
    pub(super) fn within(self, rate: Frequency, burst: u64) -> Limit {
        let faster = |one: Frequency, other: Frequency| {
            let product = |a: u64, b: Span| u128::from(a).checked_mul(u128::from(b.nanos()));
            product(one.tokens(), other.per()) > product(other.tokens(), one.per())
        };
        let capped = faster(self.rate, rate);
        Limit::Rate {
            rate: if capped { rate } else { self.rate },
            burst: self.burst.min(burst),
        }
    }
}

impl fmt::Display for NamedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tokens, per) = (self.rate.tokens(), self.rate.per());
        write!(f, "{tokens}-per-{per}-burst-{}", self.burst)
    }
}

impl TryFrom<&str> for NamedLimit {
    type Error = FieldError;

    fn try_from(text: &str) -> Result<Self, FieldError> {
        let read = || {
            let (rate, burst) = text.split_once("-burst-")?;
            let (tokens, per) = rate.split_once("-per-")?;
            let limit = Self::per(
                tokens.parse().ok()?,
                grammar::span(per)?,
                burst.parse().ok()?,
            );
            limit.ok().filter(|limit| limit.to_string() == text)
        };
        read().ok_or_else(|| {
            let allowed = "a limit such as \"30-per-1m-burst-15\", in whole numbers without leading \
                           zeros, with a span of one unit, the largest that is exact";
            FieldError::new("limit", text, allowed)
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/budget/named.rs"]
mod tests;
