//! The contents of messages and of hosts, as a tracer gets them.

use super::World;
use super::event::Message;
use crate::trace::{Fold, Traced};
use aliquot_core::client::Client;
use aliquot_core::holder::Holder;
use aliquot_core::leader::Leader;
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::Tick;
use std::fmt::{Formatter, Result};
use std::hash::Hash;

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
            "{now:?} term {term} commit {commit} applied {applied} ready {is_ready} {holder:?}"
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

impl World {
    /// Shows a message with all its contents.
    pub(super) fn show_message(&mut self, from: usize, to: usize, message: &Message) {
        let now = self.now;
        self.observer
            .record(now, "message", (Some(to), Some(from)), message);
    }

    /// Shows the state of a host after a message, with all that it holds.
    pub(super) fn show_state(&mut self, host: usize) {
        let now = self.now;
        let mut record = |what: &dyn Traced| {
            self.observer.record(now, "state", (Some(host), None), what);
        };
        if self.hosts.is_node(host) {
            let node = &self.nodes[host];
            record(&NodeState {
                now: node.clock.read(now),
                term: node.log.term,
                commit: node.log.commit,
                applied: node.state.applied(),
                is_ready: node.leader.is_ready(),
                holder: node.node.as_ref().map(Node::holder),
            });
        } else {
            let service = &self.services[host - self.hosts.nodes];
            record(&ClientState(service.clock.read(now), &service.client));
        }
    }

    /// Shows the complete state of all nodes, which would be too much after every message.
    pub(super) fn show_books(&mut self) {
        let now = self.now;
        for (index, node) in self.nodes.iter().enumerate() {
            let books = Books(&node.state, &node.leader, node.node.as_ref());
            self.observer
                .record(now, "books", (Some(index), None), &books);
        }
    }
}
