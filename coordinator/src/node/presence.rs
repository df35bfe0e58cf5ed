//! Presence of this node: the address at which it serves clients, which it sends to other nodes.

use super::context::Context;
use crate::gossip::Book;
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::{NodeId, Number, Span, Tick};
use aliquot_wire::Sealed;
use aliquot_wire::gossip::{Presence, Record, Topic};
use std::collections::BTreeMap;

/// Interval at which the presence record is repeated.
const PRESENCE: Span = Span::from_secs(1);

/// The presence record that this node published last.
#[derive(Debug)]
pub(super) struct OwnPresence {
    latest: Presence,
    published: Tick,
}

impl OwnPresence {
    pub(super) fn new(now: Tick) -> Self {
        Self {
            latest: Presence::default(),
            published: now,
        }
    }

    /// Returns the record to publish, if it is due or differs from the last one. `sessions` are the
    /// connected sessions of this node, and `takes_clients` is false while it leaves.
    pub(super) fn next(
        &mut self,
        node: &Node,
        state: &State,
        sessions: usize,
        takes_clients: bool,
        context: &Context,
    ) -> Option<Record> {
        // Records of an incarnation that is over are not stored.
        state.member(node.incarnation())?;
        // While this node has no lease, it publishes no address: new clients would have to wait for the
        // lease.
        let serving = takes_clients && node.is_leased(context.now);
        let latest = Presence {
            incarnation: node.incarnation(),
            number: self.latest.number,
            address: match serving {
                true => context.options.address.clone(),
                false => String::new(),
            },
            sessions: sessions as u64,
        };
        let old = context.now.since(self.published) >= PRESENCE;
        if latest == self.latest && !old {
            return None;
        }
        if latest.incarnation != self.latest.incarnation {
            self.latest.number = Number::new(0);
        }
        let number = self.latest.number.next();
        self.latest = Presence {
            number: number.unwrap_or(latest.number),
            ..latest
        };
        self.published = context.now;
        let sealed = Sealed::seal(&self.latest).ok()?;
        Some(Record::of_presence(&sealed))
    }
}

/// Returns the presence of each node that has joined, in its latest incarnation: earlier ones, those of this
/// node too, may not be reclaimed yet.
pub(super) fn latest_presences(book: &Book, state: &State) -> BTreeMap<NodeId, Presence> {
    let presences = book
        .records()
        .filter(|record| record.value().head.topic == Topic::Presence)
        .filter_map(|record| record.value().presence().ok())
        .map(Sealed::into_value);
    let mut latest = BTreeMap::new();
    for presence in presences {
        if let Some(member) = state.member(presence.incarnation) {
            let node: &mut Presence = latest.entry(member.node).or_default();
            if presence.incarnation > node.incarnation {
                *node = presence;
            }
        }
    }
    latest
}

#[cfg(test)]
#[path = "../../tests/unit/node/presence.rs"]
pub(super) mod tests;
