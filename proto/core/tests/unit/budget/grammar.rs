use super::*;
use alloc::string::ToString;

#[track_caller]
fn check_rate(text: &str, expect: Option<(u64, Span)>) {
    let read = frequency(text);
    assert_eq!(read.map(|rate| (rate.tokens(), rate.per())), expect);
}

#[test]
fn rates_are_read_exactly() {
    let second = Span::from_secs(1);
    check_rate("1000/s", Some((1_000, second)));
    check_rate("1.5k/s", Some((1_500, second)));
    check_rate(" 90 / min ", Some((90, Span::from_secs(60))));
    check_rate("1 per 10 days", Some((1, Span::from_secs(864_000))));
    check_rate("1.5 per second", Some((3, Span::from_secs(2))));
    check_rate("0.1/1h30m", Some((1, Span::from_secs(54_000))));
    check_rate("1_000 per 500ms", Some((1_000, Span::from_millis(500))));
    check_rate("0.0/h", Some((0, second)));
    check_rate("1T/s", Some((1_000_000_000_000, second)));
    for wrong in [
        "",
        "1",
        "/s",
        "1/",
        "-1/s",
        "1e3/s",
        "1./s",
        ".5/s",
        "1__0/s",
        "1/0s",
        "1/month",
        "1 per 11 days",
        "2T/s",
        "1/s/s",
        "1 k/s",
        "1m/s",
        "0.00000000000000000001/s",
        "NaN/s",
    ] {
        check_rate(wrong, None);
    }
}

#[test]
fn a_rate_is_shown_as_it_was_written() {
    let shown = |text| frequency(text).map(|rate| rate.to_string());
    for text in [
        "1.5/s",
        "3/2s",
        "0.1/90m",
        "0.25/d",
        "2.25/500ms",
        "90/m",
        "1/10d",
        "0/s",
    ] {
        assert_eq!(shown(text).as_deref(), Some(text));
    }
    assert_eq!(shown("1.50 per second").as_deref(), Some("1.5/s"));
    assert_eq!(shown("1.5k/s").as_deref(), Some("1500/s"));
    assert_ne!(frequency("1.5/s"), frequency("3/2s"));
}

#[test]
fn a_number_without_an_end_is_no_decimal() {
    let of = |numerator, denominator| {
        let denominator = NonZeroU64::new(denominator).unwrap();
        Frequency::decimal(numerator, denominator, Span::from_secs(1)).ok()
    };
    assert_eq!(of(1, 3), None);
    assert_eq!(of(7, 6), None);
    assert_eq!(of(1, u64::MAX), None);
    assert_eq!(of(3, 2), frequency("1.5/s"));
    assert_eq!(of(1, 1_000), frequency("0.001/s"));
}

#[test]
fn spans_are_read_exactly() {
    assert_eq!(span("1h30m"), Some(Span::from_secs(5_400)));
    assert_eq!(span("0.5 s"), Some(Span::from_millis(500)));
    assert_eq!(span("2 weeks 1 day"), Some(Span::from_secs(15 * 86_400)));
    assert_eq!(span("7µs"), Some(Span::from_nanos(7_000)));
    for wrong in [
        "", "s", "1", "30m1h", "1h1h", "0.5ns", "600y", "9999999d", "1 s x",
    ] {
        assert_eq!(span(wrong), None, "{wrong}");
    }
}

#[test]
fn offsets_are_hours_and_minutes_from_utc() {
    assert_eq!(offset("+05:30").unwrap().minutes(), 330);
    assert_eq!(offset("-14:00").unwrap().to_string(), "-14:00");
    assert_eq!(offset("Z"), Some(Offset::UTC));
    for wrong in [
        "", "5", "+5:30", "+05:60", "+14:01", "-15:00", "+-1:00", "05:30", "+0530",
    ] {
        assert_eq!(offset(wrong), None, "{wrong}");
    }
}

#[test]
fn a_quota_names_a_calendar_unit_or_a_length() {
    assert_eq!(
        quota("50000 per day"),
        Some((50_000, Length::Calendar(Calendar::Day)))
    );
    assert_eq!(
        quota("1M/24h"),
        Some((1_000_000, Length::Fixed(Span::from_secs(86_400))))
    );
    assert_eq!(quota("5 per d"), None);
    assert_eq!(quota("0.5 per day"), None);
}
