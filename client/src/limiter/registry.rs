//! The keys of a client and the state of each. A key state is created at the first
//! use of its key and forgotten when it is no longer needed.
//!
//! # When a key state may be forgotten
//!
//! A key state is **held** while a handle to it exists: a limiter, a permit, a reservation, or a question in
//! flight. Besides handles only the registry refers to it, and the session once it [was
//! told](Registry::take_changes). A handle is made from another handle, or by the registry under its lock. So
//! if a thread that holds the lock for writing counts no more than these two references, there is no handle. None
//! can appear once the key state is out of the map. No caller waits for it either, because a waiting caller holds
//! it.
//!
//! The next use of the key creates **another key state**, which is empty. Only the session gives it capacity,
//! after it has taken back the capacity of the former key state: the session takes both changes under one
//! lock and handles removed keys first. So two key states of one key never have capacity at the same time.
//! Even a leftover handle of the former key state could not admit too much: its capacity was withdrawn from
//! the bucket in one step, and that bucket admits nothing afterwards.
//!
//! A key state that would be missed is [not forgotten](KeyState::may_be_forgotten), even if it is not held.

#[cfg(test)]
#[path = "../../tests/unit/limiter/registry.rs"]
mod tests;

use crate::limiter::key_refused::KeyRefused;
use crate::limiter::key_state::KeyState;
use crate::limiter::key_state::touch::{Touch, Touched};
use crate::observe::counters::Counters;
use crate::observe::switch::{Mode, ModeStats};
use aliquot_core::budget::Key;
use aliquot_core::unit::{Span, Tick};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// All keys of a client.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: BTreeMap<Key, Entry>,
    /// Changes that the session has not been told of yet: keys that it knows and that were forgotten, and
    /// keys that it does not know.
    changes: Changes,
    past: Past,
    /// Until when no room is searched for, because the last search found none.
    vain_until: Tick,
    pub(crate) closed: bool,
    mode: Mode,
    counters: Option<Arc<Counters>>,
    touched: Arc<Touched>,
    /// Places of marks that forgotten keys had.
    places: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    key_state: Arc<KeyState>,
    /// When the key state was last asked for, or seen to be held, in nanoseconds.
    used: AtomicU64,
}

/// Changes to the set of keys, to be applied in this order.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Keys that were forgotten. A key may also be in `fresh`, as a new one.
    pub(crate) gone: Vec<Key>,
    /// New keys.
    pub(crate) fresh: BTreeMap<Key, Arc<KeyState>>,
}

/// Counters of the keys that were forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) mode_stats: ModeStats,
}

/// The present time, and whether the session's lease holds then, or no lease was ever held, so that no capacity can
/// outlive one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Tick,
    pub(crate) leased: bool,
}

impl Registry {
    /// Time after which a key state that is not held and not asked for is forgotten.
    const IDLE: Span = Span::from_secs(60);
    /// Making room frees one in this many keys, so that the next caller need not search again at once.
    const ROOM: usize = 8;
    /// Time without another search after one that found every key state held. A search visits all keys.
    const VAIN: Span = Span::from_millis(10);

    /// Returns a registry without keys. Keys that are used will be marked in `touched`.
    pub(crate) fn new(touched: Arc<Touched>) -> Self {
        Self {
            touched,
            ..Self::default()
        }
    }

    /// Returns the state of a key, if there is one. Many threads may search at once.
    pub(crate) fn find(&self, key: &str, now: Tick) -> Option<Arc<KeyState>> {
        let entry = self.entries.get(key)?;
        entry.use_at(now);
        Some(Arc::clone(&entry.key_state))
    }

    /// Creates the state of a key that has none, if there are fewer than `most` keys or room can be made.
    pub(crate) fn add(
        &mut self,
        key: Key,
        most: usize,
        now: Now,
    ) -> Result<Arc<KeyState>, KeyRefused> {
        if self.entries.len() >= most && !self.make_room(most, now) {
            return Err(KeyRefused::TooMany { most });
        }
        // All places below this number belong to keys, or are in `places`.
        let last = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let place = self.places.pop().unwrap_or(last);
        let key_state = Arc::new(KeyState::new(key.as_str()));
        let touched = Arc::clone(&self.touched);
        key_state.tally.touches(Touch::new(touched, place));
        key_state.switch.set_client(self.mode);
        if let Some(counters) = &self.counters {
            key_state.watch(counters);
        }
        let entry = Entry {
            key_state: Arc::clone(&key_state),
            used: AtomicU64::new(now.at.nanos()),
        };
        self.entries.insert(key.clone(), entry);
        self.changes.fresh.insert(key, Arc::clone(&key_state));
        Ok(key_state)
    }

    /// Forgets key states that were neither held nor asked for in a while.
    pub(crate) fn sweep(&mut self, now: Now) {
        for (_, key) in self.spare(now, Self::IDLE) {
            self.forget(&key);
        }
    }

    /// Forgets the key states that were unused for longest. Returns true if there were any.
    fn make_room(&mut self, most: usize, now: Now) -> bool {
        if now.at < self.vain_until {
            return false;
        }
        let mut spare = self.spare(now, Span::ZERO);
        spare.sort_unstable();
        spare.truncate((most / Self::ROOM).max(1));
        for (_, key) in &spare {
            self.forget(key);
        }
        if spare.is_empty() {
            self.vain_until = now.at.after(Self::VAIN);
        }
        !spare.is_empty()
    }

    /// Returns the keys that were not used for `idle` and could be forgotten, each with the start of that time.
    fn spare(&self, now: Now, idle: Span) -> Vec<(Tick, Key)> {
        let mut spare = Vec::new();
        for (key, entry) in &self.entries {
            let used = Tick::from_nanos(entry.used.load(Ordering::Relaxed));
            match entry.is_held() {
                true => entry.use_at(now.at),
                false if now.at.since(used) < idle => {}
                false if entry.key_state.may_be_forgotten(now.at, now.leased) => {
                    spare.push((used, key.clone()));
                }
                false => {}
            }
        }
        spare
    }

    fn forget(&mut self, key: &Key) {
        let Some(Entry { key_state, .. }) = self.entries.remove(key) else {
            return;
        };
        self.past.add(&key_state);
        let place = key_state
            .tally
            .place()
            .and_then(|at| u32::try_from(at).ok());
        self.places.extend(place);
        // If the session has not been told of the key yet, it never is.
        if self.changes.fresh.remove(key).is_none() {
            self.changes.gone.push(key.clone());
        }
    }

    /// Takes the changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Sets the mode of all keys, including later ones.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        for key_state in self.key_states() {
            key_state.switch.set_client(mode);
            key_state.changed();
        }
    }

    /// Counts refusals of all keys in `counters`, including later keys.
    pub(crate) fn watch(&mut self, counters: &Arc<Counters>) {
        let counters = Arc::clone(self.counters.get_or_insert_with(|| Arc::clone(counters)));
        for key_state in self.key_states() {
            key_state.watch(&counters);
        }
    }

    /// Returns the mode of all keys.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns all key states, in the order of their keys.
    pub(crate) fn key_states(&self) -> impl Iterator<Item = &Arc<KeyState>> {
        self.entries.values().map(|entry| &entry.key_state)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the counters of the keys that were forgotten.
    pub(crate) const fn past(&self) -> Past {
        self.past
    }
}

impl Entry {
    /// Records that the key is used at `now`.
    fn use_at(&self, now: Tick) {
        // Most threads find a later reading of another one, and then share the cache line.
        if self.used.load(Ordering::Relaxed) < now.nanos() {
            self.used.fetch_max(now.nanos(), Ordering::Relaxed);
        }
    }

    /// Returns true if there are references to the key state besides the registry's and that of the session
    /// or of `fresh`.
    fn is_held(&self) -> bool {
        let held = Arc::strong_count(&self.key_state) > 2;
        // Everything done with a handle happened before it was dropped, and so before this.
        fence(Ordering::Acquire);
        held
    }
}

impl Past {
    fn add(&mut self, key_state: &KeyState) {
        // Refusals that threads counted by themselves and have not reported are lost; they are one report's
        // worth.
        key_state.tally.admitted(key_state.bucket.take_uncounted());
        let [admitted, refused, _] = key_state.tally.totals();
        let mode_stats = key_state.switch.mode_stats();
        self.admitted = self.admitted.saturating_add(admitted);
        self.refused = self.refused.saturating_add(refused);
        self.mode_stats = self.mode_stats.plus(mode_stats);
    }
}
