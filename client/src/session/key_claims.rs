//! The session's side of its keys: asks nodes for budget ids, and claims and gives up budgets.

use super::Session;
use super::keys::{Entry, Keys};
use crate::bucket::{AdmissionMode, BucketDecider};
use crate::limiter::key_state::KeyState;
use crate::session::config::OwnRule;
use aliquot_core::budget::{Claim, Key};
use aliquot_core::client::Decider;
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Scale, Span, Tick};
use aliquot_wire::session::{ClientMessage, Interned, KeyRefusal};
use rand::RngExt;
use std::sync::Arc;

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
