//! Lines of comma-separated values: `time,key,cost`.

use super::line::{Fault, Request, fault};

const TIME: &str = "seconds from 0 to 10^11, such as 12 or 12.345";
const COST: &str = "a whole number of tokens from 1 to 1000000, or left out";

/// Returns true if a line is the header.
pub(super) fn is_header(line: &str) -> bool {
    let first = line.split(',').next().unwrap_or_default();
    first.trim().eq_ignore_ascii_case("time")
}

/// Reads a line.
pub(super) fn read(line: &str) -> Result<Request, Fault> {
    let mut fields = line.split(',').map(str::trim);
    let time = fields.next().unwrap_or_default();
    let Some(at) = nanos(time) else {
        return fault("time", time, TIME);
    };
    let key = fields.next().unwrap_or_default();
    if key.is_empty() {
        return fault("key", key, "the second field: any text without a comma");
    }
    let cost = match fields.next() {
        None | Some("") => 1,
        Some(text) => match text.parse() {
            Ok(cost @ 1..=1_000_000) => cost,
            _ => return fault("cost", text, COST),
        },
    };
    if let Some(more) = fields.next() {
        return fault("fields", more, "at most time, key and cost");
    }
    Ok(Request {
        at,
        key: key.to_owned(),
        cost,
    })
}

/// Converts decimal seconds to nanoseconds, without a float. Further digits are dropped.
fn nanos(text: &str) -> Option<i128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || whole.len() > 11 {
        return None;
    }
    let nine: String = part.chars().chain("000000000".chars()).take(9).collect();
    let seconds: i128 = whole.parse().ok()?;
    Some(seconds * 1_000_000_000 + nine.parse::<i128>().ok()?)
}
