use super::super::zone::NoZones;
use super::*;

const SECOND: i64 = 1_000;

fn calendar(unit: Calendar, minutes: i16, align: Span) -> Period {
    let offset = Offset::from_minutes(minutes).unwrap();
    Period::new(Length::Calendar(unit), offset, align).unwrap()
}

#[track_caller]
fn check(period: Period, at: i64, start: i64, end: i64) {
    let id = period
        .id_at(WallTime::from_millis(at * SECOND), &NoZones)
        .unwrap();
    let found = (
        period.start(id, &NoZones).unwrap(),
        period.end(id, &NoZones).unwrap(),
    );
    assert_eq!(
        found,
        (
            WallTime::from_millis(start * SECOND),
            WallTime::from_millis(end * SECOND)
        )
    );
}

/// Saturday, 29 February 2020, 18:45:30 UTC.
const LEAP_DAY: i64 = 1_583_001_930;

#[test]
fn periods_start_where_the_calendar_says() {
    let none = Span::ZERO;
    let at = |unit, minutes| calendar(unit, minutes, none);
    check(
        at(Calendar::Minute, 0),
        LEAP_DAY,
        1_583_001_900,
        1_583_001_960,
    );
    check(
        at(Calendar::Hour, 0),
        LEAP_DAY,
        1_582_999_200,
        1_583_002_800,
    );
    check(
        at(Calendar::Hour, 330),
        LEAP_DAY,
        1_583_001_000,
        1_583_004_600,
    );
    check(at(Calendar::Day, 0), LEAP_DAY, 1_582_934_400, 1_583_020_800);
    check(
        at(Calendar::Week, 0),
        LEAP_DAY,
        1_582_502_400,
        1_583_107_200,
    );
    check(
        at(Calendar::Month, 0),
        LEAP_DAY,
        1_580_515_200,
        1_583_020_800,
    );
    check(
        at(Calendar::Year, 0),
        LEAP_DAY,
        1_577_836_800,
        1_609_459_200,
    );
    // Five and a half hours east it is March already.
    check(
        at(Calendar::Month, 330),
        LEAP_DAY,
        1_583_001_000,
        1_585_679_400,
    );
    check(
        at(Calendar::Day, -300),
        LEAP_DAY,
        1_582_952_400,
        1_583_038_800,
    );
}

#[test]
fn an_alignment_starts_every_period_later() {
    let days = |days: u64| Span::from_secs(days * 86_400);
    let billing = calendar(Calendar::Month, 0, days(14));
    check(billing, LEAP_DAY, 1_581_724_800, 1_584_230_400);
    let shift = Length::Fixed(Span::from_secs(8 * 3_600));
    let shift = Period::new(shift, Offset::UTC, Span::from_secs(6 * 3_600)).unwrap();
    check(shift, LEAP_DAY, 1_582_984_800, 1_583_013_600);
}

#[test]
fn the_first_period_is_the_one_that_runs_at_the_epoch() {
    let week = calendar(Calendar::Week, 0, Span::ZERO);
    assert_eq!(
        week.id_at(WallTime::from_millis(0), &NoZones),
        Ok(PeriodId::new(1))
    );
    assert_eq!(
        week.start(PeriodId::new(1), &NoZones),
        Ok(WallTime::from_millis(-3 * MILLIS_PER_DAY))
    );
    assert_eq!(
        week.start(PeriodId::new(0), &NoZones),
        Err(PeriodError::OutOfRange)
    );
    assert_eq!(
        week.id_at(WallTime::from_millis(-1), &NoZones),
        Err(PeriodError::OutOfRange)
    );
    assert_eq!(
        week.id_at(WallTime::END, &NoZones),
        Err(PeriodError::OutOfRange)
    );
    let year = calendar(Calendar::Year, 0, Span::ZERO);
    let last = year
        .id_at(WallTime::from_millis(WallTime::END.millis() - 1), &NoZones)
        .unwrap();
    assert_eq!(last, PeriodId::new(8_030));
    assert_eq!(year.end(last, &NoZones), Ok(WallTime::END));
}

#[test]
fn periods_outside_the_range_are_refused() {
    let fixed = |span, offset, align| Period::new(Length::Fixed(span), offset, align).err();
    let (utc, none) = (Offset::UTC, Span::ZERO);
    let second = Span::from_secs(1);
    assert_eq!(fixed(second, utc, none), None);
    assert_eq!(
        fixed(Span::from_millis(999), utc, none),
        Some(PeriodError::Length)
    );
    let uneven = Span::from_nanos(1_000_000_001);
    assert_eq!(fixed(uneven, utc, none), Some(PeriodError::Length));
    assert_eq!(fixed(Period::LENGTH_MAX, utc, none), None);
    let longer = Period::LENGTH_MAX.plus_or_max(second);
    assert_eq!(fixed(longer, utc, none), Some(PeriodError::Length));
    assert_eq!(fixed(second, utc, second), Some(PeriodError::Align));
    assert_eq!(fixed(second, utc, Span::from_millis(999)), None);
    assert_eq!(
        fixed(second, utc, Span::from_nanos(1)),
        Some(PeriodError::Align)
    );
    let east = Offset::from_minutes(60).unwrap();
    assert_eq!(fixed(second, east, none), Some(PeriodError::Offset));
    assert_eq!(Offset::from_minutes(841), None);
    assert_eq!(Offset::from_minutes(-841), None);
}
