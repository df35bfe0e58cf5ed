use super::*;

#[track_caller]
fn check(requests: u32, unit: Unit, counting: Counting, expect: &str) {
    let limit = UnitLimit {
        requests,
        unit,
        units: 1,
    };
    let draft = limit.draft("k".into(), counting);
    let budget = draft.validate().unwrap().to_draft();
    let shown = [budget.rate, budget.burst, budget.quota];
    let shown: Vec<String> = shown
        .into_iter()
        .flatten()
        .map(|it| it.to_string())
        .collect();
    assert_eq!(shown.join(" "), expect, "{limit:?}");
}

#[test]
fn a_limit_becomes_a_rate_or_a_quota() {
    use Counting::{Calendar, Rate};
    check(10, Unit::Second, Rate, "10/s 10");
    check(100, Unit::Minute, Rate, "100/m 100");
    check(1, Unit::Hour, Rate, "1/h 1");
    check(5, Unit::Day, Rate, "5/d 5");
    check(5, Unit::Week, Rate, "5/7d 5");
    check(5, Unit::Month, Rate, "5/30d 5");
    check(100, Unit::Year, Rate, "100/365d 100");
    check(u32::MAX, Unit::Second, Rate, "4294967295/s 4294967295");
    check(u32::MAX, Unit::Year, Rate, "4294967295/365d 4294967295");
    // Too slow for a rate.
    check(2, Unit::Month, Rate, "2 per month");
    check(12, Unit::Year, Rate, "12 per year");
    check(10, Unit::Second, Calendar, "10/s 10");
    check(100, Unit::Minute, Calendar, "100 per minute");
    check(5, Unit::Month, Calendar, "5 per month");
}
