//! The keys of a session, and what nodes call them.
//!
//! A key that callers need no more is forgotten: what is held of it goes back with the next report,
//! and nothing is wanted of it from then on. But as long as the session lasts its node keeps the key's name and both sides keep
//! the counters of the edge, since a message that is late may speak of them. All that goes with the
//! edge: once there is much of it, the session goes on under another one, at the same node. That
//! takes two round trips, in which nothing is admitted under a lease, so it is done seldom.

use super::Session;
use crate::builder::DefaultRule;
use crate::cell::{CellDecider, Mark};
use crate::key::Gate;
use aliquot_core::budget::{Claim, Key};
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Scale, Span, Tick};
use aliquot_wire::limits::LINES_MAX;
use aliquot_wire::session::{ClientMessage, Interned, KeyRefusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a key stands.
#[derive(Debug)]
struct Entry {
    /// Its cell's machine side, while the machine has no budget for it.
    decider: Option<CellDecider>,
    budget: Option<BudgetId>,
    /// When to ask for its name (again); `None` while it has one or was asked for.
    ask_at: Option<Tick>,
    /// How often a node had to be asked.
    asked: u32,
}

/// All keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    entries: BTreeMap<Key, Entry>,
    /// As many as were forgotten under the present edge, each as often as it was.
    gone: usize,
    /// Of these, since a node was dialled: the next edge begins with them.
    gone_since_dial: usize,
    /// When the present edge began to be in use.
    begun: Tick,
    sweep_at: Tick,
}

impl Keys {
    /// A key that no rule names is asked for again after so long: a rule may be made.
    const ASK_AGAIN: Span = Span::from_secs(5);
    /// A budget that is being made is asked for again after so long, doubled each time.
    const ASK_SOON: Span = Span::from_millis(10);
    /// It is looked so often for keys that nobody needs any more.
    const SWEEP_EVERY: Span = Span::from_secs(5);
    /// So many forgotten keys are much: an eighth of what a message can speak of.
    const GONE_MAX: usize = LINES_MAX / 8;
    /// An edge is kept for at least so many reports, however many keys are forgotten: ten seconds.
    const REPORTS_LEAST: u64 = 50;

    /// The keys to open a session with.
    pub(super) fn names(&self) -> Vec<Key> {
        self.entries.keys().take(LINES_MAX).cloned().collect()
    }

    /// Another edge is in use now, of whose node this was asked when it was dialled.
    pub(super) const fn begin(&mut self, now: Tick) {
        (self.gone, self.begun) = (self.gone_since_dial, now);
    }

    /// A node is dialled, and told the present keys.
    pub(super) const fn dialled(&mut self) {
        self.gone_since_dial = 0;
    }

    /// Whether the node is told of no more keys: a session has no more, and a report no more lines.
    fn is_full(&self) -> bool {
        self.entries.len() + self.gone > LINES_MAX
    }

    /// Whether so much is forgotten that it should be forgotten on the other side, too.
    fn is_stale(&self, report_every: Span, now: Tick) -> bool {
        let much = self.gone >= Self::GONE_MAX || (self.gone > 0 && self.is_full());
        much && now.since(self.begun) >= report_every.times_or_max(Self::REPORTS_LEAST)
    }

    /// What a key is called, if it has a name.
    pub(super) fn budget(&self, key: &str) -> Option<BudgetId> {
        let key = Key::try_from(key).ok()?;
        self.entries.get(&key)?.budget
    }

    /// Another node is asked: what was asked of the former one may never be answered.
    pub(super) fn forget_asked(&mut self) {
        for entry in self.entries.values_mut() {
            if entry.budget.is_none() && entry.ask_at.is_none() {
                entry.ask_at = Some(Tick::from_nanos(0));
            }
        }
    }

    /// Everything that decides: deciders without a budget, and the budgets of the others.
    pub(super) fn take_all(&mut self) -> (Vec<CellDecider>, Vec<BudgetId>) {
        let entries = std::mem::take(&mut self.entries);
        let (mut deciders, mut names) = (Vec::new(), Vec::new());
        for entry in entries.into_values() {
            deciders.extend(entry.decider);
            names.extend(entry.budget);
        }
        (deciders, names)
    }
}

impl Session {
    /// Forgets the keys that callers need no more, and takes in those that they made limiters for:
    /// in this order, for one may be both.
    pub(super) fn look_at_keys(&mut self, now: Tick) {
        if now >= self.keys.sweep_at {
            self.keys.sweep_at = now.after(Keys::SWEEP_EVERY);
            self.shared.sweep();
        }
        let changes = self.shared.take_changes();
        for key in changes.gone {
            self.forget(&key, now);
        }
        for (key, gate) in changes.fresh {
            self.meet(key, gate, now);
        }
        if self.keys.is_stale(self.report_every, now) && !self.closing {
            self.roaming.renew(now);
        }
    }

    fn forget(&mut self, key: &Key, now: Tick) {
        let Some(entry) = self.keys.entries.remove(key) else {
            return;
        };
        self.keys.gone += 1;
        self.keys.gone_since_dial += 1;
        if let Some(budget) = entry.budget {
            // Nobody has the gate but the decider that is dropped here.
            drop(self.machine.retire(budget, now));
        }
    }

    fn meet(&mut self, key: Key, gate: Arc<Gate>, now: Tick) {
        let mut decider = CellDecider::new(gate);
        if self.closing {
            decider.rule(Mark::Closed, Scale::WHOLE, Share::EMPTY, now);
            return;
        }
        let entry = Entry {
            decider: Some(decider),
            budget: None,
            ask_at: Some(now),
            asked: 0,
        };
        self.keys.entries.insert(key, entry);
    }

    /// Modes that have changed are shown to those who decide.
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

    /// Asks for the names that are due.
    pub(super) fn intern(&mut self, now: Tick) {
        let Some(link) = self.roaming.link() else {
            return;
        };
        if self.closing || !link.has_room() || self.keys.is_full() {
            return;
        }
        let mut keys = Vec::new();
        for (key, entry) in &mut self.keys.entries {
            if entry.ask_at.is_some_and(|at| now >= at) && keys.len() < LINES_MAX {
                entry.ask_at = None;
                keys.push(key.clone());
            }
        }
        if !keys.is_empty() {
            link.send(&ClientMessage::Intern(keys));
        }
    }

    /// What keys are called from now on.
    pub(super) fn learn(&mut self, names: Vec<Interned>, now: Tick) {
        for Interned { key, budget } in names {
            match budget {
                Ok(budget) => self.name(&key, budget, now),
                Err(refusal) => self.refused(&key, refusal, now),
            }
        }
    }

    fn name(&mut self, key: &Key, budget: BudgetId, now: Tick) {
        let Some(entry) = self.keys.entries.get_mut(key) else {
            return;
        };
        entry.ask_at = None;
        if entry.budget == Some(budget) {
            return;
        }
        let former = entry.budget.replace(budget);
        let retired = former.and_then(|former| self.machine.retire(former, now));
        let Some(mut decider) = entry.decider.take().or(retired) else {
            return;
        };
        decider.rule(Mark::Cold, Scale::WHOLE, Share::EMPTY, now);
        self.machine
            .claim_with(budget, Claim::default(), decider, now);
    }

    fn refused(&mut self, key: &Key, refusal: KeyRefusal, now: Tick) {
        let Some(entry) = self.keys.entries.get_mut(key) else {
            return;
        };
        if let Some(former) = entry.budget.take() {
            entry.decider = self.machine.retire(former, now);
        }
        entry.asked = entry.asked.saturating_add(1);
        let (mark, again) = match (refusal, self.config.default_rule) {
            (KeyRefusal::NotYet, _) => {
                let soon = Keys::ASK_SOON.times_or_max(1 << entry.asked.min(7));
                (Mark::Cold, soon)
            }
            // A budget there is, but none for this key: no rule of one's own replaces it.
            (KeyRefusal::TooManyInstances, _) | (_, DefaultRule::Deny) => {
                (Mark::NoBudget, Keys::ASK_AGAIN)
            }
            (_, DefaultRule::Allow) => (Mark::Open, Keys::ASK_AGAIN),
            (_, DefaultRule::Local { .. }) => (Mark::Forever, Keys::ASK_AGAIN),
        };
        entry.ask_at = Some(now.after(again));
        let (scale, share) = match mark {
            Mark::Forever => self.config.local,
            _ => (Scale::WHOLE, Share::EMPTY),
        };
        if let Some(decider) = &mut entry.decider
            && !decider.goes_by(mark)
        {
            decider.rule(mark, scale, share, now);
        }
    }
}
