//! Lines of access logs in the common and the combined format:
//! `host ident user [10/Oct/2000:13:55:36 -0700] "GET /path?query HTTP/1.1" 200 2326`.

use super::civil;
use super::line::{Fault, Request, fault};

const TIME: &str = "a time such as [10/Oct/2000:13:55:36 -0700]";
const REQUEST: &str = "a request in quotes, such as \"GET /path HTTP/1.1\"";

/// Returns true if a line is from an access log.
pub(super) fn looks_like(line: &str) -> bool {
    let bracket = line.find('[').zip(line.find(']'));
    bracket.is_some_and(|(open, close)| open < close && line[close..].contains('"'))
}

/// Reads a line.
pub(super) fn read(line: &str) -> Result<Request, Fault> {
    let after_open = line.split_once('[').map(|(_, rest)| rest);
    let Some((time, rest)) = after_open.and_then(|rest| rest.split_once(']')) else {
        return fault("time", line, TIME);
    };
    let Some(at) = seconds(time) else {
        return fault("time", time, TIME);
    };
    let quoted = rest.split('"').nth(1).unwrap_or_default();
    let path = quoted.split_ascii_whitespace().nth(1);
    let Some(path) = path.filter(|path| path.starts_with('/')) else {
        return fault("request", rest.trim(), REQUEST);
    };
    let path = path.split('?').next().unwrap_or(path);
    Ok(Request {
        at: i128::from(at) * 1_000_000_000,
        key: path.to_owned(),
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
    // A leap second has the number 60.
    let second = number(clock.next()?, 0, 60)?;
    if date.next().is_some() || clock.next().is_some() || day > civil::days_in(year, month) {
        return None;
    }
    let utc = civil::days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
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

fn number(text: &str, least: i64, most: i64) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits)?;
    (least..=most).contains(&number).then_some(number)
}
