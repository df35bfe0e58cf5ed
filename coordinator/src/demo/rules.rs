//! The limits of a run as rules of Envoy's rate limit service.
//!
//! A key of one segment is the value of the descriptor `key`. Of any other key, the first segment is the
//! descriptor and the rest its value. So each key has one descriptor, and each descriptor one budget, and
//! the run is judged by keys as if they were those of the budgets.

use std::fmt::Write;

/// Domain of the rules.
pub const DOMAIN: &str = "demo";

/// Descriptor of keys without a segment of their own.
const WHOLE: &str = "key";

/// Returns the rules as a file of the service, from key patterns and their tokens per second.
#[must_use]
pub fn file(limits: &[(String, u64)]) -> String {
    let mut text = format!("domain: {DOMAIN}\ndescriptors:\n");
    for (pattern, per_s) in limits {
        let (key, value) = match pattern.strip_suffix("/*") {
            Some(first) => (first, String::new()),
            None => (WHOLE, format!(" value: {pattern},")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "- {{ key: {key},{value} rate_limit: {{ unit: second, requests_per_unit: {per_s} }} }}"
        );
    }
    text
}

/// Returns the descriptor of a key, and its value.
#[must_use]
pub fn entry(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or((WHOLE, key))
}

#[cfg(test)]
#[path = "../../tests/unit/demo/rules.rs"]
mod tests;
