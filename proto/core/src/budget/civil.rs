//! The civil calendar: months, counted from January 1970, and their days.
//!
//! The proleptic Gregorian calendar in integers, after Howard Hinnant's `days_from_civil` and
//! `civil_from_days` ("chrono-Compatible Low-Level Date Algorithms", public domain). There, a year begins in
//! March, so that the leap day is its last day, and 400 years are one era of 146,097 days.

use crate::planted::{self, Bug};

const DAYS_PER_ERA: i64 = 146_097;
const YEARS_PER_ERA: i64 = 400;

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;

/// Months from March of year 0 to January 1970.
const MONTHS_TO_EPOCH: i64 = 1970 * 12 - 2;

/// Returns the day on which a month begins, counted from 1970-01-01.
pub(super) fn month_start(month: i64) -> Option<i64> {
    let month = month.checked_add(MONTHS_TO_EPOCH)?;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12));
    let era = year.div_euclid(YEARS_PER_ERA);
    let day_of_year = day_of_month(month)?;
    era.checked_mul(DAYS_PER_ERA)?
        .checked_add(day_of_years(year.rem_euclid(YEARS_PER_ERA))?)?
        .checked_add(day_of_year)?
        .checked_sub(DAYS_TO_EPOCH)
}

/// Returns the month of a day, both counted from January 1970.
pub(super) fn month_at(day: i64) -> Option<i64> {
    let day = day.checked_add(DAYS_TO_EPOCH)?;
    let (era, day) = (day.div_euclid(DAYS_PER_ERA), day.rem_euclid(DAYS_PER_ERA));
    // Without its leap days, the day of the era counts years of 365 days.
    let year = day
        .checked_sub(day / 1_460)?
        .checked_add(day / 36_524)?
        .checked_sub(day / 146_096)?
        / 365;
    let day_of_year = day.checked_sub(day_of_years(year)?)?;
    let month = day_of_year.checked_mul(5)?.checked_add(2)? / 153;
    era.checked_mul(YEARS_PER_ERA)?
        .checked_add(year)?
        .checked_mul(12)?
        .checked_add(month)?
        .checked_sub(MONTHS_TO_EPOCH)
}

/// Returns the day of its era on which a year begins.
fn day_of_years(year: i64) -> Option<i64> {
    let days = year.checked_mul(365)?.checked_add(year / 4)?;
    if planted::is(Bug::CenturyLeap) {
        Some(days)
    } else {
        days.checked_sub(year / 100)
    }
}

/// Returns the day of its year on which a month begins, with March as month 0: five months have 153 days, in
/// the order 31, 30, 31, 30, 31.
fn day_of_month(month: i64) -> Option<i64> {
    Some(month.checked_mul(153)?.checked_add(2)? / 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_leap(year: i64) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    /// Compares every month of the years 1960 to 2810 with the common rule.
    #[test]
    fn months_begin_where_counting_the_days_says() {
        let leap_days = (1960..1970).filter(|&year| is_leap(year)).count() as i64;
        let mut day = -(10 * 365 + leap_days);
        for year in 1960..2810 {
            let february = if is_leap(year) { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (index, length) in (0..).zip(lengths) {
                let month = (year - 1970) * 12 + index;
                assert_eq!(month_start(month), Some(day), "{year}-{}", index + 1);
                assert_eq!(month_at(day), Some(month));
                assert_eq!(month_at(day + length - 1), Some(month));
                day += length;
            }
        }
    }

    #[test]
    fn no_number_is_too_great_to_ask_about() {
        for extreme in [i64::MIN, i64::MAX, i64::MIN + 1, i64::MAX - 1] {
            let _ = (month_start(extreme), month_at(extreme));
        }
    }
}
