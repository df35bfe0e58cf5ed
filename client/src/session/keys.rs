//! The keys of a session, and the budget ids that nodes assign to them.
//!
//! A key that callers no longer need is forgotten: what is held of it goes back with the next report, and it
//! is no longer wanted. But as long as the edge lasts, its node keeps the key's name, and both sides keep the
//! counters of the edge, since a late message may refer to them. All of that ends with the edge. Once much of
//! it has accumulated, the session continues under a new edge at the same node. That takes two round trips in
//! which nothing is admitted under a lease, so it is done seldom.

use super::Session;
use crate::bucket::{AdmissionMode, BucketDecider};
use crate::limiter::key_state::KeyState;
use crate::session::config::OwnRule;
use aliquot_core::budget::{Claim, Key};
use aliquot_core::client::Decider;
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Scale, Span, Tick};
use aliquot_wire::limits::LINES_MAX;
use aliquot_wire::session::{ClientMessage, Interned, KeyRefusal};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// State of a key.
#[derive(Debug)]
struct Entry {
    /// Place of the mark that callers set when they use the key.
    place: Option<usize>,
    /// The key's decider, while no budget is known and the state machine does not own it.
    decider: Option<BucketDecider>,
    budget: Option<BudgetId>,
    /// When to ask for its budget id (again); `None` while none is needed.
    ask_at: Option<Tick>,
    /// Set while the node was asked for the id and has answered neither with a budget nor with a refusal.
    pending: bool,
    /// Number of refusals so far.
    asked: u32,
    /// Set while the key goes by the rule of a process without a lease. Its budget, if a node named one, is claimed with
    /// the first lease.
    by_outage_rule: bool,
}

/// All keys of a session.
#[derive(Debug, Default)]
pub(super) struct Keys {
    entries: BTreeMap<Key, Entry>,
    /// When to ask for keys that are not pending, as far as there is room.
    waiting: BTreeSet<(Tick, Key)>,
    /// When to ask again for keys that are pending.
    again: BTreeSet<(Tick, Key)>,
    /// Number of entries that are pending.
    pending: usize,
    /// The budgets of keys that have one, by the keys' places.
    placed: Vec<Option<BudgetId>>,
    /// Number of keys forgotten under the present edge, with repetitions.
    gone: usize,
    /// Those of them since a node was last dialled: the next edge begins with this number.
    gone_since_dial: usize,
    /// Set if the node said that the session has as many keys as it may have.
    refused: bool,
    /// When the present edge came into use.
    begun: Tick,
    sweep_at: Tick,
}

impl Keys {
    /// A key that no rule names is asked for again after this time, since a rule may be made. So is a key
    /// without an answer.
    const ASK_AGAIN: Span = Span::from_secs(5);
    /// First delay after which a budget that is being created is asked for again; doubled each time.
    const ASK_SOON: Span = Span::from_millis(10);
    /// Number of such requests before other keys get its turn.
    const ASK_SOON_TIMES: u32 = 7;
    /// Maximum number of keys that are asked for at a time. Of many new keys the others wait until these are
    /// known.
    const PENDING_MAX: usize = 1_024;
    /// Interval of the search for keys that are no longer needed.
    const SWEEP_EVERY: Span = Span::from_secs(5);
    /// Number of forgotten keys at which a new edge is worth it: an eighth of the lines of a message.
    const GONE_MAX: usize = LINES_MAX / 8;
    /// Minimum age of an edge before it is replaced because of forgotten keys, in report intervals: ten
    /// seconds.
    const REPORTS_LEAST: u64 = 50;

    /// Returns the keys to open a session with.
    pub(super) fn names(&self) -> Vec<Key> {
        self.entries.keys().take(LINES_MAX).cloned().collect()
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
    fn is_full(&self) -> bool {
        self.entries.len() + self.gone > LINES_MAX
    }

    /// Returns true if so many keys were forgotten that a new edge should clear them on the other side, too.
    fn is_stale(&self, report_every: Span, now: Tick) -> bool {
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

    /// Asks for pending keys anew: questions to the former node may never be answered.
    pub(super) fn forget_asked(&mut self) {
        let pending = self.entries.iter().filter(|(_, entry)| entry.pending);
        let pending: Vec<Key> = pending.map(|(key, _)| key.clone()).collect();
        for key in pending {
            self.settle(&key);
            self.ask_at(&key, Tick::from_nanos(0));
        }
    }

    /// Sets the next time at which a key is asked for.
    fn ask_at(&mut self, key: &Key, at: Tick) {
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
    fn settle(&mut self, key: &Key) -> Option<&mut Entry> {
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
    fn take_due(&mut self, now: Tick) -> Vec<Key> {
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
    fn stay_pending(&mut self, key: &Key) {
        if self.has_room()
            && let Some(entry) = self.entries.get_mut(key)
        {
            entry.pending = true;
            self.pending += 1;
        }
    }

    /// Sets the budget of the key with this place.
    fn place(&mut self, place: Option<usize>, budget: Option<BudgetId>) {
        let Some(place) = place else { return };
        if self.placed.len() <= place {
            self.placed.resize(place + 1, None);
        }
        self.placed[place] = budget;
    }

    fn remove(&mut self, key: &Key) -> Option<Entry> {
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

impl Session {
    /// Forgets the keys that callers no longer need, then takes in the keys of new limiters. In this order,
    /// because a key may be both.
    pub(super) fn look_at_keys(&mut self, now: Tick) {
        if now >= self.keys.sweep_at {
            self.keys.sweep_at = now.after(Keys::SWEEP_EVERY);
            self.shared.sweep();
        }
        let changes = self.shared.take_changes();
        for key in changes.gone {
            self.forget(&key, now);
        }
        for (key, key_state) in changes.fresh {
            self.meet(key, key_state, now);
        }
        if self.keys.is_stale(self.report_every, now) && !self.closing {
            self.selection.renew(now);
        }
    }

    fn forget(&mut self, key: &Key, now: Tick) {
        let Some(entry) = self.keys.remove(key) else {
            return;
        };
        self.keys.gone += 1;
        self.keys.gone_since_dial += 1;
        if let Some(budget) = entry.budget {
            // Only the decider that is dropped here still refers to the key state.
            drop(self.machine.retire(budget, now));
        }
    }

    fn meet(&mut self, key: Key, key_state: Arc<KeyState>, now: Tick) {
        let place = key_state.tally.place();
        let mut decider = BucketDecider::new(key_state);
        if self.closing {
            decider.rule(AdmissionMode::Closed, Scale::WHOLE, Share::EMPTY, now);
            return;
        }
        let by_outage_rule = self.outage_rule.is_in_force();
        if by_outage_rule {
            self.outage_rule.apply(&mut decider, now);
        }
        let entry = Entry {
            place,
            decider: Some(decider),
            budget: None,
            ask_at: None,
            pending: false,
            asked: 0,
            by_outage_rule,
        };
        self.keys.entries.insert(key.clone(), entry);
        self.keys.ask_at(&key, now);
    }

    /// Applies modes that have changed to all deciders.
    pub(super) fn obey_modes(&mut self, now: Tick) {
        if !self.shared.take_switched() {
            return;
        }
        let ours = self.keys.entries.values_mut();
        let ours = ours.filter_map(|entry| entry.decider.as_mut());
        for decider in self.machine.deciders_mut().chain(ours) {
            decider.switched(now);
        }
    }

    /// Returns true if the node may be asked for names.
    pub(super) fn may_ask(&self) -> bool {
        let room = self
            .link()
            .is_some_and(crate::session::transport::Link::has_room);
        room && !self.closing && !self.keys.is_full()
    }

    /// Asks for the budget ids that are due.
    pub(super) fn intern(&mut self, now: Tick) {
        if !self.may_ask() {
            return;
        }
        let Some(link) = self.selection.link() else {
            return;
        };
        let keys = self.keys.take_due(now);
        if !keys.is_empty() {
            link.send(&ClientMessage::Intern(keys));
        }
    }

    /// Handles budget ids, or refusals, from the node.
    pub(super) fn learn(&mut self, names: Vec<Interned>, now: Tick) {
        // Keys that were refused together are asked for together, but not when other clients ask.
        let part = self.rng.random_range(500..=1_000);
        for Interned { key, budget } in names {
            match budget {
                Ok(budget) => self.name(&key, budget, now),
                Err(refusal) => self.refused(&key, refusal, part, now),
            }
        }
    }

    fn name(&mut self, key: &Key, budget: BudgetId, now: Tick) {
        let Some(entry) = self.keys.settle(key) else {
            return;
        };
        if entry.budget == Some(budget) {
            return;
        }
        let former = entry.budget.replace(budget);
        if entry.by_outage_rule {
            return;
        }
        let (place, ours) = (entry.place, entry.decider.take());
        self.keys.place(place, Some(budget));
        let retired = former.and_then(|former| self.machine.retire(former, now));
        let Some(mut decider) = ours.or(retired) else {
            return;
        };
        decider.rule(AdmissionMode::Cold, Scale::WHOLE, Share::EMPTY, now);
        self.machine
            .claim_with(budget, Claim::default(), decider, now);
    }

    /// Handles a refusal: the key has no budget, or none yet. It is asked for again after `part` thousandths
    /// of the usual time.
    fn refused(&mut self, key: &Key, refusal: KeyRefusal, part: u64, now: Tick) {
        let Some(entry) = self.keys.settle(key) else {
            return;
        };
        let mut pending = false;
        if let Some(former) = entry.budget.take() {
            // A key that goes by the outage rule was named, and not claimed yet.
            entry.decider = self.machine.retire(former, now).or(entry.decider.take());
        }
        entry.asked = entry.asked.saturating_add(1);
        let asked = entry.asked;
        let mut again = Keys::ASK_AGAIN;
        let rule = match refusal {
            KeyRefusal::NotYet => {
                if asked <= Keys::ASK_SOON_TIMES {
                    // It is about to be created: no other key gets its turn.
                    pending = true;
                    again = Keys::ASK_SOON.times_or_max(1 << asked);
                }
                OwnRule::without_limit(AdmissionMode::Cold)
            }
            // A budget there is, but none for this key: no rule of one's own replaces it.
            KeyRefusal::TooManyInstances => OwnRule::without_limit(AdmissionMode::MaxKeys),
            KeyRefusal::SessionFull => OwnRule::without_limit(AdmissionMode::NoRoom),
            _ => self.config.default_rule,
        };
        // Nothing is known yet of a key whose budget is being created.
        let waits = entry.by_outage_rule && refusal == KeyRefusal::NotYet;
        let changes = std::mem::replace(&mut entry.by_outage_rule, waits) && !waits;
        if let Some(decider) = &mut entry.decider
            && !waits
            && (changes || !decider.goes_by(rule.mode))
        {
            decider.rule(rule.mode, rule.scale, rule.share, now);
        }
        let place = entry.place;
        self.keys.refused |= refusal == KeyRefusal::SessionFull;
        if pending {
            self.keys.stay_pending(key);
        }
        self.keys.place(place, None);
        let again = Span::from_nanos(again.nanos() / 1_000 * part);
        self.keys.ask_at(key, now.after(again));
    }

    /// Applies the rule for a process without a lease, if it is due.
    pub(super) fn begin_outage_rule(&mut self, now: Tick) {
        if !self.outage_rule.begins(now) {
            return;
        }
        for entry in self.keys.entries.values_mut() {
            if let Some(budget) = entry.budget {
                entry.decider = self.machine.retire(budget, now).or(entry.decider.take());
            }
            if let Some(decider) = &mut entry.decider
                && (entry.budget.is_some() || decider.goes_by(AdmissionMode::Cold))
            {
                entry.by_outage_rule = true;
                self.outage_rule.apply(decider, now);
            }
        }
        // The state machine has none of them now.
        self.keys.placed.clear();
    }

    /// Ends the rule for a process without a lease: there is one. Claims the budgets that nodes have named.
    pub(super) fn end_outage_rule(&mut self, now: Tick) {
        if !self.outage_rule.ends() {
            return;
        }
        let mut named = Vec::new();
        for (key, entry) in &mut self.keys.entries {
            if !std::mem::take(&mut entry.by_outage_rule) {
                continue;
            }
            if let Some(decider) = &mut entry.decider {
                decider.rule(AdmissionMode::Cold, Scale::WHOLE, Share::EMPTY, now);
                // Admissions since the start of the outage must not be reported as the present demand.
                let _admitted = decider.observed();
            }
            named.extend(entry.budget.take().map(|budget| (key.clone(), budget)));
        }
        for (key, budget) in named {
            self.name(&key, budget, now);
        }
    }

    /// Tells the state machine which keys callers have used since the last call.
    pub(super) fn see_asked(&mut self) {
        let (keys, machine) = (&self.keys, &mut self.machine);
        self.shared.touched.take(|place| {
            if let Some(budget) = keys.budget_at(place) {
                machine.touch(budget);
            }
        });
    }
}
