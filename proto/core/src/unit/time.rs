//! Time: spans, ticks, and the drift between two clocks.

use super::UnitError;
use core::fmt;

/// Nanoseconds in a second.
pub(crate) const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A length of time in nanoseconds. Range: 0 to about 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Span(u64);

impl Span {
    /// The empty span.
    pub const ZERO: Self = Self(0);

    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a span of `nanos` nanoseconds.
    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns a span of `millis` milliseconds.
    ///
    /// # Panics
    ///
    /// If the span is longer than 584 years; meant for constants.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        match millis.checked_mul(1_000_000) {
            Some(nanos) => Self(nanos),
            None => panic!("a span is at most 584 years"),
        }
    }

    /// Returns a span of `secs` seconds.
    ///
    /// # Panics
    ///
    /// If the span is longer than 584 years; meant for constants.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        match secs.checked_mul(NANOS_PER_SEC) {
            Some(nanos) => Self(nanos),
            None => panic!("a span is at most 584 years"),
        }
    }

    /// Returns the span in nanoseconds.
    #[must_use]
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns true if the span is empty.
    #[must_use]
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the sum, if it is in range.
    #[must_use]
    #[inline]
    pub const fn plus(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Returns the sum, or the longest span. A wait may saturate: waiting longer never admits more.
    #[must_use]
    #[inline]
    pub const fn plus_or_max(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero if `other` is the longer.
    #[must_use]
    #[inline]
    pub const fn minus_or_zero(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the span multiplied by `factor`, or the longest span.
    #[must_use]
    #[inline]
    pub const fn times_or_max(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes the span in the greatest unit that divides it: `3s`, `500ms`, `7ns`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nanos, name) in [
            (86_400 * NANOS_PER_SEC, "d"),
            (3_600 * NANOS_PER_SEC, "h"),
            (60 * NANOS_PER_SEC, "m"),
            (NANOS_PER_SEC, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ] {
            match self.0.checked_div(nanos) {
                Some(whole) if whole > 0 && self.0.is_multiple_of(nanos) => {
                    return write!(f, "{whole}{name}");
                }
                _ => {}
            }
        }
        write!(f, "{}ns", self.0)
    }
}

/// An instant on one host's clock, in nanoseconds since that clock's zero.
///
/// Only the caller can make one: nothing in this crate reads a clock. Ticks of two hosts are never compared.
/// A clock that is used here counts the time during which its machine was suspended.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Tick(u64);

impl Tick {
    /// The clock's zero. No reading is earlier: what ends then is over, and what was done then was never done.
    pub const ZERO: Self = Self(0);

    /// The last instant. No reading reaches it: what ends then never ends.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the clock's zero.
    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the clock's zero.
    #[must_use]
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later: if a clock steps back, no time has
    /// passed.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `span` later, or the last instant.
    #[must_use]
    #[inline]
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the instant `span` earlier, or the clock's zero.
    #[must_use]
    #[inline]
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", Span(self.0))
    }
}

/// The bound ρ on the deviation of a clock's rate from true time, in parts per million. Range: 0 to 100,000
/// (10 %); the default is 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u32", into = "u32"))]
pub struct Drift(u32);

impl Drift {
    /// Maximum bound of a cluster.
    pub const PPM_MAX: u32 = 100_000;

    /// Returns a bound of `ppm` parts per million.
    ///
    /// # Errors
    ///
    /// [`UnitError::OutOfRange`] above [`Drift::PPM_MAX`].
    #[inline]
    pub const fn from_ppm(ppm: u32) -> Result<Self, UnitError> {
        if ppm > Self::PPM_MAX {
            return Err(UnitError::OutOfRange { what: "drift" });
        }
        Ok(Self(ppm))
    }

    /// Returns the bound in parts per million.
    #[must_use]
    #[inline]
    pub const fn ppm(self) -> u32 {
        self.0
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self(1_000)
    }
}

impl TryFrom<u32> for Drift {
    type Error = UnitError;

    fn try_from(ppm: u32) -> Result<Self, UnitError> {
        Self::from_ppm(ppm)
    }
}

impl From<Drift> for u32 {
    fn from(drift: Drift) -> Self {
        drift.ppm()
    }
}
