//! Periods of quotas in named time zones: where clocks are set, none is left out, granted twice, or too long.

use aliquot_budgets::zones::{Iana, zone_error};
use aliquot_core::budget::{Budget, BudgetDraft, Period, WallTime, Zones};
use aliquot_core::unit::{PeriodId, Span};
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use std::collections::BTreeSet;

fn budget(quota: &str, zone: &str) -> Budget {
    let draft = BudgetDraft {
        key: "mail".into(),
        quota: Some(quota.into()),
        zone: Some(zone.into()),
        ..BudgetDraft::default()
    };
    draft.validate().expect("a valid budget")
}

fn period(unit: &str, zone: &str) -> Period {
    let budget = budget(&format!("10 per {unit}"), zone);
    budget.period().expect("a quota")
}

fn at(text: &str) -> WallTime {
    let instant: Timestamp = text.parse().expect("an instant");
    WallTime::from_millis(instant.as_millisecond())
}

fn text(at: WallTime) -> String {
    let instant = Timestamp::from_millisecond(at.millis()).expect("an instant");
    instant.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Checks the starts of the period that runs at the first start, and of those that follow.
#[track_caller]
fn check(period: Period, starts: &[&str]) {
    let first = at(&format!("{}:00Z", starts[0]));
    let mut id = period.id_at(first, &Iana).expect("a period runs");
    for start in starts {
        assert_eq!(text(period.start(id, &Iana).expect("a start")), *start);
        id = id.next().expect("an id");
    }
}

#[test]
fn a_day_begins_at_midnight_of_the_zone() {
    let berlin = period("day", "Europe/Berlin");
    check(
        berlin,
        &["2026-03-27 23:00", "2026-03-28 23:00", "2026-03-29 22:00"],
    );
    check(
        berlin,
        &["2026-10-23 22:00", "2026-10-24 22:00", "2026-10-25 23:00"],
    );
    check(
        period("day", "America/St_Johns"),
        &["2026-03-07 03:30", "2026-03-08 03:30", "2026-03-09 02:30"],
    );
    check(
        period("day", "Asia/Kolkata"),
        &["2026-03-28 18:30", "2026-03-29 18:30", "2026-03-30 18:30"],
    );
}

#[test]
fn longer_periods_begin_at_midnight_of_the_zone() {
    check(
        period("month", "Europe/Berlin"),
        &[
            "2026-02-28 23:00",
            "2026-03-31 22:00",
            "2026-04-30 22:00",
            "2026-05-31 22:00",
            "2026-06-30 22:00",
            "2026-07-31 22:00",
            "2026-08-31 22:00",
            "2026-09-30 22:00",
            "2026-10-31 23:00",
        ],
    );
    check(
        period("month", "America/St_Johns"),
        &["2026-03-01 03:30", "2026-04-01 02:30"],
    );
    check(
        period("week", "Europe/Berlin"),
        &["2026-03-22 23:00", "2026-03-29 22:00"],
    );
    check(
        period("year", "Europe/Berlin"),
        &["2025-12-31 23:00", "2026-12-31 23:00"],
    );
}

/// The hour that the clock shows twice is two periods, and the one that it leaves out is none.
#[test]
fn an_hour_lasts_for_sixty_minutes() {
    let berlin = period("hour", "Europe/Berlin");
    for starts in [
        ["2026-03-29 00:00", "2026-03-29 01:00", "2026-03-29 02:00"],
        ["2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00"],
    ] {
        check(berlin, &starts);
    }
    let newfoundland = period("hour", "America/St_Johns");
    for starts in [
        ["2026-03-08 04:30", "2026-03-08 05:30", "2026-03-08 06:30"],
        ["2026-11-01 03:30", "2026-11-01 04:30", "2026-11-01 05:30"],
    ] {
        check(newfoundland, &starts);
    }
    check(
        period("hour", "Asia/Kathmandu"),
        &["2026-03-28 00:15", "2026-03-28 01:15"],
    );
}

/// A period that would begin while the clock is set ahead begins at that instant, and one whose start is shown
/// twice begins the first time.
#[test]
fn an_alignment_is_the_time_that_the_clock_shows() {
    let aligned = |align: &str, zone: &str| {
        let draft = BudgetDraft {
            align: Some(align.into()),
            ..budget("10 per day", zone).to_draft()
        };
        let budget = draft.validate().expect("a valid budget");
        budget.period().expect("a quota")
    };
    check(
        aligned("2h30m", "Europe/Berlin"),
        &["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"],
    );
    check(
        aligned("2h30m", "Europe/Berlin"),
        &["2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"],
    );
}

/// Clocks of Newfoundland were set back at one minute after midnight, to the day before.
#[test]
fn a_day_goes_on_where_the_clock_returns_to_the_day_before() {
    let day = period("day", "America/St_Johns");
    check(
        day,
        &["2010-11-06 02:30", "2010-11-07 02:30", "2010-11-08 03:30"],
    );
    let new = day.id_at(at("2010-11-07T02:30:30Z"), &Iana);
    assert_eq!(
        day.id_at(at("2010-11-07T02:29:59Z"), &Iana),
        new.map(before)
    );
    assert_eq!(day.id_at(at("2010-11-07T02:59:00Z"), &Iana), new);
    assert_eq!(day.id_at(at("2010-11-07T03:31:00Z"), &Iana), new);
}

fn before(id: PeriodId) -> PeriodId {
    PeriodId::new(id.get() - 1)
}

/// Samoa had no 30 December 2011.
#[test]
fn a_day_that_the_calendar_leaves_out_never_runs() {
    let day = period("day", "Pacific/Apia");
    check(
        day,
        &[
            "2011-12-29 10:00",
            "2011-12-30 10:00",
            "2011-12-30 10:00",
            "2011-12-31 10:00",
        ],
    );
}

/// Returns each zone of the database, once among those with the same clock, with the instants from 2010 to 2030 at
/// which its clock is set.
fn zones() -> Vec<(String, Vec<i64>)> {
    let since = Timestamp::from_second(1_262_304_000).expect("an instant");
    let until = Timestamp::from_second(1_893_456_000).expect("an instant");
    let database = TimeZoneDatabase::bundled();
    let mut known = BTreeSet::new();
    let mut zones = Vec::new();
    for name in database.available() {
        let zone = database.get(name.as_str()).expect("it is there");
        let changes = zone.following(since);
        let changes: Vec<(i64, i32)> = changes
            .take_while(|change| change.timestamp() < until)
            .map(|change| {
                (
                    change.timestamp().as_millisecond(),
                    change.offset().seconds(),
                )
            })
            .collect();
        if known.insert(changes.clone()) {
            let instants = changes.into_iter().map(|(at, _)| at);
            zones.push((name.to_string(), instants.collect()));
        }
    }
    zones
}

/// Around every change of every zone's clock: ids never fall, each period is contiguous with the next, and its end
/// is where another one begins.
#[test]
fn periods_are_contiguous_in_every_zone() {
    for (zone, changes) in zones() {
        for period in [period("day", &zone), period("month", &zone)] {
            for change in &changes {
                let mut last = PeriodId::new(0);
                for half_hours in -8..8 {
                    let at = WallTime::from_millis(change + half_hours * 1_800_000);
                    last = contiguous(&period, at, last, &zone);
                }
            }
        }
    }
}

fn contiguous(period: &Period, at: WallTime, last: PeriodId, zone: &str) -> PeriodId {
    let id = period.id_at(at, &Iana).expect("a period runs");
    let (start, end) = (period.start(id, &Iana), period.end(id, &Iana));
    let (start, end) = (start.expect("a start"), end.expect("an end"));
    assert!(last <= id, "{zone} at {}: ids fall", text(at));
    assert!(
        start <= at && at < end,
        "{zone} at {}: not inside",
        text(at)
    );
    let edge = WallTime::from_millis(end.millis() - 1);
    assert_eq!(period.id_at(edge, &Iana), Ok(id), "{zone} at {}", text(at));
    let next = period.id_at(end, &Iana).expect("a period runs");
    assert!(next > id, "{zone} at {}", text(at));
    id
}

/// Hours of zones whose clocks are set by whole ones are contiguous. The others are refused.
#[test]
fn hours_are_contiguous_where_they_are_allowed() {
    let mut refused = Vec::new();
    for (zone, changes) in zones() {
        if zone_error(&budget("10 per hour", &zone)).is_some() {
            refused.push(zone);
            continue;
        }
        let hour = period("hour", &zone);
        for change in changes.iter().filter(|&&change| change > 1_577_836_800_000) {
            let mut last = PeriodId::new(0);
            for minutes in (-90..90).step_by(15) {
                let at = WallTime::from_millis(change + minutes * 60_000);
                last = contiguous(&hour, at, last, &zone);
            }
        }
    }
    assert_eq!(refused, ["Australia/LHI"]);
}

#[test]
fn a_zone_that_there_is_not_is_refused_with_the_one_that_was_meant() {
    let error = |quota: &str, zone: &str| {
        let error = zone_error(&budget(quota, zone));
        error.map_or_else(String::new, |error| error.to_string())
    };
    let known = |meant: &str| {
        format!("must be a name of the IANA time zone database, such as \"Europe/Berlin\"{meant}")
    };
    let meant = |name: &str| known(&format!("; did you mean {name:?}?"));
    for (zone, name) in [
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("america/st_johns", "America/St_Johns"),
    ] {
        let expect = format!("zone = {zone:?}: {}", meant(name));
        assert_eq!(error("10 per day", zone), expect);
    }
    assert_eq!(
        error("10 per day", "Xyzzy"),
        format!("zone = \"Xyzzy\": {}", known(""))
    );
    assert_eq!(error("10 per day", "Australia/Lord_Howe"), "");
    assert_eq!(error("10 per hour", "Europe/Berlin"), "");
    assert_eq!(
        error("10 per hour", "Australia/Lord_Howe"),
        "zone = \"Australia/Lord_Howe\": must be a zone whose clock is set by whole hours, for a quota per hour; \
         or leave it out and give `offset`"
    );
}

/// A zone that the database does not have gives no time, so that no period begins.
#[test]
fn an_unknown_zone_gives_no_period() {
    let day = period("day", "Mars/Olympus_Mons");
    assert!(day.id_at(at("2026-03-29T00:00:00Z"), &Iana).is_err());
    let budget = budget("10 per day", "Mars/Olympus_Mons");
    let aliquot_core::budget::LocalClock::Zone(zone) = budget.period().expect("a quota").clock()
    else {
        panic!("it has a zone");
    };
    assert_eq!(Iana.first(&zone, 0), None);
    assert!(day.shortest() < Span::from_secs(86_400));
}
