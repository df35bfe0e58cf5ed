//! Decides a request, by one limit or by several.

use super::options::NoKey;
use super::tiers::{Named, decide_all};
use super::{Of, Rules};
use crate::bucket::described::Described;
use crate::http::web::path;
use crate::limiter::Limiter;
use crate::limiter::layers::tier::{Receipt, Tier};
use crate::limiter::refused::{Reason, Refused};
use crate::local::keyed::Keyed;
use crate::observe::switched::Switched;
use crate::session::client::Client;
use crate::session::error::KeyRefused;
use aliquot_core::unit::Tick;
use http::request::Parts;
use std::sync::Arc;

/// The limit or limits of a layer.
#[derive(Clone)]
pub(super) enum Limits {
    One(Which),
    All(Arc<[Named]>),
}

/// Finds the limit of a request.
#[derive(Clone)]
pub(super) enum Which {
    Limiter(Limiter),
    Keys(Of<Option<Result<Limiter, KeyRefused>>>),
    Store(Switched<Arc<Keyed>>, Of<Option<String>>),
    Tier(Arc<dyn Tier>),
}

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
    /// Tokens that were asked for.
    pub(super) cost: u64,
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

#[derive(Debug)]
pub(super) enum Meter {
    Limiter(Limiter),
    Key(Switched<Arc<Keyed>>, String),
    Tier(Arc<dyn Tier>),
}

impl Which {
    pub(super) fn of_keys<F>(client: &Client, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        let client = client.clone();
        Self::Keys(Arc::new(move |parts| {
            key(parts).map(|key| client.limiter(&key))
        }))
    }

    /// Returns the limit of a request; `None` if it has no key.
    pub(super) fn meter(&self, parts: &Parts) -> Option<Result<Meter, KeyRefused>> {
        Some(Ok(match self {
            Self::Limiter(limiter) => Meter::Limiter(limiter.clone()),
            Self::Keys(limiter) => return limiter(parts).map(|found| found.map(Meter::Limiter)),
            Self::Store(store, key) => Meter::Key(store.clone(), key(parts)?),
            Self::Tier(tier) => Meter::Tier(Arc::clone(tier)),
        }))
    }
}

impl Rules {
    fn leaves_out(&self, path: &str) -> bool {
        let matches = |left_out: &str, path: &str| {
            let below = left_out
                .strip_suffix("/*")
                .and_then(|root| path.strip_prefix(root));
            *left_out == *path || below.is_some_and(|rest| rest.starts_with('/'))
        };
        let is_written = |path: &str| self.except.iter().any(|left_out| matches(left_out, path));
        // However the server reads the path, it must be left out.
        is_written(path) && is_written(&path::resolved(path))
    }

    pub(super) async fn decide(&self, parts: &Parts) -> Outcome<'_> {
        if self.leaves_out(parts.uri.path()) {
            return Outcome::Free;
        }
        match &self.limits {
            Limits::One(which) => match which.meter(parts) {
                None if self.options.no_key == NoKey::Admit => Outcome::Free,
                None => Outcome::Missing(None),
                Some(Err(refused)) => Outcome::NoKey(refused),
                Some(Ok(meter)) => self.decide_one(meter, (self.cost)(parts)).await,
            },
            Limits::All(named) => {
                let cost = (self.cost)(parts);
                match decide_all(named, parts, cost, self.on_admit.as_ref()).await {
                    Outcome::Refused(refusal) => self.refused(refusal),
                    outcome => outcome,
                }
            }
        }
    }

    async fn decide_one(&self, meter: Meter, n: u64) -> Outcome<'_> {
        let outcome = match &meter {
            Meter::Limiter(limiter) => limiter.check(n).await.map(|admission| {
                if let Some(hook) = &self.on_admit {
                    hook(limiter, &admission);
                }
            }),
            Meter::Key(store, key) => store.try_acquire(key, n),
            Meter::Tier(tier) => tier.take_at(n, tier.now()).map(|_| ()),
        };
        let asked = RequestAction { name: None, meter };
        match outcome {
            Ok(()) => Outcome::Admitted(Meters {
                first: asked,
                others: Vec::new(),
            }),
            Err(refused) => self.refused(Refusal {
                asked,
                refused,
                cost: n,
            }),
        }
    }

    /// Admits a request for which the limit is not set up, if the layer is told so.
    fn refused<'a>(&self, refusal: Refusal<'a>) -> Outcome<'a> {
        let (name, refused) = (refusal.asked.name, refusal.refused);
        match self.options.admits_misconfigured(name, refused) {
            true => Outcome::Free,
            false => Outcome::Refused(refusal),
        }
    }
}

impl Refusal<'_> {
    /// Returns true if waiting does not help, because the cost is more than there can ever be.
    pub(super) fn is_final(&self) -> bool {
        let exceeds = self.refused.reason == Reason::ExceedsBurst;
        exceeds
            && match &self.asked.meter {
                Meter::Limiter(limiter) => limiter.never_serves(self.cost),
                Meter::Key(..) | Meter::Tier(_) => true,
            }
    }
}

impl RequestAction<'_> {
    /// Returns the name and the state of the limit; `None` if the state is not known or there is no limit in
    /// force.
    pub(super) fn read(&self) -> Option<(&str, Described)> {
        let held = match &self.meter {
            Meter::Limiter(limiter) => limiter.describe(),
            Meter::Key(store, key) => store.tier().describe(key, store.tier().now()),
            Meter::Tier(_) => None,
        };
        held.map(|held| (self.name.unwrap_or("share"), held))
    }
}

impl Meters<'_> {
    /// Returns the limit with the fewest tokens left; the first one of those if several have as few.
    pub(super) fn tightest(&self) -> Option<(&str, Described)> {
        let all = std::iter::once(&self.first).chain(&self.others);
        let read = all.filter_map(RequestAction::read);
        read.min_by_key(|(_, held)| held.remaining)
    }
}

/// A limit among several.
impl Tier for Meter {
    fn now(&self) -> Tick {
        match self {
            Self::Limiter(limiter) => Tier::now(limiter),
            Self::Key(store, _) => store.tier().now(),
            Self::Tier(tier) => tier.now(),
        }
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        match self {
            Self::Limiter(limiter) => limiter.take_at(n, now),
            Self::Key(store, key) => store.key(key).take_at(n, now),
            Self::Tier(tier) => tier.take_at(n, now),
        }
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        match self {
            Self::Limiter(limiter) => Tier::peek_at(limiter, n, now),
            Self::Key(store, key) => store.key(key).peek_at(n, now),
            Self::Tier(tier) => tier.peek_at(n, now),
        }
    }

    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        match self {
            Self::Limiter(limiter) => limiter.put_back_at(receipt, n, now),
            Self::Key(store, key) => store.key(key).put_back_at(receipt, n, now),
            Self::Tier(tier) => tier.put_back_at(receipt, n, now),
        }
    }

    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        match self {
            Self::Limiter(limiter) => limiter.put_back(receipt, n),
            Self::Key(store, key) => store.key(key).put_back(receipt, n),
            Self::Tier(tier) => tier.put_back(receipt, n),
        }
    }

    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        match self {
            Self::Limiter(limiter) => limiter.owe_at(receipt, n, now),
            Self::Key(store, key) => store.key(key).owe_at(receipt, n, now),
            Self::Tier(tier) => tier.owe_at(receipt, n, now),
        }
    }
}
