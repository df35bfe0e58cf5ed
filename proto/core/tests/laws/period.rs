//! Laws of a quota's periods.
//!
//! Admissions are stamped with the period of these calendars, and no period admits more than the quota
//! (invariant 1 of `docs/invariants.md`).
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_core::budget::{Calendar, Length, NoZones, Offset, Period, WallTime};
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{PeriodId, Span};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

fn period() -> impl Strategy<Value = Period> {
    let unit = prop_oneof![
        Just(Calendar::Minute),
        Just(Calendar::Hour),
        Just(Calendar::Day),
        Just(Calendar::Week),
        Just(Calendar::Month),
        Just(Calendar::Year),
    ];
    let calendar = (unit, -840_i16..=840, any::<u64>()).prop_map(|(unit, minutes, align)| {
        let offset = Offset::from_minutes(minutes).unwrap();
        aligned(Length::Calendar(unit), offset, align)
    });
    let fixed = (1_000_u64..100_000_000_000, any::<u64>()).prop_map(|(millis, align)| {
        aligned(Length::Fixed(Span::from_millis(millis)), Offset::UTC, align)
    });
    prop_oneof![3 => calendar, 1 => fixed]
}

/// Returns a period without alignment half of the time, else with any alignment shorter than the period.
fn aligned(length: Length, offset: Offset, seed: u64) -> Period {
    let plain = Period::new(length, offset, Span::ZERO).unwrap();
    let shortest = plain.shortest().nanos() / 1_000_000;
    let align = if seed.is_multiple_of(2) {
        0
    } else {
        seed % shortest
    };
    Period::new(length, offset, Span::from_millis(align)).unwrap()
}

fn wall_time() -> impl Strategy<Value = WallTime> {
    let end = WallTime::END.millis();
    prop_oneof![
        0..4_102_444_800_000_i64,
        0..end,
        end - 40_000_000_000..end,
        0..100_000_000_i64
    ]
    .prop_map(WallTime::from_millis)
}

/// Runs the same cases every time, so that a planted bug is caught every time.
fn law<S: Strategy>(cases: u32, inputs: S, test: impl Fn(S::Value) -> TestCaseResult) -> bool {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let outcome = TestRunner::new_with_rng(config, rng).run(&inputs, test);
    outcome.is_ok()
}

/// A period starts no later than an instant in it, ends when the next one starts, and has the number before
/// that one's.
fn periods_are_contiguous() -> bool {
    law(2_000, (period(), wall_time()), |(period, at)| {
        let id = period.id_at(at, &NoZones).unwrap();
        let (start, end) = (
            period.start(id, &NoZones).unwrap(),
            period.end(id, &NoZones).unwrap(),
        );
        prop_assert!(id.get() >= 1 && start <= at && at < end);
        let length = u64::try_from(end.millis() - start.millis()).unwrap();
        prop_assert!(Span::from_millis(length) >= period.shortest());
        let next = id.next().unwrap();
        if end < WallTime::END {
            prop_assert_eq!(period.id_at(end, &NoZones), Ok(next));
            prop_assert_eq!(period.start(next, &NoZones), Ok(end));
            let last = WallTime::from_millis(end.millis() - 1);
            prop_assert_eq!(period.id_at(last, &NoZones), Ok(id));
        } else {
            prop_assert!(period.start(next, &NoZones).is_err());
        }
        Ok(())
    })
}

/// A day with an offset starts when the local clock shows midnight: the local clock is the world's plus the
/// offset.
fn days_start_at_local_midnight() -> bool {
    law(500, (wall_time(), -840_i16..=840), |(at, minutes)| {
        let offset = Offset::from_minutes(minutes).unwrap();
        let day = Period::new(Length::Calendar(Calendar::Day), offset, Span::ZERO).unwrap();
        let start = day
            .start(day.id_at(at, &NoZones).unwrap(), &NoZones)
            .unwrap();
        let local = start.millis() + i64::from(minutes) * 60_000;
        prop_assert_eq!(local.rem_euclid(86_400_000), 0);
        Ok(())
    })
}

/// Compares months with the common calendar, month by month.
fn months_are_the_calendars() -> bool {
    let month = Length::Calendar(Calendar::Month);
    let month = Period::new(month, Offset::UTC, Span::ZERO).unwrap();
    let (mut day, mut id) = (0_i64, PeriodId::new(1));
    for year in 1970..2450 {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if leap { 29 } else { 28 };
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            let start = WallTime::from_millis(day * 86_400_000);
            if month.start(id, &NoZones) != Ok(start) || month.id_at(start, &NoZones) != Ok(id) {
                return false;
            }
            day += length;
            id = id.next().unwrap();
        }
    }
    true
}

#[test]
fn every_period_ends_where_the_next_one_starts() {
    assert!(periods_are_contiguous());
}

#[test]
fn a_day_starts_at_local_midnight() {
    assert!(days_start_at_local_midnight());
}

#[test]
fn months_and_leap_years_are_the_calendars() {
    assert!(months_are_the_calendars());
}

#[test]
fn each_planted_bug_is_caught_by_its_law() {
    let caught = |bug, law: fn() -> bool| {
        assert!(!planted::with(Some(bug), law), "{bug:?} was not caught");
    };
    caught(Bug::CenturyLeap, months_are_the_calendars);
    caught(Bug::CenturyLeap, periods_are_contiguous);
    caught(Bug::OffsetSign, days_start_at_local_midnight);
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn period_ids_grow_with_time(period in period(), one in wall_time(), other in wall_time()) {
        let (early, late) = (one.min(other), one.max(other));
        let (first, last) = (period.id_at(early, &NoZones).unwrap(), period.id_at(late, &NoZones).unwrap());
        prop_assert!(first <= last);
        prop_assert_eq!(first == last, late < period.end(first, &NoZones).unwrap());
    }

    #[test]
    fn any_time_and_any_period_answer_with_a_value_or_an_error(
        period in period(), millis in any::<i64>(), id in any::<u64>()
    ) {
        let at = WallTime::from_millis(millis);
        let inside = at >= WallTime::default() && at < WallTime::END;
        prop_assert_eq!(period.id_at(at, &NoZones).is_ok(), inside);
        let id = PeriodId::new(id);
        prop_assert_eq!(period.start(id, &NoZones).is_ok(), period.end(id, &NoZones).is_ok());
    }
}
