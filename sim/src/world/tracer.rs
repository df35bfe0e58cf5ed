//! Shows everything that happens in a simulation to a tracer.

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

/// A value that a tracer can look at: as text, for people, or as a hash, for comparison. Hashing costs a
/// fiftieth of writing the text.
pub trait Traced {
    /// Writes the value as text.
    fn tell(&self, f: &mut Formatter<'_>) -> Result;

    /// Hashes the value. Values that differ must give different hashes.
    fn digest(&self, fold: &mut Fold);
}

impl Display for dyn Traced + '_ {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.tell(f)
    }
}

impl Traced for String {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self)
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

impl Traced for Message {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {self:?}", self.name())
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// The state of a node after a message.
#[derive(Hash)]
struct NodeState<'a> {
    now: Tick,
    term: u64,
    commit: u64,
    applied: u64,
    is_ready: bool,
    holder: Option<&'a Holder>,
}

impl Traced for NodeState<'_> {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            now,
            term,
            commit,
            applied,
            is_ready,
            holder,
        } = self;
        write!(
            f,
            "{now:?} term {term} commit {commit} applied {applied} office {is_ready} {holder:?}"
        )
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// The state of a client after a message.
#[derive(Hash)]
struct ClientState<'a>(Tick, &'a Client);

impl Traced for ClientState<'_> {
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

impl Traced for Books<'_> {
    fn tell(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:?} {:?} {:?}", self.0, self.1, self.2)
    }

    fn digest(&self, fold: &mut Fold) {
        self.hash(fold);
    }
}

/// An event that is shown to a tracer.
#[derive(Clone, Copy)]
pub struct TraceEvent<'a> {
    /// True time in nanoseconds.
    pub at: u64,
    /// Kind of the event: `message`, `state`, `books`, `fault`, `over`, `applied`, `admitted` and others.
    pub kind: &'static str,
    /// Name of the host; empty if the event belongs to none.
    pub host: &'a str,
    /// Name of the sender, if the event is a message.
    pub from: &'a str,
    /// The contents.
    pub what: &'a dyn Traced,
}

impl std::fmt::Debug for TraceEvent<'_> {
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
pub trait Tracer {
    /// Called for each event.
    fn record(&mut self, event: &TraceEvent<'_>);
}

impl World {
    pub(super) fn show(
        &mut self,
        kind: &'static str,
        host: Option<usize>,
        text: impl FnOnce() -> String,
    ) {
        if let Some(tracer) = &mut self.tracer {
            tracer.record(&TraceEvent {
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
        if let Some(tracer) = &mut self.tracer {
            tracer.record(&TraceEvent {
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
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let mut record = |what: &dyn Traced| {
            tracer.record(&TraceEvent {
                at: self.now,
                kind: "state",
                host: self.hosts.label(host),
                from: "",
                what,
            });
        };
        if self.hosts.is_node(host) {
            let node = &self.nodes[host];
            record(&NodeState {
                now: node.clock.read(self.now),
                term: node.log.term,
                commit: node.log.commit,
                applied: node.state.applied(),
                is_ready: node.leader.is_ready(),
                holder: node.node.as_ref().map(Node::holder),
            });
        } else {
            let service = &self.services[host - self.hosts.nodes];
            record(&ClientState(service.clock.read(self.now), &service.client));
        }
    }

    /// Shows the complete state of all nodes, which would be too much after every message.
    pub(super) fn show_books(&mut self) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        for (index, node) in self.nodes.iter().enumerate() {
            tracer.record(&TraceEvent {
                at: self.now,
                kind: "books",
                host: self.hosts.label(index),
                from: "",
                what: &Books(&node.state, &node.leader, node.node.as_ref()),
            });
        }
    }
}
