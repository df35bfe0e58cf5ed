//! The outcome of a request: admitted by these limits, or refused by one.

use super::meter::Meter;
use crate::bucket::described::LimitInfo;
use crate::limiter::Limiter;
use crate::limiter::combined::combine::Combine;
use crate::limiter::key_refused::KeyRefused;
use crate::limiter::refused::Refused;

/// Outcome of a request.
pub(super) enum Outcome<'a> {
    /// No limit applies.
    Free,
    Admitted(Meters<'a>),
    Refused(Refusal<'a>),
    /// The key is invalid, or there are too many keys.
    NoKey(KeyRefused),
    /// There is no key for a limit; with the limit's name, if there are several.
    Missing(Option<&'a str>),
}

/// A refused request.
pub(super) struct Refusal<'a> {
    pub(super) asked: RequestAction<'a>,
    pub(super) refused: Refused,
}

/// A limit that a request was counted against; its state is read for the answer.
pub(super) struct RequestAction<'a> {
    /// Name of the limit, if there are several.
    pub(super) name: Option<&'a str>,
    pub(super) meter: Meter,
}

/// All limits that admitted a request.
pub(super) struct Meters<'a> {
    pub(super) first: RequestAction<'a>,
    pub(super) others: Vec<RequestAction<'a>>,
}

impl RequestAction<'_> {
    /// Returns the name and the state of the limit; `None` if the state is not known or there is no limit in
    /// force.
    pub(super) fn read(&self) -> Option<(&str, LimitInfo)> {
        let held = self.meter.info_at(self.meter.now());
        held.map(|held| (self.name.unwrap_or("share"), held))
    }

    pub(super) const fn limiter(&self) -> Option<&Limiter> {
        match &self.meter {
            Meter::Limiter(limiter) => Some(limiter),
            Meter::Key(..) | Meter::Other(_) => None,
        }
    }
}

impl Meters<'_> {
    /// Returns the limit with the fewest tokens left; the first one of those if several have as few.
    pub(super) fn tightest(&self) -> Option<(&str, LimitInfo)> {
        let all = std::iter::once(&self.first).chain(&self.others);
        let read = all.filter_map(RequestAction::read);
        read.min_by_key(|(_, held)| held.remaining)
    }
}
