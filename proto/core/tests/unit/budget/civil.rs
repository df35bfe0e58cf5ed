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
