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
#[path = "../../tests/unit/budget/civil.rs"]
mod tests;
