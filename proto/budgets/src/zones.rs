//! Time zones by name, from the IANA database that is compiled into the program.
//!
//! No file of the host is read, so that every node of one version has the same zones. Nodes of two versions may
//! differ, which harms no quota: the leader alone begins periods, and what it began is in the log.

use crate::nearest;
use aliquot_core::budget::{
    Budget, Calendar, FieldError, Length, LocalClock, WallTime, Zone, Zones,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The IANA database of time zones.
///
/// ```
/// use aliquot_budgets::zones::Iana;
/// use aliquot_core::budget::{WallTime, Zone, Zones};
///
/// let berlin = Zone::named("Europe/Berlin").unwrap();
/// // 2026-03-29 00:00 of the local clock, which is an hour ahead of UTC then.
/// let midnight = 1_774_742_400_000;
/// let start = WallTime::from_millis(midnight - 3_600_000);
/// assert_eq!(Iana.first(&berlin, midnight), Some(start));
/// assert_eq!(Iana.local(&berlin, start), Some(midnight));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Iana;

impl Zones for Iana {
    fn local(&self, zone: &Zone, at: WallTime) -> Option<i64> {
        let zone = zone_named(zone.name())?;
        let instant = Timestamp::from_millisecond(at.millis()).ok()?;
        at.millis().checked_add(millis(zone.to_offset(instant)))
    }

    fn first(&self, zone: &Zone, local: i64) -> Option<WallTime> {
        let zone = zone_named(zone.name())?;
        let offset = match zone.to_ambiguous_timestamp(shown(local)?).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Fold { before, .. } => before,
            AmbiguousOffset::Gap { after, .. } => return set_ahead(&zone, local, after),
        };
        local.checked_sub(millis(offset)).map(WallTime::from_millis)
    }
}

/// Returns the error of a budget in a zone that the database does not have, or that its periods cannot follow.
#[must_use]
pub fn zone_error(budget: &Budget) -> Option<FieldError> {
    let period = budget.period()?;
    let LocalClock::Zone(zone) = period.clock() else {
        return None;
    };
    let error = |allowed: String| FieldError {
        field: "zone".to_owned(),
        value: zone.to_string(),
        allowed,
    };
    // The database does not mind capital letters.
    let named = |found: &TimeZone| found.iana_name() == Some(zone.name());
    let Some(found) = zone_named(zone.name()).filter(named) else {
        let names = DATABASE.available().map(|name| name.to_string());
        let names: Vec<String> = names.collect();
        let example = "a name of the IANA time zone database, such as \"Europe/Berlin\"";
        let meant = meant_by(zone.name(), &names);
        let meant = meant.map(|name| format!("; did you mean {name:?}?"));
        return Some(error(format!("{example}{}", meant.unwrap_or_default())));
    };
    let (whole, unit) = match period.length() {
        Length::Calendar(Calendar::Hour) => (3_600, "hour"),
        Length::Calendar(Calendar::Minute) => (60, "minute"),
        _ => return None,
    };
    (!changes_by_whole(&found, whole)).then(|| {
        error(format!(
            "a zone whose clock is set by whole {unit}s, for a quota per {unit}; or leave it out and give `offset`"
        ))
    })
}

fn zone_named(name: &str) -> Option<TimeZone> {
    DATABASE.get(name).ok()
}

/// Returns the known name that differs in case alone, or that ends in `text`, or that is most like it.
fn meant_by<'a>(text: &str, names: &'a [String]) -> Option<&'a str> {
    let city = |name: &str| name.rsplit('/').next().map(str::to_owned);
    let alike = |name: &&String| name.eq_ignore_ascii_case(text);
    let ends = |name: &&String| city(name).is_some_and(|city| city.eq_ignore_ascii_case(text));
    let found = names.iter().find(alike).or_else(|| names.iter().find(ends));
    match found {
        Some(name) => Some(name),
        None => nearest(text, names.iter().map(String::as_str)),
    }
}

/// Returns true if the zone's clock has always been set by multiples of `whole` seconds since 2020, and will be.
fn changes_by_whole(zone: &TimeZone, whole: i32) -> bool {
    const SINCE: i64 = 1_577_836_800;
    const UNTIL: i64 = 2_208_988_800;
    let Ok(since) = Timestamp::from_second(SINCE) else {
        return false;
    };
    let part = |offset: Offset| offset.seconds().rem_euclid(whole);
    let part_then = part(zone.to_offset(since));
    let mut changes = zone
        .following(since)
        .take_while(|change| change.timestamp().as_second() < UNTIL);
    changes.all(|change| part(change.offset()) == part_then)
}

/// Returns the instant at which a clock is set ahead over `local`, to `after`.
fn set_ahead(zone: &TimeZone, local: i64, after: Offset) -> Option<WallTime> {
    let before = local.checked_sub(millis(after))?;
    let before = Timestamp::from_millisecond(before).ok()?;
    let mut changes = zone.following(before);
    let change = changes.find(|change| change.offset() == after)?;
    Some(WallTime::from_millis(change.timestamp().as_millisecond()))
}

/// Returns the date and time of a local time in milliseconds.
fn shown(local: i64) -> Option<DateTime> {
    let as_if_utc = Timestamp::from_millisecond(local).ok()?;
    Some(Offset::UTC.to_datetime(as_if_utc))
}

fn millis(offset: Offset) -> i64 {
    i64::from(offset.seconds()).saturating_mul(1_000)
}
