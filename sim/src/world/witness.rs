//! Showing what happens to somebody who writes it down.

use super::World;
use super::event::Message;
use std::fmt::Display;

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
    /// All of it, as text; written out only if somebody reads it.
    pub text: &'a dyn Display,
}

impl std::fmt::Debug for Sight<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            at,
            kind,
            host,
            from,
            text,
        } = self;
        write!(f, "{at} {kind} {host} {from} {text}")
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
        if self.witness.is_some() {
            let host = host.map_or(String::new(), |host| self.hosts.name(host));
            self.shown(kind, &host, "", &text());
        }
    }

    fn shown(&mut self, kind: &'static str, host: &str, from: &str, text: &dyn Display) {
        let at = self.now;
        if let Some(witness) = &mut self.witness {
            witness.saw(&Sight {
                at,
                kind,
                host,
                from,
                text,
            });
        }
    }

    /// A message with all that is in it.
    pub(super) fn show_message(&mut self, from: usize, to: usize, message: &Message) {
        if self.witness.is_some() {
            let (from, host) = (self.hosts.name(from), self.hosts.name(to));
            let text = &format_args!("{}: {message:?}", message.name());
            self.shown("message", &host, &from, text);
        }
    }

    /// A host's state after it heard something: what it holds, in full.
    pub(super) fn show_state(&mut self, host: usize) {
        let Some(mut witness) = self.witness.take() else {
            return;
        };
        let (at, name) = (self.now, self.hosts.name(host));
        let mut saw = |text: &dyn Display| {
            witness.saw(&Sight {
                at,
                kind: "state",
                host: &name,
                from: "",
                text,
            });
        };
        if self.hosts.is_node(host) {
            let node = &self.nodes[host];
            let now = node.clock.read(self.now);
            let holder = node.node.as_ref().map(|node| node.holder());
            let (term, commit, applied) = (node.log.term, node.log.commit, node.state.applied());
            saw(&format_args!(
                "{now:?} term {term} commit {commit} applied {applied} office {} {holder:?}",
                node.leader.in_office()
            ));
        } else {
            let service = &self.services[host - self.hosts.nodes];
            let now = service.clock.read(self.now);
            saw(&format_args!("{now:?} {:?}", service.client));
        }
        self.witness = Some(witness);
    }

    /// All machines of all nodes, books included: too much for every message.
    pub(super) fn show_books(&mut self) {
        let Some(mut witness) = self.witness.take() else {
            return;
        };
        for (index, node) in self.nodes.iter().enumerate() {
            witness.saw(&Sight {
                at: self.now,
                kind: "books",
                host: &self.hosts.name(index),
                from: "",
                text: &format_args!("{:?} {:?} {:?}", node.state, node.leader, node.node),
            });
        }
        self.witness = Some(witness);
    }
}
