//! Settings of a layer's answers.

use super::fields::LimitFields;
use crate::bucket::described::LimitInfo;
use crate::clock::{HostClock, SharedClock};
use crate::limiter::refused::{Reason, Refused};
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Settings of answers.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) fields: LimitFields,
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
            fields: LimitFields::default(),
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

    /// Writes the fields that describe a limit.
    pub(super) fn describe(&self, headers: &mut HeaderMap, name: &str, info: &LimitInfo) {
        self.fields.describe(headers, name, info, &*self.clock);
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
