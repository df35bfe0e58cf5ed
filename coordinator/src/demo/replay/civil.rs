//! Days of the proleptic Gregorian calendar.

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Returns the number of a month, 1 to 12, by its English abbreviation.
pub(super) fn month(name: &str) -> Option<i64> {
    let index = MONTHS.iter().position(|month| *month == name)?;
    i64::try_from(index + 1).ok()
}

/// Returns the number of days of a month.
pub(super) fn days_in(year: i64, month: i64) -> i64 {
    let following = match month {
        12 => days(year + 1, 1, 1),
        _ => days(year, month + 1, 1),
    };
    following - days(year, month, 1)
}

/// Returns the days from 1970-01-01 to a later date. Years begin in March, so that a leap day is the
/// last of its year (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the seconds from 1970 to a date and a time of the day; `None` if there is no such time. A leap second has
/// the number 60.
pub(super) fn seconds(
    (year, month, day): (i64, i64, i64),
    (hour, minute, second): (i64, i64, i64),
) -> Option<i64> {
    let is_date = (1_970..=9_999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day);
    let is_time = (0..=23).contains(&hour) && (0..=59).contains(&minute);
    (is_date && is_time && (0..=60).contains(&second))
        .then(|| days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/replay/civil.rs"]
mod tests;
