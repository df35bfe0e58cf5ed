//! Lines that are a JSON object each.

use super::line::{Fault, Request, TIME, cost, fault, path, time};
use serde_json::{Map, Value};

/// The names of a request's time, the first that is there.
const TIMES: &[&str] = &[
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "time_iso8601",
    "msec",
];

/// The names of a request's key, the first that is there.
const KEYS: &[&str] = &["key", "path", "uri", "request_uri"];

/// Returns true if a line is a JSON object.
pub(super) fn looks_like(line: &str) -> bool {
    line.starts_with('{')
}

/// Reads a line. `key` names the field of the key.
pub(super) fn read(line: &str, key: Option<&str>) -> Result<Request, Fault> {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else {
        return fault("line", line, "a JSON object");
    };
    let (name, text) = first(&fields, TIMES);
    let Some(at) = text.as_deref().and_then(time) else {
        return fault(name, &text.unwrap_or_default(), TIME);
    };
    let (name, text) = match key {
        Some(key) => (key, fields.get(key).and_then(written)),
        None => first(&fields, KEYS),
    };
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return fault(name, "", "a text or a number: the key of the request");
    };
    Ok(Request {
        at,
        key: match KEYS[1..].contains(&name) {
            true => path(&text),
            false => text,
        },
        cost: cost(fields.get("cost").and_then(written).as_deref())?,
    })
}

/// Returns the first of these fields that is there, by its name and its text.
fn first<'a>(fields: &Map<String, Value>, names: &[&'a str]) -> (&'a str, Option<String>) {
    let found = names
        .iter()
        .find_map(|name| Some((*name, fields.get(*name).and_then(written)?)));
    found.map_or((names[0], None), |(name, text)| (name, Some(text)))
}

/// Returns a text or a number as it is written.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
