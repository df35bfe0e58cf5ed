//! The budget keys of rules.
//!
//! The key of a rule is `rls` (`rls.day` and so on for quotas), its domain, one segment for each depth, and, if any depth has no fixed value, one last
//! segment with the values of the request:
//!
//! | descriptor of the rule | segment |
//! |---|---|
//! | `key: user, value: alice` | `user=alice` |
//! | `key: user` | `user`, and the value in the last segment |
//! | `key: path, value: /api/*` | `path~%2Fapi%2F%2A`, and the value in the last segment |
//! | the same with `share_threshold: true` | `path~%2Fapi%2F%2A` |
//!
//! Two rules have no key in common. Both have the same number of segments, or the keys differ. Then the segments of
//! depths differ, unless one has a last segment of values where the other has a depth. But then the one has a depth
//! without a fixed value, whose segment has no `=`, and the other has only fixed ones at those depths: the two differ
//! there. The same pattern is never both shared and not.

use super::entry::Entry;
use super::limit::{Unit, UnitLimit};
use aliquot_core::budget::Key;
use aliquot_core::unit::Span;
use ring::digest::{SHA256, digest};
use std::fmt::Write;

/// First segment of the keys of rates. The kind of a budget and the periods of a quota never change under one key, so
/// quotas have roots of their own, such as `rls.day`.
const ROOT: &str = "rls";

/// Segment of the limits that requests bring. No domain's rules begin with `@`, which is escaped in keys.
const OVERRIDE: &str = "@override";

/// Values of a rule's key as they are known when the rules are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fixed<'a> {
    /// A value.
    Value(&'a str),
    /// A value with `*`, whose matches have a limit each.
    Pattern(&'a str),
    /// A value with `*`, whose matches have one limit together.
    Shared(&'a str),
    /// No value.
    Any,
}

/// The key of a rule's budget, or the template of its budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetKey {
    fixed: String,
    /// Set for each depth whose value is a part of the key.
    open: Vec<bool>,
}

impl BudgetKey {
    /// Maximum length of what is the same in all keys of a rule, so that there is room for a digest of the values.
    const FIXED_MAX: usize = Key::BYTES_MAX - DIGEST_BYTES - 1;

    /// Returns the key of a rule whose budget has quotas `per` a unit, or a rate.
    pub(super) fn new(per: Option<Unit>, domain: &str, depths: &[(&str, Fixed<'_>)]) -> Self {
        let domain = escaped(domain.as_bytes());
        let mut fixed = match per {
            Some(unit) => format!("{ROOT}.{}/{domain}", unit.name()),
            None => format!("{ROOT}/{domain}"),
        };
        let named = fixed.len();
        for (key, value) in depths {
            let key = escaped(key.as_bytes());
            let (sign, value) = match value {
                Fixed::Value(value) => ("=", *value),
                Fixed::Pattern(value) | Fixed::Shared(value) => ("~", *value),
                Fixed::Any => ("", ""),
            };
            fixed.push('/');
            fixed.push_str(&key);
            fixed.push_str(sign);
            fixed.push_str(&plain(value.as_bytes()));
        }
        let open = |(_, value): &(&str, Fixed<'_>)| matches!(value, Fixed::Pattern(_) | Fixed::Any);
        let segments = depths.len() + 3;
        if fixed.len() > Self::FIXED_MAX || segments > Key::SEGMENTS_MAX {
            let short = digest_of(fixed.as_bytes());
            fixed.truncate(named.min(Self::FIXED_MAX - DIGEST_BYTES - 1));
            fixed = format!("{fixed}/{short}");
        }
        Self {
            fixed,
            open: depths.iter().map(open).collect(),
        }
    }

    /// Returns the key, or the template of keys.
    #[must_use]
    pub fn pattern(&self) -> String {
        match self.open.contains(&true) {
            true => format!("{}/*", self.fixed),
            false => self.fixed.clone(),
        }
    }

    /// Returns the key for a descriptor that the rule matches.
    #[must_use]
    pub fn of(&self, entries: &[Entry<'_>]) -> String {
        if !self.open.contains(&true) {
            return self.fixed.clone();
        }
        let open = self.open.iter().zip(entries).filter(|(open, _)| **open);
        let values: Vec<String> = open.map(|(_, entry)| escaped(entry.value)).collect();
        let values = values.join(",");
        let room = Key::BYTES_MAX - self.fixed.len() - 1;
        format!("{}/{}", self.fixed, fitting(values, room))
    }
}

/// The key of a limit that comes with a request.
#[derive(Clone, Copy, Debug)]
pub struct Override;

impl Override {
    /// Room for the last segment, in which the limit is named.
    const LIMIT_BYTES: usize = 60;

    /// Returns the key of a descriptor that brings its own limit. Its last segment names the limit, as a template with
    /// `named_limits` reads it: a request with another limit has another budget.
    #[must_use]
    pub fn key(domain: &[u8], entries: &[Entry<'_>], limit: UnitLimit) -> String {
        let domain = fitting(escaped(domain), 64);
        let entry = |entry: &Entry<'_>| format!("{}={}", escaped(entry.key), plain(entry.value));
        let entries: Vec<String> = entries.iter().map(entry).collect();
        let fixed = format!("{ROOT}/{domain}/{OVERRIDE}");
        let room = Key::BYTES_MAX - Self::LIMIT_BYTES - fixed.len() - 1;
        let entries = fitting(entries.join(","), room);
        let (requests, per) = (limit.requests, Span::from_secs(limit.window().as_secs()));
        format!("{fixed}/{entries}/{requests}-per-{per}-burst-{requests}")
    }
}

/// Digits of a digest, with its sign.
const DIGEST_BYTES: usize = 33;

/// Returns the text, or a digest of it if it has no room. An attacker who picks values can find none that has the
/// digest of another's.
pub(crate) fn fitting(text: String, room: usize) -> String {
    match text.len() <= room {
        true => text,
        false => digest_of(text.as_bytes()),
    }
}

/// Returns 128 bits of the SHA-256, after a sign that is escaped elsewhere.
fn digest_of(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let mut text = String::from("#");
    for byte in &digest.as_ref()[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the text with all but letters, digits and `-._:` as `%2F`; a lone `%` is the empty text.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    match bytes.is_empty() {
        true => String::from("%"),
        false => plain(bytes),
    }
}

/// Like [`escaped`], for a text that may be empty.
fn plain(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'-' | b'.' | b'_' | b':' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
#[path = "../../../tests/unit/rls/rules/key.rs"]
mod tests;
