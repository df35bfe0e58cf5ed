//! Shows everything that happens in a simulation to a witness.

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

/// A value that a witness can look at: as text, for people, or as a hash, for comparison. Hashing costs a
/// fiftieth of writing the text.
pub trait Seen {
    /// Writes the value as text.
    fn tell(&self, f: &mut Formatter<'_>) -> Result;

    /// Hashes the value. Values that differ must give different hashes.
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

/// The state of a node after a message.
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

/// The state of a client after a message.
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

/// The complete state machines of a node.
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

/// An event that is shown to a witness ("sight").
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// True time in nanoseconds.
    pub at: u64,
    /// Kind of the event: `message`, `state`, `books`, `fault`, `over`, `applied`, `admitted` and others.
    pub kind: &'static str,
    /// Name of the host; empty if the event belongs to none.
    pub host: &'a str,
    /// Name of the sender, if the event is a message.
    pub from: &'a str,
    /// The contents.
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

/// A receiver of everything that happens.
pub trait Witness {
    /// Called for each event.
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

    /// Shows a message with all its contents.
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

    /// Shows the state of a host after a message, with all that it holds.
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
                office: node.leader.is_ready(),
                holder: node.node.as_ref().map(Node::holder),
            });
        } else {
            let service = &self.services[host - self.hosts.nodes];
            saw(&ClientSeen(service.clock.read(self.now), &service.client));
        }
    }

    /// Shows the complete state of all nodes, which would be too much after every message.
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
