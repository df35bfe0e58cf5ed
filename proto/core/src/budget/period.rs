//! The periods of a quota: which one runs, and when it starts and ends.

use super::civil;
use crate::planted::{self, Bug};
use crate::unit::{PeriodId, Span};
use core::fmt;

const MILLIS_PER_MINUTE: i64 = 60_000;
const MILLIS_PER_HOUR: i64 = 3_600_000;
const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// An instant of the world's time, in milliseconds since the Unix epoch
/// (UTC, no leap seconds).
///
/// Only the caller can make one: nothing in this crate reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct WallTime(i64);

impl WallTime {
    /// The end of the year 9999: no period runs at or after it.
    pub const END: Self = Self(253_402_300_800_000);

    /// That many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }
}

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
    /// From Monday's midnight to the next.
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

    /// The unit of that name.
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

/// How long a period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Length {
    /// Always the same; counted from the Unix epoch.
    Fixed(Span),
    /// A unit of the calendar.
    Calendar(Calendar),
}

/// `24h` for a fixed length, `day` for the calendar's.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) => fmt::Display::fmt(span, f),
            Self::Calendar(unit) => fmt::Display::fmt(unit, f),
        }
    }
}

/// How far a local clock is ahead of UTC. Range: −14:00 to +14:00.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Offset(i16);

impl Offset {
    /// No offset.
    pub const UTC: Self = Self(0);

    /// Fourteen hours.
    pub const MINUTES_MAX: i16 = 14 * 60;

    /// An offset of `minutes`, east of Greenwich positive; `None` out of range.
    #[must_use]
    pub const fn from_minutes(minutes: i16) -> Option<Self> {
        match minutes {
            -840..=Self::MINUTES_MAX => Some(Self(minutes)),
            _ => None,
        }
    }

    /// The offset in minutes.
    #[must_use]
    pub const fn minutes(self) -> i16 {
        self.0
    }
}

/// `+05:30`.
impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        let minutes = self.0.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Why a period could not be made or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeriodError {
    /// A fixed length outside 1 s to 36,525 days, or not in whole milliseconds.
    Length,
    /// An alignment not shorter than the shortest period, or not in whole milliseconds.
    Align,
    /// An offset for a fixed length, which knows no calendar.
    Offset,
    /// A time before 1970 or after the year 9999, or a period that is not between them.
    OutOfRange,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "a period's length is from 1s to 36525d, in whole milliseconds",
            Self::Align => "an alignment is shorter than the period, in whole milliseconds",
            Self::Offset => "an offset belongs to a period of the calendar",
            Self::OutOfRange => "periods run from the year 1970 to the year 9999",
        })
    }
}

impl core::error::Error for PeriodError {}

/// The rule by which a quota's periods follow one another, without a gap.
///
/// The period that runs at the Unix epoch is `p1`, and each next one counts
/// one more, so ids only grow with time and 0 is no period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Period {
    length: Length,
    offset: Offset,
    align: Span,
}

/// How periods are counted off in local milliseconds.
enum Step {
    /// Each `length` long, one of them starting at `phase`.
    Millis { length: i64, phase: i64 },
    /// So many months each, one of them starting in January 1970.
    Months(i64),
}

impl Period {
    /// The longest fixed length: a hundred years.
    pub const LENGTH_MAX: Span = Span::from_secs(36_525 * 86_400);

    /// Periods of `length`, each starting `align` later than the calendar (or
    /// the count from the epoch) alone would have it.
    ///
    /// # Errors
    ///
    /// [`PeriodError`] for a length, an alignment or an offset out of range.
    pub fn new(length: Length, offset: Offset, align: Span) -> Result<Self, PeriodError> {
        let period = Self {
            length,
            offset,
            align,
        };
        let is_whole = |span: Span| span.nanos().is_multiple_of(NANOS_PER_MILLI);
        if let Length::Fixed(span) = length {
            if span < Span::from_secs(1) || span > Self::LENGTH_MAX || !is_whole(span) {
                return Err(PeriodError::Length);
            }
            if offset != Offset::UTC {
                return Err(PeriodError::Offset);
            }
        }
        if align >= period.shortest() || !is_whole(align) {
            return Err(PeriodError::Align);
        }
        Ok(period)
    }

    /// How long a period is.
    #[must_use]
    pub const fn length(&self) -> Length {
        self.length
    }

    /// The offset of the local clock that the calendar follows.
    #[must_use]
    pub const fn offset(&self) -> Offset {
        self.offset
    }

    /// How much later a period starts.
    #[must_use]
    pub const fn align(&self) -> Span {
        self.align
    }

    /// The shortest that a period of this rule may be: a month has at least 28 days.
    #[must_use]
    pub const fn shortest(&self) -> Span {
        match self.length {
            Length::Fixed(span) => span,
            Length::Calendar(Calendar::Minute) => Span::from_secs(60),
            Length::Calendar(Calendar::Hour) => Span::from_secs(3_600),
            Length::Calendar(Calendar::Day) => Span::from_secs(86_400),
            Length::Calendar(Calendar::Week) => Span::from_secs(7 * 86_400),
            Length::Calendar(Calendar::Month) => Span::from_secs(28 * 86_400),
            Length::Calendar(Calendar::Year) => Span::from_secs(365 * 86_400),
        }
    }

    /// The period that runs at `at`: its start is not after it, its end is.
    ///
    /// # Errors
    ///
    /// [`PeriodError::OutOfRange`] before 1970 or after the year 9999.
    pub fn id_at(&self, at: WallTime) -> Result<PeriodId, PeriodError> {
        if at < WallTime::default() || at >= WallTime::END {
            return Err(PeriodError::OutOfRange);
        }
        self.id(at.0).ok_or(PeriodError::OutOfRange)
    }

    /// The instant at which a period starts. That of `p1` may lie before 1970.
    ///
    /// # Errors
    ///
    /// [`PeriodError::OutOfRange`] for a period that does not run between 1970
    /// and 9999.
    pub fn start(&self, id: PeriodId) -> Result<WallTime, PeriodError> {
        match self.boundary(id) {
            Some(start) if id.get() > 0 && start < WallTime::END => Ok(start),
            _ => Err(PeriodError::OutOfRange),
        }
    }

    /// The instant at which a period ends and the next one starts.
    ///
    /// # Errors
    ///
    /// As [`Period::start`].
    pub fn end(&self, id: PeriodId) -> Result<WallTime, PeriodError> {
        self.start(id)?;
        let next = id.next().and_then(|next| self.boundary(next));
        next.ok_or(PeriodError::OutOfRange)
    }

    fn id(&self, millis: i64) -> Option<PeriodId> {
        let index = self.index(millis.checked_add(self.shift()?)?)?;
        let id = index.checked_sub(self.index_at_epoch()?)?.checked_add(1)?;
        u64::try_from(id).ok().map(PeriodId::new)
    }

    fn boundary(&self, id: PeriodId) -> Option<WallTime> {
        let id = i64::try_from(id.get()).ok()?;
        let index = id.checked_add(self.index_at_epoch()?)?.checked_sub(1)?;
        let local = match self.step()? {
            Step::Millis { length, phase } => index.checked_mul(length)?.checked_add(phase)?,
            Step::Months(months) => {
                civil::month_start(index.checked_mul(months)?)?.checked_mul(MILLIS_PER_DAY)?
            }
        };
        local.checked_sub(self.shift()?).map(WallTime)
    }

    fn index_at_epoch(&self) -> Option<i64> {
        self.index(self.shift()?)
    }

    /// Which period runs at a local time, counted from the epoch's.
    fn index(&self, local: i64) -> Option<i64> {
        match self.step()? {
            Step::Millis { length, phase } => local.checked_sub(phase)?.checked_div_euclid(length),
            Step::Months(months) => {
                civil::month_at(local.div_euclid(MILLIS_PER_DAY))?.checked_div_euclid(months)
            }
        }
    }

    fn step(&self) -> Option<Step> {
        let (length, phase) = match self.length {
            Length::Fixed(span) => (millis(span)?, 0),
            Length::Calendar(Calendar::Minute) => (MILLIS_PER_MINUTE, 0),
            Length::Calendar(Calendar::Hour) => (MILLIS_PER_HOUR, 0),
            Length::Calendar(Calendar::Day) => (MILLIS_PER_DAY, 0),
            // The epoch was a Thursday; the Monday before it, three days earlier.
            Length::Calendar(Calendar::Week) => (7 * MILLIS_PER_DAY, -3 * MILLIS_PER_DAY),
            Length::Calendar(Calendar::Month) => return Some(Step::Months(1)),
            Length::Calendar(Calendar::Year) => return Some(Step::Months(12)),
        };
        Some(Step::Millis { length, phase })
    }

    /// Local time less world time, in milliseconds.
    fn shift(&self) -> Option<i64> {
        let offset = i64::from(self.offset.0).checked_mul(MILLIS_PER_MINUTE)?;
        let offset = if planted::is(Bug::OffsetSign) {
            offset.checked_neg()?
        } else {
            offset
        };
        offset.checked_sub(millis(self.align)?)
    }
}

fn millis(span: Span) -> Option<i64> {
    i64::try_from(span.nanos() / NANOS_PER_MILLI).ok()
}
