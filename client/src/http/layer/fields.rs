//! Header fields that describe a limit.

use crate::bucket::described::LimitInfo;
use crate::clock::Clock;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use rand::RngExt;
use std::iter;
use std::time::Duration;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Header fields that describe the limit in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fields {
    /// No fields; `Retry-After` is still sent.
    None,
    /// `RateLimit` and `RateLimit-Policy` of
    /// [draft-ietf-httpapi-ratelimit-headers](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/).
    #[default]
    Standard,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, the last in the form of
    /// [`Reset`]. Many clients know them, but no standard defines them.
    Legacy,
    /// The fields of [`Fields::Standard`] and [`Fields::Legacy`].
    Both,
}

/// Form of the field `X-RateLimit-Reset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reset {
    /// Seconds from now.
    #[default]
    Delta,
    /// Seconds since the Unix epoch.
    Epoch,
}

/// Form of the header fields that describe a limit, for services that answer without a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitFields {
    /// Fields to write.
    pub fields: Fields,
    /// Form of `X-RateLimit-Reset`.
    pub reset: Reset,
    /// Maximum random time added to `Retry-After`, so that refused callers do not all retry at once.
    pub jitter: Duration,
}

/// Largest whole number of a structured field (RFC 9651, section 3.3.1). Readers refuse a whole field with a larger one.
const INTEGER_MAX: u64 = 999_999_999_999_999;

impl Fields {
    const fn standard(self) -> bool {
        matches!(self, Self::Standard | Self::Both)
    }

    const fn legacy(self) -> bool {
        matches!(self, Self::Legacy | Self::Both)
    }
}

impl LimitFields {
    /// Returns the wait with a random part of the jitter on top.
    #[must_use]
    pub fn spread(&self, wait: Duration) -> Duration {
        let most = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let more = match most {
            0 => 0,
            most => rand::rng().random_range(0..=most),
        };
        wait.saturating_add(Duration::from_nanos(more))
    }

    /// Writes `Retry-After`, whatever the fields are: the wait with a random part of the jitter on top, in whole seconds,
    /// rounded up, and at least one.
    pub fn retry_after(&self, headers: &mut HeaderMap, wait: Duration) {
        insert_retry_after(headers, self.spread(wait));
    }

    /// Writes the policy: `q` tokens in `w` seconds. `name` must be visible ASCII without quotes.
    pub fn policy(&self, headers: &mut HeaderMap, name: &str, info: &LimitInfo) {
        if self.fields.standard() {
            let limit = info.limit.min(INTEGER_MAX);
            let policy = item(name, ('q', limit), info.window.map(|window| ('w', window)));
            insert(headers, RATE_LIMIT_POLICY, policy);
        }
        if self.fields.legacy() {
            insert(headers, X_LIMIT, info.limit.to_string());
        }
    }

    /// Writes the policy and the state: `r` tokens are available now, and more after `t` seconds. The
    /// legacy fields carry the same numbers. `clock` tells the time of day of [`Reset::Epoch`].
    ///
    /// The fields of the draft are structured fields (RFC 9651).
    pub fn describe(
        &self,
        headers: &mut HeaderMap,
        name: &str,
        info: &LimitInfo,
        clock: &(impl Clock + ?Sized),
    ) {
        self.policy(headers, name, info);
        let (remaining, reset) = (info.remaining, info.reset.map(seconds_up));
        if self.fields.standard() {
            let remaining = remaining.min(INTEGER_MAX);
            let state = item(name, ('r', remaining), reset.map(|reset| ('t', reset)));
            insert(headers, RATE_LIMIT, state);
        }
        if self.fields.legacy() {
            insert(headers, X_REMAINING, remaining.to_string());
            if let Some(reset) = reset {
                let reset = match self.reset {
                    Reset::Delta => reset,
                    Reset::Epoch => epoch_secs(clock).saturating_add(reset),
                };
                insert(headers, X_RESET, reset.to_string());
            }
        }
    }
}

/// Writes a wait in whole seconds, rounded up, and at least one.
pub(super) fn insert_retry_after(headers: &mut HeaderMap, wait: Duration) {
    let wait = HeaderValue::from(seconds_up(wait).max(1));
    headers.insert(RETRY_AFTER, wait);
}

/// Returns the time in seconds since the Unix epoch, rounded up.
fn epoch_secs(clock: &(impl Clock + ?Sized)) -> u64 {
    let now = u64::try_from(clock.wall_ms()).unwrap_or(0);
    now.div_ceil(1_000)
}

/// Writes an item of a structured field: a name with one or two whole numbers. The text has no room to spare, so the field
/// takes it as it is.
fn item(name: &str, first: (char, u64), second: Option<(char, u64)>) -> String {
    let mut digits = [itoa::Buffer::new(), itoa::Buffer::new()];
    let [one, two] = &mut digits;
    let first = (first.0, one.format(first.1));
    let second = second.map(|(letter, number)| (letter, two.format(number)));
    let numbers = iter::once(first).chain(second);
    let length = numbers
        .clone()
        .map(|(_, digits)| ";x=".len() + digits.len());
    let mut text = String::with_capacity(name.len() + 2 + length.sum::<usize>());
    text.extend(["\"", name, "\""]);
    for (letter, digits) in numbers {
        text.extend([';', letter, '=']);
        text.push_str(digits);
    }
    text
}

fn insert(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

fn seconds_up(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
#[path = "../../../tests/unit/http/layer/fields.rs"]
mod tests;
