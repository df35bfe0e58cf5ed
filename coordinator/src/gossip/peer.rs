//! What one peer is known to have, and what it is to be told.

use aliquot_core::message::Heard;
use aliquot_core::unit::Incarnation;
use aliquot_wire::gossip::Topic;
use aliquot_wire::limits::DIGEST_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// What names a record.
pub(super) type Name = (Topic, Incarnation);

/// One peer, as the book sees it. Every map has at most an entry per name that
/// the book keeps; `tell` has others too, at most a digest of them.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The greatest life that spoke.
    pub(super) life: Incarnation,
    round: u64,
    /// What it certainly has: it said so, or it sent it.
    theirs: BTreeMap<Name, Heard>,
    /// What it may lack, and the round since when.
    waiting: BTreeMap<Name, u64>,
    /// What our digests last listed.
    listed: BTreeMap<Name, Heard>,
    /// What it had to ask us for, and the round until which it is spared that.
    grafts: BTreeMap<Name, u64>,
    /// Heads for the next digest.
    tell: BTreeSet<Name>,
    /// Records to be sent, and which was first.
    push: BTreeMap<Name, u64>,
    pushed: u64,
}

impl Peer {
    /// A head is listed when it has waited for a whole round: by then whoever
    /// hears its origin has it. Counted in begun rounds, one more.
    const LISTED_AFTER: u64 = 2;

    /// Every so many rounds a digest lists everything: it finds what was lost.
    const FULL_EVERY: u64 = 25;

    /// So many rounds a peer that had to ask is sent a record at once.
    const GRAFTED_FOR: u64 = 50;

    /// The book has a later version: ours, or one that we may relay.
    pub(super) fn changed(&mut self, name: Name, version: Heard, own: bool) {
        if self.theirs.get(&name).is_some_and(|has| *has >= version) {
            return;
        }
        self.waiting.entry(name).or_insert(self.round);
        if own || self.grafts.contains_key(&name) {
            self.push(name);
        }
    }

    /// It sent this version, which the book has now or had already.
    pub(super) fn sent(&mut self, name: Name, version: Heard, ours: Heard) {
        self.has(name, version);
        if version >= ours {
            self.settle(name);
        }
    }

    /// Its digest has this version; ours is the other, zero for none.
    pub(super) fn said(&mut self, name: Name, version: Heard, ours: Heard) {
        if ours != Heard::default() {
            self.has(name, version);
        }
        if version == ours {
            self.settle(name);
        } else if version > ours {
            if self.tell.len() < DIGEST_MAX {
                self.tell.insert(name);
            }
        } else if self.listed.get(&name).is_some_and(|told| *told > version) {
            // It asks for what we listed, so nobody else brought it.
            let until = self.round.saturating_add(Self::GRAFTED_FOR);
            self.grafts.insert(name, until);
            self.push(name);
        } else if !self.is_fresh(name) {
            self.push(name);
        }
    }

    /// Begins a round: lists what has waited, or all of `names`.
    pub(super) fn tick(&mut self, names: impl Iterator<Item = Name>) {
        self.round = self.round.saturating_add(1);
        let round = self.round;
        self.grafts.retain(|_, until| *until > round);
        if round.is_multiple_of(Self::FULL_EVERY) {
            return self.tell_all(names);
        }
        let due = |since: u64| round.saturating_sub(since) >= Self::LISTED_AFTER;
        let tell = &mut self.tell;
        self.waiting.retain(|&name, since| {
            let due = due(*since);
            if due {
                tell.insert(name);
            }
            !due
        });
    }

    pub(super) fn tell_all(&mut self, names: impl Iterator<Item = Name>) {
        self.waiting.clear();
        self.tell.extend(names);
    }

    /// Takes up to `most` names whose heads are to be said.
    pub(super) fn take_heads(&mut self, most: usize) -> Vec<Name> {
        let mut heads = Vec::new();
        while heads.len() < most
            && let Some(name) = self.tell.pop_first()
        {
            heads.push(name);
        }
        heads
    }

    /// The head was said.
    pub(super) fn was_listed(&mut self, name: Name, version: Heard) {
        // A head that asks names a record that may never come.
        if version != Heard::default() {
            self.listed.insert(name, version);
        }
    }

    /// What is to be sent, the most urgent first, and then what waited longest.
    pub(super) fn pushes(&self) -> Vec<Name> {
        let pushes = self.push.iter();
        let mut pushes: Vec<(u8, u64, Name)> = pushes
            .map(|(&name, &since)| (urgency(name.0), since, name))
            .collect();
        pushes.sort_unstable();
        pushes.into_iter().map(|(_, _, name)| name).collect()
    }

    /// The record was sent, or is none any more.
    pub(super) fn was_pushed(&mut self, name: Name) {
        self.push.remove(&name);
    }

    /// The life is gone: nothing of it is said any more.
    pub(super) fn forget(&mut self, life: Incarnation) {
        let is_other = |name: &Name| name.1 != life;
        self.theirs.retain(|name, _| is_other(name));
        self.waiting.retain(|name, _| is_other(name));
        self.listed.retain(|name, _| is_other(name));
        self.grafts.retain(|name, _| is_other(name));
        self.tell.retain(is_other);
        self.push.retain(|name, _| is_other(name));
    }

    fn has(&mut self, name: Name, version: Heard) {
        let has = self.theirs.entry(name).or_default();
        *has = version.max(*has);
    }

    /// It has what we have: there is nothing to say.
    fn settle(&mut self, name: Name) {
        self.waiting.remove(&name);
        self.tell.remove(&name);
        self.push.remove(&name);
    }

    /// Whether it may be on its way from its origin.
    fn is_fresh(&self, name: Name) -> bool {
        let since = self.waiting.get(&name);
        since.is_some_and(|since| self.round.saturating_sub(*since) < Self::LISTED_AFTER)
    }

    fn push(&mut self, name: Name) {
        self.pushed = self.pushed.saturating_add(1);
        self.push.entry(name).or_insert(self.pushed);
    }
}

/// Which records go first where a message is full: those that confirm leases
/// and carry targets, then those that ask.
const fn urgency(topic: Topic) -> u8 {
    match topic {
        Topic::Answer => 0,
        Topic::Report => 1,
        _ => 2,
    }
}
