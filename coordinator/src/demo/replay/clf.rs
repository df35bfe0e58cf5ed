//! Lines of access logs in the common and the combined format, as nginx and Apache write them:
//! `host ident user [10/Oct/2000:13:55:36 -0700] "GET /path?query HTTP/1.1" 200 2326 "referer" "agent"`.

use super::civil;
use super::line::{Fault, Request, fault, number, path};

const TIME: &str = "a time such as [10/Oct/2000:13:55:36 -0700]";
const REQUEST: &str = "a request in quotes, such as \"GET /path HTTP/1.1\"";

/// The fields that may be the key.
pub(super) const FIELDS: &[&str] = &["path", "host", "user", "method", "status", "agent"];

/// Returns true if a line is from an access log.
pub(super) fn looks_like(line: &str) -> bool {
    let bracket = line.find('[').zip(line.find(']'));
    bracket.is_some_and(|(open, close)| open < close && line[close..].contains('"'))
}

/// Reads a line. `key` is one of [`FIELDS`].
pub(super) fn read(line: &str, key: &str) -> Result<Request, Fault> {
    let split = line.split_once('[');
    let split = split.and_then(|(before, rest)| Some((before, rest.split_once(']')?)));
    let Some((before, (time, rest))) = split else {
        return fault("time", line, TIME);
    };
    let Some(at) = seconds(time) else {
        return fault("time", time, TIME);
    };
    let mut quoted = rest.split('"');
    let request = quoted.nth(1).unwrap_or_default();
    let mut words = request.split_ascii_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next());
    let Some(target) = target.filter(|target| target.starts_with('/')) else {
        return fault("request", rest.trim(), REQUEST);
    };
    let mut client = before.split_ascii_whitespace();
    let status = quoted.next().unwrap_or_default();
    let key = match key {
        "host" => client.next().unwrap_or_default().to_owned(),
        "user" => client.nth(2).unwrap_or_default().to_owned(),
        "method" => method.to_owned(),
        "status" => {
            let status = status.split_ascii_whitespace().next();
            status.unwrap_or_default().to_owned()
        }
        "agent" => quoted.nth(2).unwrap_or_default().to_owned(),
        _ => path(target),
    };
    if key.is_empty() {
        return fault("key", line, "there: the line has no such field");
    }
    Ok(Request {
        at: i128::from(at) * 1_000_000_000,
        key,
        cost: 1,
    })
}

/// Returns the seconds since 1970 of a time such as `10/Oct/2000:13:55:36 -0700`.
fn seconds(time: &str) -> Option<i64> {
    let (local, zone) = time.split_once(' ')?;
    let (date, clock) = local.split_once(':')?;
    let mut date = date.split('/');
    let day = number(date.next()?, 1, 31)?;
    let month = civil::month(date.next()?)?;
    let year = number(date.next()?, 1970, 9_999)?;
    let mut clock = clock.split(':');
    let hour = number(clock.next()?, 0, 23)?;
    let minute = number(clock.next()?, 0, 59)?;
    let second = number(clock.next()?, 0, 60)?;
    if date.next().is_some() || clock.next().is_some() {
        return None;
    }
    let utc = civil::seconds((year, month, day), (hour, minute, second))?;
    Some(utc - offset(zone)?)
}

/// Returns the seconds east of UTC of an offset such as `-0700`.
fn offset(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_at_checked(2).filter(|_| digits.len() == 4)?;
    Some(sign * (number(hours, 0, 14)? * 3_600 + number(minutes, 0, 59)? * 60))
}
