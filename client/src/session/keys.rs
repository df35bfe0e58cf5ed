//! The keys of a session, and the budget ids that nodes assign to them.
//!
//! A key that callers no longer need is forgotten: what is held of it goes back with the next report, and it
//! is no longer wanted. But as long as the edge lasts, its node keeps the key's name, and both sides keep the
//! counters of the edge, since a late message may refer to them. All of that ends with the edge. Once much of
//! it has accumulated, the session continues under a new edge at the same node. That takes two round trips in
//! which nothing is admitted under a lease, so it is done seldom.

use crate::bucket::BucketDecider;
use aliquot_core::budget::Key;
use aliquot_core::unit::{BudgetId, Span, Tick};
use aliquot_wire::limits::LINES_MAX;
use aliquot_wire::session::Interned;
use std::collections::{BTreeMap, BTreeSet};

/// State of a key.
#[derive(Debug)]
pub(super) struct Entry {
    /// Place of the mark that callers set when they use the key.
    pub(super) place: Option<usize>,
    /// The key's decider, while no budget is known and the state machine does not own it.
    pub(super) decider: Option<BucketDecider>,
    pub(super) budget: Option<BudgetId>,
    /// When to ask for its budget id (again); `None` while none is needed.
    pub(super) ask_at: Option<Tick>,
    /// Set while the node was asked for the id and has answered neither with a budget nor with a refusal.
    pub(super) pending: bool,
    /// Number of refusals so far.
    pub(super) asked: u32,
    /// Set while the key goes by the rule of a process without a lease. Its budget, if a node named one, is claimed with
    /// the first lease.
    pub(super) by_outage_rule: bool,
}

/// All keys of a session.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) entries: BTreeMap<Key, Entry>,
    /// When to ask for keys that are not pending, as far as there is room.
    waiting: BTreeSet<(Tick, Key)>,
    /// When to ask again for keys that are pending.
    again: BTreeSet<(Tick, Key)>,
    /// Number of entries that are pending.
    pending: usize,
    /// The budgets of keys that have one, by the keys' places.
    pub(super) placed: Vec<Option<BudgetId>>,
    /// Number of keys forgotten under the present edge, with repetitions.
    pub(super) gone: usize,
    /// Those of them since a node was last dialled: the next edge begins with this number.
    pub(super) gone_since_dial: usize,
    /// Set if the node said that the session has as many keys as it may have.
    pub(super) refused: bool,
    /// When the present edge came into use.
    begun: Tick,
    pub(super) sweep_at: Tick,
}

impl Keys {
    /// A key that no rule names is asked for again after this time, since a rule may be made. So is a key
    /// without an answer.
    pub(super) const ASK_AGAIN: Span = Span::from_secs(5);
    /// First delay after which a budget that is being created is asked for again; doubled each time.
    pub(super) const ASK_SOON: Span = Span::from_millis(10);
    /// Number of such requests before other keys get its turn.
    pub(super) const ASK_SOON_TIMES: u32 = 7;
    /// Maximum number of keys that are asked for at a time. Of many new keys the others wait until these are
    /// known.
    const PENDING_MAX: usize = 1_024;
    /// Interval of the search for keys that are no longer needed.
    pub(super) const SWEEP_EVERY: Span = Span::from_secs(5);
    /// Number of forgotten keys at which a new edge is worth it: an eighth of the lines of a message.
    const GONE_MAX: usize = LINES_MAX / 8;
    /// Minimum age of an edge before it is replaced because of forgotten keys, in report intervals: ten
    /// seconds.
    const REPORTS_LEAST: u64 = 50;

    /// Returns the keys to open a session with. The others are [asked for](Keys::ask_others) once it is open, a part at
    /// a time: with all of them in one message, a node would do nothing else, and other sessions would not be opened
    /// in time.
    pub(super) fn names(&self) -> Vec<Key> {
        self.entries
            .keys()
            .take(Self::PENDING_MAX)
            .cloned()
            .collect()
    }

    /// Records that a new edge is in use, whose node was told the keys when it was dialled.
    pub(super) const fn begin(&mut self, now: Tick) {
        (self.gone, self.begun) = (self.gone_since_dial, now);
        self.refused = false;
    }

    /// Records that a node is dialled and told the present keys.
    pub(super) const fn dialled(&mut self) {
        self.gone_since_dial = 0;
    }

    /// Returns true if no more keys may be sent to the node: neither a session nor a report can have more.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() + self.gone > LINES_MAX
    }

    /// Returns true if so many keys were forgotten that a new edge should clear them on the other side, too.
    pub(super) fn is_stale(&self, report_every: Span, now: Tick) -> bool {
        let full = self.refused || self.is_full();
        let much = self.gone >= Self::GONE_MAX || (self.gone > 0 && full);
        much && now.since(self.begun) >= report_every.times_or_max(Self::REPORTS_LEAST)
    }

    /// Returns the budget of a key, if it is known.
    pub(super) fn budget(&self, key: &str) -> Option<BudgetId> {
        let key = Key::try_from(key).ok()?;
        self.entries.get(&key)?.budget
    }

    /// Returns the budget of the key whose mark has this place.
    pub(super) fn budget_at(&self, place: usize) -> Option<BudgetId> {
        self.placed.get(place).copied().flatten()
    }

    /// Returns when the next key is to be asked for; `None` if none is, or if others must be answered first.
    pub(super) fn next_ask(&self) -> Option<Tick> {
        let again = self.again.first();
        let waiting = self.waiting.first().filter(|_| self.has_room());
        let due = again.into_iter().chain(waiting);
        due.map(|(at, _)| *at).min()
    }

    const fn has_room(&self) -> bool {
        self.pending < Self::PENDING_MAX
    }

    /// Asks for all keys but those that a node has `named` as its session was opened. Keys whose budgets are known
    /// are used meanwhile, so they come last.
    pub(super) fn ask_others(&mut self, named: &[Interned], now: Tick) {
        let named: BTreeSet<&Key> = named.iter().map(|name| &name.key).collect();
        let others = self.entries.iter().filter(|(_, entry)| !entry.pending);
        let others = others.filter(|(key, _)| !named.contains(key));
        let others: Vec<(Key, bool)> = others
            .map(|(key, entry)| (key.clone(), entry.budget.is_some()))
            .collect();
        for (key, is_known) in others {
            self.ask_at(&key, if is_known { now } else { Tick::ZERO });
        }
    }

    /// Asks for pending keys anew: questions to the former node may never be answered.
    pub(super) fn forget_asked(&mut self) {
        let pending = self.entries.iter().filter(|(_, entry)| entry.pending);
        let pending: Vec<Key> = pending.map(|(key, _)| key.clone()).collect();
        for key in pending {
            self.settle(&key);
            self.ask_at(&key, Tick::ZERO);
        }
    }

    /// Sets the next time at which a key is asked for.
    pub(super) fn ask_at(&mut self, key: &Key, at: Tick) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let queue = match entry.pending {
            true => &mut self.again,
            false => &mut self.waiting,
        };
        if let Some(before) = entry.ask_at.replace(at) {
            queue.remove(&(before, key.clone()));
        }
        queue.insert((at, key.clone()));
    }

    /// Takes a key out of both queues: it is neither pending nor asked for.
    pub(super) fn settle(&mut self, key: &Key) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(key)?;
        let was = std::mem::take(&mut entry.pending);
        self.pending -= usize::from(was);
        let queue = match was {
            true => &mut self.again,
            false => &mut self.waiting,
        };
        if let Some(before) = entry.ask_at.take() {
            queue.remove(&(before, key.clone()));
        }
        Some(entry)
    }

    /// Takes the keys to ask for at `now`. Each one is asked for again if no answer comes.
    pub(super) fn take_due(&mut self, now: Tick) -> Vec<Key> {
        let mut keys = Vec::new();
        while keys.len() < Self::PENDING_MAX {
            let is_due = |due: &&(Tick, Key)| due.0 <= now;
            let key = match self.again.first().filter(is_due) {
                Some(_) => self.again.pop_first(),
                None if !self.has_room() => None,
                None => match self.waiting.first().filter(is_due) {
                    Some(_) => self.waiting.pop_first(),
                    None => None,
                },
            };
            let Some((_, key)) = key else { break };
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.ask_at = None;
                self.pending += usize::from(!std::mem::replace(&mut entry.pending, true));
            }
            self.ask_at(&key, now.after(Self::ASK_AGAIN));
            keys.push(key);
        }
        keys
    }

    /// Makes a key pending, if there is room.
    pub(super) fn stay_pending(&mut self, key: &Key) {
        if self.has_room()
            && let Some(entry) = self.entries.get_mut(key)
        {
            entry.pending = true;
            self.pending += 1;
        }
    }

    /// Sets the budget of the key with this place.
    pub(super) fn place(&mut self, place: Option<usize>, budget: Option<BudgetId>) {
        let Some(place) = place else { return };
        if self.placed.len() <= place {
            self.placed.resize(place + 1, None);
        }
        self.placed[place] = budget;
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Entry> {
        self.settle(key)?;
        let entry = self.entries.remove(key)?;
        self.place(entry.place, None);
        Some(entry)
    }

    /// Removes all keys. Returns the deciders without a budget, and the budgets of the others.
    pub(super) fn take_all(&mut self) -> (Vec<BucketDecider>, Vec<BudgetId>) {
        let entries = std::mem::take(&mut self.entries);
        (self.waiting, self.again, self.pending, self.placed) = Default::default();
        let (mut deciders, mut names) = (Vec::new(), Vec::new());
        for entry in entries.into_values() {
            deciders.extend(entry.decider);
            names.extend(entry.budget);
        }
        (deciders, names)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/session/keys.rs"]
mod tests;
