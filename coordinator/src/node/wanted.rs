//! Keys whose budgets clients wait for, and when each is requested.
//!
//! ```text
//!  want ──► queue ──► batch ──► proposed ──┬─ made: forgotten
//!            ▲  at most FLIGHTS_MAX at once │
//!            │                             └─ not there yet ──► pause, doubled each time
//!            └───────────────────────────────────── due ◄──────────┘
//! ```
//!
//! A node has only a few batches under way, however many keys its clients bring, so that new keys delay
//! nothing else. Keys beyond [`Wanted::KEYS_MAX`] are not remembered: a client that is told "not yet"
//! asks again.

use aliquot_core::budget::Key;
use aliquot_core::unit::{Span, Tick};
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Keys whose budgets clients wait for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    known: BTreeSet<Key>,
    queue: VecDeque<Key>,
    /// Batches that were proposed, by number.
    flights: BTreeMap<u64, Batch>,
    /// Batches with keys that were not created, by the time of the next request.
    later: BTreeMap<(Tick, u64), Batch>,
    number: u64,
}

/// Keys that are requested together.
#[derive(Debug)]
pub(super) struct Batch {
    /// Identifies the batch until its proposal has ended.
    pub(super) number: u64,
    pub(super) keys: Vec<Key>,
    /// Number of times that the keys were requested.
    asked: u32,
}

impl Wanted {
    /// Maximum number of keys that wait.
    pub(super) const KEYS_MAX: usize = 65_536;

    /// Maximum number of keys in a batch. An entry with this many is applied within one slice of the
    /// actor's time, and is far below the limit of an entry.
    pub(super) const BATCH_MAX: usize = 256;

    /// Maximum number of batches under way.
    const FLIGHTS_MAX: usize = 4;

    /// Pause before keys that were not created are requested again, and how many times it is doubled.
    const PAUSE: Span = Span::from_millis(500);
    const DOUBLED_MAX: u32 = 3;

    const _FITS: () = assert!(Self::BATCH_MAX <= aliquot_wire::limits::INSTANTIATE_MAX);

    /// Returns true if no key waits.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the number of keys that wait.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Notes that a client waits for a key. Returns `false` if too many wait and the key is not
    /// remembered.
    pub(super) fn want(&mut self, key: &Key) -> bool {
        if self.known.contains(key) {
            return true;
        }
        if self.known.len() >= Self::KEYS_MAX {
            return false;
        }
        self.known.insert(key.clone());
        self.queue.push_back(key.clone());
        true
    }

    /// Returns the next batch to request, with only the keys that still wait.
    pub(super) fn take(&mut self, now: Tick, waits: impl Fn(&Key) -> bool) -> Option<&Batch> {
        if self.flights.len() >= Self::FLIGHTS_MAX {
            return None;
        }
        let mut batch = self.due(now, &waits);
        let batch = match &mut batch {
            Some(_) => batch,
            None => self.fresh(&waits),
        }?;
        let number = batch.number;
        Some(self.flights.entry(number).or_insert(batch))
    }

    fn due(&mut self, now: Tick, waits: &impl Fn(&Key) -> bool) -> Option<Batch> {
        while let Some(first) = self.later.first_entry() {
            if first.key().0 > now {
                return None;
            }
            let mut batch = first.remove();
            self.drop_made(&mut batch, waits);
            if !batch.keys.is_empty() {
                return Some(batch);
            }
        }
        None
    }

    fn fresh(&mut self, waits: &impl Fn(&Key) -> bool) -> Option<Batch> {
        while !self.queue.is_empty() {
            let upto = self.queue.len().min(Self::BATCH_MAX);
            self.number = self.number.saturating_add(1);
            let mut batch = Batch {
                number: self.number,
                keys: self.queue.drain(..upto).collect(),
                asked: 0,
            };
            self.drop_made(&mut batch, waits);
            if !batch.keys.is_empty() {
                return Some(batch);
            }
        }
        None
    }

    fn drop_made(&mut self, batch: &mut Batch, waits: &impl Fn(&Key) -> bool) {
        batch.keys.retain(|key| {
            let stays = waits(key);
            if !stays {
                self.known.remove(key);
            }
            stays
        });
    }

    /// Records that the proposal of a batch has ended, applied or with its fate unknown. Keys that do
    /// not exist here after a pause are requested again. Jitter keeps nodes from asking together.
    pub(super) fn landed(&mut self, number: u64, now: Tick, rng: &mut StdRng) {
        let Some(mut batch) = self.flights.remove(&number) else {
            return;
        };
        let doubled = Self::PAUSE.times_or_max(1 << batch.asked.min(Self::DOUBLED_MAX));
        let jitter = rng.random_range(0..=doubled.nanos() / 2);
        let at = now.after(doubled.plus_or_max(Span::from_nanos(jitter)));
        batch.asked = batch.asked.saturating_add(1);
        self.later.insert((at, number), batch);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/wanted.rs"]
mod tests;
