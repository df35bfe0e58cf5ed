use super::*;

#[test]
fn days_follow_each_other_through_leap_years() {
    assert_eq!(days(1970, 1, 1), 0);
    assert_eq!(days(2000, 3, 1), 11_017);
    assert_eq!(days(2024, 2, 29) + 1, days(2024, 3, 1));
    let lengths = [1900, 2000, 2023, 2024].map(|year| days_in(year, 2));
    assert_eq!(lengths, [28, 29, 28, 29]);
    assert_eq!((days_in(2023, 12), days_in(2023, 4)), (31, 30));
}
