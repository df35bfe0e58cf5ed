//! One line of a file, in any format.

use super::civil;

/// The values that a time may have, in every format but the access log's.
pub(super) const TIME: &str =
    "seconds from 0 to 10^11, such as 12 or 12.345, or a time such as 2024-05-01T12:00:00.5+02:00";

/// One line: nanoseconds from any zero, the key, and the cost.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) at: i128,
    pub(super) key: String,
    pub(super) cost: u64,
}

/// A field that cannot be read: its name, its value and the allowed values.
pub(super) type Fault = (String, String, &'static str);

/// Makes the error of a field.
pub(super) fn fault<T>(field: &str, value: &str, allowed: &'static str) -> Result<T, Fault> {
    let value = value.chars().take(80).collect();
    Err((field.to_owned(), value, allowed))
}

/// Reads a time in decimal seconds, or by RFC 3339, in nanoseconds.
pub(super) fn time(text: &str) -> Option<i128> {
    decimal(text).or_else(|| timestamp(text))
}

/// Reads a cost; a text that is empty or left out is 1.
pub(super) fn cost(text: Option<&str>) -> Result<u64, Fault> {
    const COST: &str = "a whole number of tokens from 1 to 1000000, or left out";
    match text {
        None | Some("") => Ok(1),
        Some(text) => match text.parse() {
            Ok(cost @ 1..=1_000_000) => Ok(cost),
            _ => fault("cost", text, COST),
        },
    }
}

/// Returns a request's path without its query.
pub(super) fn path(target: &str) -> String {
    target.split('?').next().unwrap_or(target).to_owned()
}

/// Converts decimal seconds to nanoseconds, without a float. Further digits are dropped.
fn decimal(text: &str) -> Option<i128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole) || whole.len() > 11 {
        return None;
    }
    let seconds: i128 = whole.parse().ok()?;
    Some(seconds * 1_000_000_000 + nanos(part)?)
}

/// Reads a time such as `2024-05-01T12:00:00.5+02:00` or `2024-05-01 12:00:00Z`.
fn timestamp(text: &str) -> Option<i128> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let (part, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("0", rest),
    };
    let [year, month, day] = fields(date, '-')?;
    let [hour, minute, second] = fields(clock, ':')?;
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (sign, hours) = match zone.split_at_checked(1)? {
                ("+", rest) => (1, rest),
                ("-", rest) => (-1, rest),
                _ => return None,
            };
            let hours = hours.replace(':', "");
            let (hours, minutes) = hours.split_at_checked(2)?;
            sign * (number(hours, 0, 14)? * 3_600 + number(minutes, 0, 59)? * 60)
        }
    };
    let seconds = civil::seconds((year, month, day), (hour, minute, second))? - offset;
    Some(i128::from(seconds) * 1_000_000_000 + nanos(part)?)
}

/// Splits a text into three numbers.
fn fields(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut numbers = text.split(separator).map(|part| number(part, 0, 9_999));
    let all = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(all)
}

/// Reads the digits after a point as a part of 10^9.
fn nanos(part: &str) -> Option<i128> {
    let nine: String = part.chars().chain("000000000".chars()).take(9).collect();
    is_digits(part).then(|| nine.parse().ok()).flatten()
}

/// Reads a whole number from `least` to `most`, without a sign.
pub(super) fn number(text: &str, least: i64, most: i64) -> Option<i64> {
    let number = text.parse().ok().filter(|_| is_digits(text))?;
    (least..=most).contains(&number).then_some(number)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
