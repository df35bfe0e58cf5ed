//! The periods of a quota: the running one, and the start and end of each.

use super::calendar::{Calendar, Length, Offset, WallTime};
use super::civil;
use super::zone::{LocalClock, Zones};
use crate::planted::{self, Bug};
use crate::unit::{PeriodId, Span};
use core::fmt;

const MILLIS_PER_MINUTE: i64 = 60_000;
const MILLIS_PER_HOUR: i64 = 3_600_000;
const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Reason why a period could not be made or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeriodError {
    /// A fixed length is outside 1 s to 36,525 days, or not in whole milliseconds.
    Length,
    /// An alignment is not shorter than the shortest period, or not in whole milliseconds.
    Align,
    /// An offset or a zone is given for a fixed length, which follows no calendar.
    Offset,
    /// The time zone is unknown to the database in use.
    Zone,
    /// A time is before 1970 or after the year 9999, or a period does not run between them.
    OutOfRange,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "a period's length is from 1s to 36525d, in whole milliseconds",
            Self::Align => "an alignment is shorter than the period, in whole milliseconds",
            Self::Offset => "an offset or a zone belongs to a period of the calendar",
            Self::Zone => "the time zone is unknown here",
            Self::OutOfRange => "periods run from the year 1970 to the year 9999",
        })
    }
}

impl core::error::Error for PeriodError {}

/// The rule by which a quota's periods follow each other without a gap.
///
/// The period that runs at the Unix epoch is `p1`, and each next one has the next number. So ids only grow
/// with time, and 0 is no period.
///
/// In a named zone, periods are numbered by the date, and `p1` is the one that runs on 31 December 1969. So an
/// id depends on no database of time zones; only the instants at which it starts and ends do.
///
/// - A day, week, month or year starts at the first instant at which the zone's clock shows its first date and
///   the alignment, or later. A clock that is then set back shows a date of the period before, but the period
///   goes on. A day without an instant, as where the date line was moved, has start and end in one and is never
///   running.
/// - An hour or a minute is as long as ever, and starts when the zone's clock shows a full one. Where the clock
///   shows an hour twice, these are two periods. One that it leaves out is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Period {
    length: Length,
    clock: LocalClock,
    align: Span,
}

/// Counting of periods in local milliseconds.
enum Step {
    /// Each is `length` long, and one of them starts at `phase`.
    Millis { length: i64, phase: i64 },
    /// Each has this many months, and one of them starts in January 1970.
    Months(i64),
}

impl Period {
    /// The longest fixed length: a hundred years.
    pub const LENGTH_MAX: Span = Span::from_secs(36_525 * 86_400);

    /// Returns the rule of periods of `length`, each starting `align` later than by the calendar of a local
    /// clock (or by the count from the epoch).
    ///
    /// # Errors
    ///
    /// [`PeriodError`] for a length, an alignment or an offset out of range, and for a zone with a fixed length.
    pub fn new(
        length: Length,
        clock: impl Into<LocalClock>,
        align: Span,
    ) -> Result<Self, PeriodError> {
        let clock = clock.into();
        let period = Self {
            length,
            clock,
            align,
        };
        let is_whole = |span: Span| span.nanos().is_multiple_of(NANOS_PER_MILLI);
        if let Length::Fixed(span) = length {
            if span < Span::from_secs(1) || span > Self::LENGTH_MAX || !is_whole(span) {
                return Err(PeriodError::Length);
            }
            if clock != LocalClock::Offset(Offset::UTC) {
                return Err(PeriodError::Offset);
            }
        }
        if align >= period.shortest() || !is_whole(align) {
            return Err(PeriodError::Align);
        }
        Ok(period)
    }

    /// Returns the length of a period.
    #[must_use]
    pub const fn length(&self) -> Length {
        self.length
    }

    /// Returns the local clock that the calendar follows.
    #[must_use]
    pub const fn clock(&self) -> LocalClock {
        self.clock
    }

    /// Returns the time by which each period starts later.
    #[must_use]
    pub const fn align(&self) -> Span {
        self.align
    }

    /// Returns the shortest length of a period of this rule: a month has at least 28 days, and a clock is set
    /// ahead by at most two hours for the summer.
    #[must_use]
    pub const fn shortest(&self) -> Span {
        let summer = match self.clock {
            LocalClock::Offset(_) => 0,
            LocalClock::Zone(_) => 2 * 3_600,
        };
        let days = match self.length {
            Length::Fixed(span) => return span,
            Length::Calendar(Calendar::Minute) => return Span::from_secs(60),
            Length::Calendar(Calendar::Hour) => return Span::from_secs(3_600),
            Length::Calendar(Calendar::Day) => 86_400,
            Length::Calendar(Calendar::Week) => 7 * 86_400,
            Length::Calendar(Calendar::Month) => 28 * 86_400,
            Length::Calendar(Calendar::Year) => 365 * 86_400,
        };
        Span::from_secs(u64::saturating_sub(days, summer))
    }

    /// Returns the length of a period for answers to callers: that of most days, weeks and years, and 30 days for a
    /// month. The running period may be longer or shorter: a month by up to two days, a leap year by a day, and where
    /// clocks are set for the summer, a day by an hour.
    #[must_use]
    pub const fn usual(&self) -> Span {
        Span::from_secs(match self.length {
            Length::Fixed(span) => return span,
            Length::Calendar(Calendar::Minute) => 60,
            Length::Calendar(Calendar::Hour) => 3_600,
            Length::Calendar(Calendar::Day) => 86_400,
            Length::Calendar(Calendar::Week) => 7 * 86_400,
            Length::Calendar(Calendar::Month) => 30 * 86_400,
            Length::Calendar(Calendar::Year) => 365 * 86_400,
        })
    }

    /// Returns the period that runs at `at`: its start is not after `at`, its end is.
    ///
    /// # Errors
    ///
    /// [`PeriodError::OutOfRange`] before 1970 or after the year 9999; [`PeriodError::Zone`] if `zones` does not
    /// have the period's.
    pub fn id_at(&self, at: WallTime, zones: &dyn Zones) -> Result<PeriodId, PeriodError> {
        if at < WallTime::default() || at >= WallTime::END {
            return Err(PeriodError::OutOfRange);
        }
        let local = self.local(at, zones)?;
        let id = self.id_of_local(local).ok_or(PeriodError::OutOfRange)?;
        // Where the clock was set back over the start of a period, that one goes on.
        let next = id.next().ok_or(PeriodError::OutOfRange)?;
        match self.boundary(next, zones)? {
            start if start <= at => Ok(next),
            _ => Ok(id),
        }
    }

    /// Returns the instant at which a period starts. That of `p1` may be before 1970.
    ///
    /// # Errors
    ///
    /// [`PeriodError::OutOfRange`] for a period that does not run between 1970 and 9999; [`PeriodError::Zone`] if
    /// `zones` does not have the period's.
    pub fn start(&self, id: PeriodId, zones: &dyn Zones) -> Result<WallTime, PeriodError> {
        match self.boundary(id, zones)? {
            start if id.get() > 0 && start < WallTime::END => Ok(start),
            _ => Err(PeriodError::OutOfRange),
        }
    }

    /// Returns the instant at which a period ends and the next one starts.
    ///
    /// # Errors
    ///
    /// See [`Period::start`].
    pub fn end(&self, id: PeriodId, zones: &dyn Zones) -> Result<WallTime, PeriodError> {
        self.start(id, zones)?;
        let next = id.next().ok_or(PeriodError::OutOfRange)?;
        self.boundary(next, zones)
    }

    /// Returns the number of the period of a local time.
    fn id_of_local(&self, local: i64) -> Option<PeriodId> {
        let first = self.index(self.first_local()?)?;
        let id = self.index(local)?.checked_sub(first)?.checked_add(1)?;
        u64::try_from(id).ok().map(PeriodId::new)
    }

    fn boundary(&self, id: PeriodId, zones: &dyn Zones) -> Result<WallTime, PeriodError> {
        let local = self.local_start(id).ok_or(PeriodError::OutOfRange)?;
        let shift = match self.clock {
            LocalClock::Offset(offset) => millis_of(offset),
            LocalClock::Zone(zone) => match self.whole() {
                Some(whole) => fraction(
                    zones.local(&zone, WallTime::from_millis(local)),
                    local,
                    whole,
                ),
                None => return zones.first(&zone, local).ok_or(PeriodError::Zone),
            }
            .ok_or(PeriodError::Zone)?,
        };
        let start = local.checked_sub(shift).ok_or(PeriodError::OutOfRange)?;
        Ok(WallTime::from_millis(start))
    }

    /// Returns the local time of an instant. That of an hour or a minute in a zone is off by whole ones.
    fn local(&self, at: WallTime, zones: &dyn Zones) -> Result<i64, PeriodError> {
        let shift = match self.clock {
            LocalClock::Offset(offset) => millis_of(offset),
            LocalClock::Zone(zone) => {
                let local = zones.local(&zone, at).ok_or(PeriodError::Zone)?;
                match self.whole() {
                    Some(whole) => {
                        fraction(Some(local), at.millis(), whole).ok_or(PeriodError::Zone)?
                    }
                    None => return Ok(local),
                }
            }
        };
        at.millis()
            .checked_add(shift)
            .ok_or(PeriodError::OutOfRange)
    }

    /// Returns the length in milliseconds of a period that is as long as ever where a clock is set.
    const fn whole(&self) -> Option<i64> {
        match self.length {
            Length::Calendar(Calendar::Minute) => Some(MILLIS_PER_MINUTE),
            Length::Calendar(Calendar::Hour) => Some(MILLIS_PER_HOUR),
            _ => None,
        }
    }

    /// Returns a local time in `p1`.
    fn first_local(&self) -> Option<i64> {
        match self.clock {
            LocalClock::Offset(offset) => Some(millis_of(offset)),
            LocalClock::Zone(_) => MILLIS_PER_DAY.checked_neg(),
        }
    }

    /// Returns the local time at which a period starts.
    fn local_start(&self, id: PeriodId) -> Option<i64> {
        let id = i64::try_from(id.get()).ok()?;
        let first = self.index(self.first_local()?)?;
        let index = id.checked_add(first)?.checked_sub(1)?;
        let local = match self.step()? {
            Step::Millis { length, phase } => index.checked_mul(length)?.checked_add(phase)?,
            Step::Months(months) => {
                civil::month_start(index.checked_mul(months)?)?.checked_mul(MILLIS_PER_DAY)?
            }
        };
        local.checked_add(millis(self.align)?)
    }

    /// Returns the number of the period that runs at a local time, counted from the local epoch.
    fn index(&self, local: i64) -> Option<i64> {
        let local = local.checked_sub(millis(self.align)?)?;
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
            // The epoch was a Thursday. The Monday before it was three days earlier.
            Length::Calendar(Calendar::Week) => (7 * MILLIS_PER_DAY, -3 * MILLIS_PER_DAY),
            Length::Calendar(Calendar::Month) => return Some(Step::Months(1)),
            Length::Calendar(Calendar::Year) => return Some(Step::Months(12)),
        };
        Some(Step::Millis { length, phase })
    }
}

/// Returns local time minus world time, in milliseconds.
fn millis_of(offset: Offset) -> i64 {
    let millis = i64::from(offset.minutes()).saturating_mul(MILLIS_PER_MINUTE);
    match planted::is(Bug::OffsetSign) {
        true => millis.saturating_neg(),
        false => millis,
    }
}

/// Returns the part of a zone's offset that is no multiple of `whole`: it decides when full hours begin, and
/// is the same in summer.
fn fraction(local: Option<i64>, at: i64, whole: i64) -> Option<i64> {
    local?.checked_sub(at)?.checked_rem_euclid(whole)
}

fn millis(span: Span) -> Option<i64> {
    i64::try_from(span.nanos() / NANOS_PER_MILLI).ok()
}

#[cfg(test)]
#[path = "../../tests/unit/budget/period.rs"]
mod tests;
