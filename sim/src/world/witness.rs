//! Showing what happens to somebody who writes it down.

use super::World;
use super::event::Message;

/// Something that happened.
#[derive(Debug)]
pub struct Sight<'a> {
    /// True time in nanoseconds.
    pub at: u64,
    /// What kind of thing: `message`, `state`, `fault`, `over`, `applied`, `admitted`.
    pub kind: &'static str,
    /// Where, by name; empty if it is nowhere.
    pub host: &'a str,
    /// Where it came from, for a message.
    pub from: &'a str,
    /// All of it, as text.
    pub text: &'a str,
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
            let host = host.map_or(String::new(), |host| self.hosts.name(host));
            let sight = Sight {
                at: self.now,
                kind,
                host: &host,
                from: "",
                text: &text(),
            };
            witness.saw(&sight);
        }
    }

    /// A message with all that is in it.
    pub(super) fn show_message(&mut self, from: usize, to: usize, message: &Message) {
        if let Some(witness) = &mut self.witness {
            let (from, host) = (self.hosts.name(from), self.hosts.name(to));
            let sight = Sight {
                at: self.now,
                kind: "message",
                host: &host,
                from: &from,
                text: &format!("{}: {message:?}", message.name()),
            };
            witness.saw(&sight);
        }
    }

    /// A host's state after it heard something: what it holds, in full.
    pub(super) fn show_state(&mut self, host: usize) {
        let text = match self.hosts.is_node(host) {
            true => {
                let node = &self.nodes[host];
                let now = node.clock.read(self.now);
                let holder = node.node.as_ref().map(|node| node.holder());
                let (term, commit, applied) =
                    (node.log.term, node.log.commit, node.state.applied());
                format!(
                    "{now:?} term {term} commit {commit} applied {applied} office {} {holder:?}",
                    node.leader.in_office()
                )
            }
            false => {
                let service = &self.services[host - self.hosts.nodes];
                let now = service.clock.read(self.now);
                format!("{now:?} {:?}", service.client)
            }
        };
        self.show("state", Some(host), || text);
    }
}
