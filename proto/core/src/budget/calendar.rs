//! Units of the calendar, and the local clocks that they follow.

use crate::unit::Span;
use core::fmt;

/// A unit of the civil calendar. A week begins on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Calendar {
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From midnight on Monday to the next.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

impl Calendar {
    const NAMES: [(&str, Self); 6] = [
        ("minute", Self::Minute),
        ("hour", Self::Hour),
        ("day", Self::Day),
        ("week", Self::Week),
        ("month", Self::Month),
        ("year", Self::Year),
    ];

    /// Returns the unit with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names.find(|(word, _)| *word == name).map(|(_, unit)| *unit)
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Self::NAMES.iter();
        let name = names.find(|(_, unit)| unit == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

/// Length of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Length {
    /// A fixed length, counted from the Unix epoch.
    Fixed(Span),
    /// A unit of the calendar.
    Calendar(Calendar),
}

/// Writes `24h` for a fixed length, `day` for the calendar's.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) => fmt::Display::fmt(span, f),
            Self::Calendar(unit) => fmt::Display::fmt(unit, f),
        }
    }
}

/// Offset of a local clock from UTC, positive if the clock is ahead. Range: −14:00 to +14:00.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Offset(i16);

impl Offset {
    /// No offset.
    pub const UTC: Self = Self(0);

    /// Maximum offset: fourteen hours.
    pub const MINUTES_MAX: i16 = 14 * 60;

    /// Returns an offset of `minutes`, positive east of Greenwich, or `None` if it is out of range.
    #[must_use]
    pub const fn from_minutes(minutes: i16) -> Option<Self> {
        match minutes {
            -840..=Self::MINUTES_MAX => Some(Self(minutes)),
            _ => None,
        }
    }

    /// Returns the offset in minutes.
    #[must_use]
    pub const fn minutes(self) -> i16 {
        self.0
    }
}

/// Writes `+05:30`.
impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        let minutes = self.0.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// An instant of wall-clock time, in milliseconds since the Unix epoch (UTC, no leap seconds).
///
/// Only the caller can make one: nothing in this crate reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct WallTime(i64);

impl WallTime {
    /// The end of the year 9999: no period runs at or after it.
    pub const END: Self = Self(253_402_300_800_000);

    /// Returns the instant `millis` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }
}
