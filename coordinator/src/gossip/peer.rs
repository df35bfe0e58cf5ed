//! State of the gossip with one peer: what it is known to have, and what is to be sent to it.

use aliquot_core::message::Heard;
use aliquot_core::unit::Incarnation;
use aliquot_wire::gossip::Topic;
use aliquot_wire::limits::DIGEST_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a record: its topic and the incarnation that it is about.
pub(super) type Name = (Topic, Incarnation);

/// State of one peer, as the book sees it. Every map has at most one entry for each record that the
/// book keeps. `tell` can also contain other names, at most as many as a digest.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The latest incarnation of the peer that sent a message.
    pub(super) incarnation: Incarnation,
    round: u64,
    /// Versions that the peer certainly has, because it listed or sent them.
    theirs: BTreeMap<Name, Heard>,
    /// Records that the peer may lack, and the round since which it may.
    waiting: BTreeMap<Name, u64>,
    /// Versions that our digests last listed.
    listed: BTreeMap<Name, Heard>,
    /// Records that the peer had to ask for, and the round until which it is sent later versions at
    /// once.
    grafts: BTreeMap<Name, u64>,
    /// Names to list in the next digest.
    tell: BTreeSet<Name>,
    /// Records to be sent, and their order of arrival.
    push: BTreeMap<Name, u64>,
    pushed: u64,
}

impl Peer {
    /// Number of rounds after which a record is listed in a digest. It must have waited for one whole
    /// round: by then every node that is connected to its origin has it. This counts rounds begun,
    /// which is one more.
    const LISTED_AFTER: u64 = 2;

    /// Number of rounds after which a digest lists everything, to find records that were lost.
    const FULL_EVERY: u64 = 25;

    /// Number of rounds for which a peer that had to ask for a record is sent its later versions at
    /// once.
    const GRAFTED_FOR: u64 = 50;

    /// Notes that the book has a later version, of this node's own record or of one that may be
    /// relayed.
    pub(super) fn changed(&mut self, name: Name, version: Heard, own: bool) {
        if self.theirs.get(&name).is_some_and(|has| *has >= version) {
            return;
        }
        self.waiting.entry(name).or_insert(self.round);
        if own || self.grafts.contains_key(&name) {
            self.push(name);
        }
    }

    /// Notes that the peer sent this version, which the book now has too.
    pub(super) fn sent(&mut self, name: Name, version: Heard, ours: Heard) {
        self.has(name, version);
        if version >= ours {
            self.settle(name);
        }
    }

    /// Handles an entry of the peer's digest. `ours` is the version in the book, or zero if there is
    /// none.
    pub(super) fn note_version(&mut self, name: Name, version: Heard, ours: Heard) {
        if ours != Heard::default() {
            self.has(name, version);
        }
        if version == ours {
            self.settle(name);
        } else if version > ours {
            if self.tell.len() < DIGEST_MAX {
                self.tell.insert(name);
            }
        } else if self
            .listed
            .get(&name)
            .is_some_and(|listed_version| *listed_version > version)
        {
            // The peer asks for a record that we listed, so it did not get it from any other node.
            let until = self.round.saturating_add(Self::GRAFTED_FOR);
            self.grafts.insert(name, until);
            self.push(name);
        } else if !self.is_fresh(name) {
            self.push(name);
        }
    }

    /// Begins a round. Lists the records that have waited long enough, or all of `names`.
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

    /// Takes up to `most` names to list in a digest.
    pub(super) fn take_heads(&mut self, most: usize) -> Vec<Name> {
        let mut heads = Vec::new();
        while heads.len() < most
            && let Some(name) = self.tell.pop_first()
        {
            heads.push(name);
        }
        heads
    }

    /// Notes that a digest listed this version.
    pub(super) fn was_listed(&mut self, name: Name, version: Heard) {
        // Version zero asks for a record that may never come.
        if version != Heard::default() {
            self.listed.insert(name, version);
        }
    }

    /// Returns the records to send, the most urgent first, and among equals the one that waited
    /// longest.
    pub(super) fn pushes(&self) -> Vec<Name> {
        let pushes = self.push.iter();
        let mut pushes: Vec<(u8, u64, Name)> = pushes
            .map(|(&name, &since)| (urgency(name.0), since, name))
            .collect();
        pushes.sort_unstable();
        pushes.into_iter().map(|(_, _, name)| name).collect()
    }

    /// Notes that a record was sent, or does not exist any more.
    pub(super) fn was_pushed(&mut self, name: Name) {
        self.push.remove(&name);
    }

    /// Drops everything about an incarnation that is gone.
    pub(super) fn forget(&mut self, incarnation: Incarnation) {
        let is_other = |name: &Name| name.1 != incarnation;
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

    /// Notes that the peer has our version, so that nothing needs to be sent.
    fn settle(&mut self, name: Name) {
        self.waiting.remove(&name);
        self.tell.remove(&name);
        self.push.remove(&name);
    }

    /// Returns true if the record may still be on its way to the peer from its origin.
    fn is_fresh(&self, name: Name) -> bool {
        let since = self.waiting.get(&name);
        since.is_some_and(|since| self.round.saturating_sub(*since) < Self::LISTED_AFTER)
    }

    fn push(&mut self, name: Name) {
        self.pushed = self.pushed.saturating_add(1);
        self.push.entry(name).or_insert(self.pushed);
    }
}

/// Returns the rank of a topic when a message is full: first answers, which confirm leases and carry
/// targets, then reports.
const fn urgency(topic: Topic) -> u8 {
    match topic {
        Topic::Answer => 0,
        Topic::Report => 1,
        _ => 2,
    }
}
