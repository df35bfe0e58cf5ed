//! The outcome of a request: admitted by these limits, or refused by one.

use super::meter::Meter;
use crate::bucket::described::LimitInfo;
use crate::limiter::Limiter;
use crate::limiter::key_refused::KeyRefused;
use crate::limiter::permit::Permit;
use crate::limiter::refused::Refused;

/// Outcome of a request.
pub(super) enum Outcome<'a> {
    /// No limit applies.
    Free,
    Admitted {
        /// Name and state of the limit with the fewest tokens left, if one is known.
        tightest: Option<(&'a str, LimitInfo)>,
        /// Permits to hold until the response has been sent.
        permits: Vec<Permit>,
    },
    Refused(Refusal<'a>),
    /// The key is invalid, or there are too many keys.
    NoKey(KeyRefused),
    /// There is no key for a limit; with the limit's name, if there are several.
    Missing(Option<&'a str>),
}

/// A refused request.
pub(super) struct Refusal<'a> {
    /// Name of the limit that refused, if there are several.
    pub(super) name: Option<&'a str>,
    pub(super) refused: Refused,
    /// State of that limit; `None` if it is not known or there is no limit in force.
    pub(super) info: Option<LimitInfo>,
}

/// A limit that a request is counted against.
pub(super) struct RequestAction<'a> {
    /// Name of the limit, if there are several.
    pub(super) name: Option<&'a str>,
    pub(super) meter: Meter,
}

impl RequestAction<'_> {
    pub(super) const fn limiter(&self) -> Option<&Limiter> {
        match &self.meter {
            Meter::Limiter(limiter) => Some(limiter),
            Meter::Key(..) | Meter::Other(_) => None,
        }
    }
}

/// Returns the name of a limit in header fields.
pub(super) fn field_name(name: Option<&str>) -> &str {
    name.unwrap_or("share")
}
