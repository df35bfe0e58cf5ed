//! The limit of a request, of any kind.

use crate::bucket::described::LimitInfo;
use crate::limiter::Limiter;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::key_refused::KeyRefused;
use crate::limiter::refused::Refused;
use crate::local::keyed::Keyed;
use crate::observe::switched::Switched;
#[cfg(feature = "cluster")]
use crate::session::client::Client;
use aliquot_core::unit::Tick;
use http::request::Parts;
use std::sync::Arc;

/// Reads something from the head of a request.
pub(super) type Of<T> = Arc<dyn Fn(&Parts) -> T + Send + Sync>;

/// Finds the limit of a request.
#[derive(Clone)]
pub(super) enum Which {
    Limiter(Limiter),
    Keys(Of<Option<Result<Limiter, KeyRefused>>>),
    Store(Switched<Arc<Keyed>>, Of<Option<String>>),
    Other(Arc<dyn Combine>),
}

/// The limit that was found.
#[derive(Debug)]
pub(super) enum Meter {
    Limiter(Limiter),
    Key(Switched<Arc<Keyed>>, String),
    Other(Arc<dyn Combine>),
}

impl Which {
    #[cfg(feature = "cluster")]
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
            Self::Other(limit) => Meter::Other(Arc::clone(limit)),
        }))
    }
}

/// A limit among several.
impl Combine for Meter {
    fn now(&self) -> Tick {
        match self {
            Self::Limiter(limiter) => Combine::now(limiter),
            Self::Key(store, _) => store.inner().now(),
            Self::Other(limit) => limit.now(),
        }
    }

    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        match self {
            Self::Limiter(limiter) => limiter.info_at(now),
            Self::Key(store, key) => store.key(key).info_at(now),
            Self::Other(limit) => limit.info_at(now),
        }
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        match self {
            Self::Limiter(limiter) => limiter.take_at(n, now),
            Self::Key(store, key) => store.key(key).take_at(n, now),
            Self::Other(limit) => limit.take_at(n, now),
        }
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        match self {
            Self::Limiter(limiter) => Combine::decide_at(limiter, n, now),
            Self::Key(store, key) => store.key(key).decide_at(n, now),
            Self::Other(limit) => limit.decide_at(n, now),
        }
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        match self {
            Self::Limiter(limiter) => Combine::peek_at(limiter, n, now),
            Self::Key(store, key) => store.key(key).peek_at(n, now),
            Self::Other(limit) => limit.peek_at(n, now),
        }
    }

    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        match self {
            Self::Limiter(limiter) => limiter.put_back_at(receipt, n, now),
            Self::Key(store, key) => store.key(key).put_back_at(receipt, n, now),
            Self::Other(limit) => limit.put_back_at(receipt, n, now),
        }
    }

    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        match self {
            Self::Limiter(limiter) => limiter.put_back(receipt, n),
            Self::Key(store, key) => store.key(key).put_back(receipt, n),
            Self::Other(limit) => limit.put_back(receipt, n),
        }
    }

    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        match self {
            Self::Limiter(limiter) => limiter.owe_at(receipt, n, now),
            Self::Key(store, key) => store.key(key).owe_at(receipt, n, now),
            Self::Other(limit) => limit.owe_at(receipt, n, now),
        }
    }
}
