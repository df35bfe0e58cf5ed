//! Showing what happens to somebody who writes it down.

use super::World;
use super::event::Message;
use crate::trace::Fold;
use aliquot_core::client::Client;
use aliquot_core::holder::Holder;
use aliquot_core::leader::Leader;
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::Tick;
use std::fmt::{Display, Formatter, Result};
use std::hash::Hash;

/// All that there is to be seen of something: as text for who reads it, and
/// as a hash for who only compares, which costs a fiftieth of it.
pub trait Seen {
    /// Writes it out.
    fn tell(&self, f: &mut Formatter<'_>) -> Result;

    /// Folds in all that differs between two that differ.
    fn digest(&self, fold: &mut Fold);
}

impl Display for dyn Seen + '_ {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.tell(f)
    }
}

impl Seen for String {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self)
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

impl Seen for Message {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {self:?}", self.name())
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// What a node is like after it heard something.
#[derive(Hash)]
struct NodeSeen<'a> {
    now: Tick,
    term: u64,
    commit: u64,
    applied: u64,
    office: bool,
    holder: Option<&'a Holder>,
}

impl Seen for NodeSeen<'_> {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            now,
            term,
            commit,
            applied,
            office,
            holder,
        } = self;
        write!(
            f,
            "{now:?} term {term} commit {commit} applied {applied} office {office} {holder:?}"
        )
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// What a client is like after it heard something.
#[derive(Hash)]
struct ClientSeen<'a>(Tick, &'a Client);

impl Seen for ClientSeen<'_> {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:?} {:?}", self.0, self.1)
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// A node's machines, whole.
#[derive(Hash)]
struct Books<'a>(&'a State, &'a Leader, Option<&'a Node>);

impl Seen for Books<'_> {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:?} {:?} {:?}", self.0, self.1, self.2)
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// Something that happened.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// True time in nanoseconds.
    pub at: u64,
    /// What kind of thing: `message`, `state`, `books`, `fault`, `over`, `applied`, `admitted`.
    pub kind: &'static str,
    /// Where, by name; empty if it is nowhere.
    pub host: &'a str,
    /// Where it came from, for a message.
    pub from: &'a str,
    /// All of it.
    pub what: &'a dyn Seen,
}

impl std::fmt::Debug for Sight<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            at,
            kind,
            host,
            from,
            what,
        } = self;
        write!(f, "{at} {kind} {host} {from} {what}")
    }
}

/// Who writes it down.
pub trait Witness {
    /// Something happened.
    fn saw(&mut self, sight: &Sight<'_>);
}

impl World {
    pub(super) fn show(
        &mut self,
        kind: &'static str,
        host: Option<usize>,
        text: impl FnOnce() -> String,
    ) {
        if let Some(witness) = &mut self.witness {
            witness.saw(&Sight {
                at: self.now,
                kind,
                host: host.map_or("", |host| self.hosts.label(host)),
                from: "",
                what: &text(),
            });
        }
    }

    /// A message with all that is in it.
    pub(super) fn show_message(&mut self, from: usize, to: usize, message: &Message) {
        if let Some(witness) = &mut self.witness {
            witness.saw(&Sight {
                at: self.now,
                kind: "message",
                host: self.hosts.label(to),
                from: self.hosts.label(from),
                what: message,
            });
        }
    }

    /// A host's state after it heard something: what it holds, in full.
    pub(super) fn show_state(&mut self, host: usize) {
        let Some(witness) = &mut self.witness else {
            return;
        };
        let mut saw = |what: &dyn Seen| {
            witness.saw(&Sight {
                at: self.now,
                kind: "state",
                host: self.hosts.label(host),
                from: "",
                what,
            });
        };
        if self.hosts.is_node(host) {
            let node = &self.nodes[host];
            saw(&NodeSeen {
                now: node.clock.read(self.now),
                term: node.log.term,
                commit: node.log.commit,
                applied: node.state.applied(),
                office: node.leader.in_office(),
                holder: node.node.as_ref().map(Node::holder),
            });
        } else {
            let service = &self.services[host - self.hosts.nodes];
            saw(&ClientSeen(service.clock.read(self.now), &service.client));
        }
    }

    /// All machines of all nodes, books included: too much for every message.
    pub(super) fn show_books(&mut self) {
        let Some(witness) = &mut self.witness else {
            return;
        };
        for (index, node) in self.nodes.iter().enumerate() {
            witness.saw(&Sight {
                at: self.now,
                kind: "books",
                host: self.hosts.label(index),
                from: "",
                what: &Books(&node.state, &node.leader, node.node.as_ref()),
            });
        }
    }
}
