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
pub(super) mod tests {
    use super::super::context::tests::{context, joined, pass};
    use super::*;
    use aliquot_core::command::Command;
    use aliquot_core::message::{Answer, Heard, Verdict};
    use aliquot_core::state::Effect;
    use aliquot_core::unit::{Incarnation, RequestId, Term};

    /// Lets a node join, and returns its incarnation.
    pub(in super::super) fn join(state: &mut State, node: u64) -> Incarnation {
        let index = state.applied() + 1;
        let join = Command::Join {
            node: NodeId::new(node),
            request: RequestId::new(index),
        };
        let effects = state.apply(index, Some(&join));
        let joined = effects.iter().find_map(|effect| match effect {
            Effect::Joined { incarnation, .. } => Some(*incarnation),
            _ => None,
        });
        joined.expect("it joins")
    }

    /// Publishes the presence of an incarnation with 7 sessions.
    pub(in super::super) fn announce(
        book: &mut Book,
        incarnation: Incarnation,
        number: u64,
        address: &str,
    ) {
        let presence = Presence {
            incarnation,
            number: Number::new(number),
            address: address.to_owned(),
            sessions: 7,
        };
        let record = Record::of_presence(&Sealed::seal(&presence).unwrap());
        book.publish(Sealed::seal(&record).unwrap()).unwrap();
    }

    #[test]
    fn a_node_that_leaves_tells_no_address_even_while_it_has_a_lease() {
        let context = context();
        let (state, incarnation) = joined();
        let mut node = Node::new(incarnation, state.drift());
        let report = node.report(context.now, 0).expect("a report");
        let answer = Answer {
            edge: report.edge,
            number: Heard {
                term: Term::new(1),
                number: Number::new(1),
            },
            answers: report.seq,
            taken: report.seq,
            lease: Span::from_secs(3),
            verdict: Verdict::Open,
            lines: Vec::new(),
        };
        node.handle_answer(&answer, context.now);
        let address = |takes_clients| {
            let mut own = OwnPresence::new(context.now);
            let record = own.next(&node, &state, 0, takes_clients, &context)?;
            Some(record.presence().unwrap().into_value().address)
        };
        assert_eq!(address(true), Some(context.options.address.clone()));
        assert_eq!(address(false), Some(String::new()));
    }

    #[test]
    fn a_node_without_a_lease_tells_no_address_and_repeats_its_presence_each_second() {
        let mut context = context();
        let (state, incarnation) = joined();
        let node = Node::new(incarnation, state.drift());
        let mut own = OwnPresence::new(context.now);
        let mut next = |state: &State, sessions, context: &Context| {
            let record = own.next(&node, state, sessions, true, context)?;
            Some(record.presence().unwrap().into_value())
        };
        assert_eq!(next(&State::new(), 3, &context), None, "not a member");
        let first = next(&state, 3, &context).expect("the first");
        assert_eq!((first.address.as_str(), first.sessions), ("", 3));
        assert_eq!(next(&state, 3, &context), None, "nothing is new");
        let second = next(&state, 4, &context).expect("another count");
        assert!(second.number > first.number);
        pass(&mut context, PRESENCE);
        let third = next(&state, 4, &context).expect("a second later");
        assert!(third.number > second.number);
    }
}
