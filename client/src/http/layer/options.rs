//! Settings of a layer's answers.

use crate::clock::{HostClock, SharedClock};
use crate::limiter::refused::{Reason, Refused};
use http::StatusCode;
use rand::RngExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Treatment of a request that has no key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NoKey {
    /// It is refused with status 400, or `INVALID_ARGUMENT`.
    #[default]
    Refuse,
    /// It is not limited.
    Admit,
}

/// Treatment of a request for which the limit is not set up: no budget matches its key, or the budget is of
/// a kind that a layer cannot use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Misconfigured {
    /// It is refused with status 500, or `INTERNAL`.
    #[default]
    Refuse,
    /// It is admitted.
    Admit,
}

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

/// Settings of answers.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) fields: Fields,
    pub(super) reset: Reset,
    pub(super) jitter: Duration,
    pub(super) never: StatusCode,
    pub(super) no_key: NoKey,
    pub(super) misconfigured: Misconfigured,
    pub(super) clock: SharedClock,
    /// Number of requests for which a limit was not set up.
    faults: Arc<AtomicU64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fields: Fields::default(),
            reset: Reset::default(),
            jitter: Duration::ZERO,
            never: StatusCode::TOO_MANY_REQUESTS,
            no_key: NoKey::default(),
            misconfigured: Misconfigured::default(),
            clock: Arc::new(HostClock),
            faults: Arc::default(),
        }
    }
}

/// Returns true if a refusal is the operator's mistake, and not a caller's excess.
pub(super) const fn is_misconfigured(reason: Reason) -> bool {
    matches!(reason, Reason::NoBudget | Reason::WrongKind)
}

impl Options {
    /// One log line stands for this many requests.
    const LOG_EVERY: u64 = 1_024;

    /// Returns the wait with a random part of the jitter on top.
    pub(super) fn spread(&self, wait: Duration) -> Duration {
        let most = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let more = match most {
            0 => 0,
            most => rand::rng().random_range(0..=most),
        };
        wait.saturating_add(Duration::from_nanos(more))
    }

    /// Logs that a limit is not set up: at the first request, and then seldom. Returns true if the request is
    /// to be admitted.
    pub(super) fn admits_misconfigured(&self, limit: Option<&str>, refused: Refused) -> bool {
        if !is_misconfigured(refused.reason) {
            return false;
        }
        let before = self.faults.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(Self::LOG_EVERY) {
            let (limit, reason) = (limit.unwrap_or("share"), refused.reason);
            tracing::error!(limit, %reason, "the limit is not set up for these requests");
        }
        self.misconfigured == Misconfigured::Admit
    }
}
