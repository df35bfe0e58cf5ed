//! The keys in use, within a bound, so that made-up keys cost real ones nothing.
//!
//! A key that was asked for but never decided is *on trial*: a quarter of the room. A key with a budget that is
//! asked for again while on trial is *proven*: half of the room. A flood of made-up keys replaces keys on
//! trial only, since none of them is asked for twice. The client forgets keys that are not held here when it needs
//! room for others, and the last quarter is left to it for those.
//!
//! Each group has two generations. A key that is used moves to the young one. When that is full, or after
//! a minute, the young generation becomes the old one, and the former old one is dropped. So a key that is unused
//! for two minutes is not held any more, and costs the cluster nothing.

use super::recent::Recent;
use aliquot_client::clock::Tick;
use aliquot_client::combined::Combine;
use aliquot_client::{KeyRefused, Limiter};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A key that is held, with its latest charges.
#[derive(Debug)]
pub(super) struct HeldKey {
    pub(super) limiter: Limiter,
    pub(super) recent: Recent,
    /// True once a request of the key was decided by its budget.
    decided: AtomicBool,
}

/// The keys in use.
#[derive(Debug)]
pub(super) struct Held(Mutex<Groups>);

#[derive(Debug)]
struct Groups {
    trial: Generations,
    proven: Generations,
}

/// Keys by name. Its hash has a seed of its own, as callers choose names.
type Keys = HashMap<Box<str>, Arc<HeldKey>, RandomState>;

#[derive(Debug)]
struct Generations {
    young: Keys,
    old: Keys,
    /// Maximum number of keys of each generation.
    most: usize,
    /// When the young generation began; `None` while it is empty.
    since: Option<Tick>,
}

impl HeldKey {
    /// Notes that a request of the key was decided by its budget.
    pub(super) fn decided(&self) {
        if !self.decided.load(Ordering::Relaxed) {
            self.decided.store(true, Ordering::Relaxed);
        }
    }
}

impl Held {
    /// Creates an empty table for that many keys.
    pub(super) fn new(keys: usize) -> Self {
        Self(Mutex::new(Groups {
            trial: Generations::new(keys / 8),
            proven: Generations::new(keys / 4),
        }))
    }

    /// Returns a key, made by `make` unless it is held already, and a reading of its clock.
    pub(super) fn get(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<Limiter, KeyRefused>,
    ) -> Result<(Arc<HeldKey>, Tick), KeyRefused> {
        let mut groups = self.lock();
        if let Some(found) = groups.proven.get(key) {
            return Ok(found);
        }
        if let Some((held, now)) = groups.trial.get(key) {
            if held.decided.load(Ordering::Relaxed) {
                groups.trial.remove(key);
                groups.proven.insert(key, &held);
            }
            return Ok((held, now));
        }
        let held = Arc::new(HeldKey {
            limiter: make()?,
            recent: Recent::default(),
            decided: AtomicBool::new(false),
        });
        let now = groups.trial.insert(key, &held);
        Ok((held, now))
    }

    fn lock(&self) -> MutexGuard<'_, Groups> {
        // A panic leaves a key in one group, in both, or in none: each is valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of keys that are held.
    pub(super) fn len(&self) -> usize {
        let groups = self.lock();
        groups.trial.len() + groups.proven.len()
    }
}

impl Generations {
    /// Age at which the young generation becomes the old one.
    const AGE: Duration = Duration::from_secs(60);

    fn new(most: usize) -> Self {
        Self {
            young: Keys::default(),
            old: Keys::default(),
            most: most.max(1),
            since: None,
        }
    }

    /// Returns a key, and moves it to the young generation.
    fn get(&mut self, key: &str) -> Option<(Arc<HeldKey>, Tick)> {
        if let Some(held) = self.young.get(key) {
            let held = Arc::clone(held);
            let now = self.turn_if_aged(&held);
            return Some((held, now));
        }
        let held = self.old.remove(key)?;
        let now = self.insert(key, &held);
        Some((held, now))
    }

    fn remove(&mut self, key: &str) {
        self.young.remove(key);
        self.old.remove(key);
    }

    fn insert(&mut self, key: &str, held: &Arc<HeldKey>) -> Tick {
        let now = self.turn_if_aged(held);
        if self.young.len() >= self.most {
            self.turn();
        }
        self.young.insert(key.into(), Arc::clone(held));
        now
    }

    /// Returns the reading of the key's clock that it used.
    fn turn_if_aged(&mut self, held: &HeldKey) -> Tick {
        let now = Combine::now(&held.limiter);
        let since = *self.since.get_or_insert(now);
        if Duration::from_nanos(now.since(since).nanos()) >= Self::AGE {
            self.turn();
            self.since = Some(now);
        }
        now
    }

    fn turn(&mut self) {
        self.old = take(&mut self.young);
        self.since = None;
    }

    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/decider/held.rs"]
mod tests;
