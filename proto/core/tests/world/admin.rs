//! Operators, and nodes that join: their requests to the log.

use super::World;
use super::net::NODES;
use aliquot_core::command::Command;
use aliquot_core::node::Node;
use aliquot_core::unit::{RequestId, Span};

/// Requests of operators and joining nodes to the log, repeated until they are done.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    next: u64,
    pub(crate) asked: Vec<(RequestId, Command)>,
}

impl World {
    pub(super) fn ask(&mut self, command: impl FnOnce(RequestId) -> Command) -> RequestId {
        self.admin.next += 1;
        let request = RequestId::new(self.admin.next);
        self.admin.asked.push((request, command(request)));
        request
    }

    pub(super) fn configure(&mut self) {
        let (drift, lease) = (self.plan.drift(), Span::from_millis(self.plan.lease_ms));
        self.ask(|_| Command::Configure { drift, lease });
    }

    /// Passes open requests to every node that believes to lead.
    pub(super) fn administer(&mut self) {
        // The budget is made once all nodes have joined, and one of them gets its tokens.
        let joined = self.nodes.iter().all(|node| node.node.is_some());
        if joined && self.load.budget_asked.is_none() {
            let budget = self.plan.budget(100);
            let creator = self.nodes[0].node.as_ref().map(Node::incarnation);
            self.load.budget_asked = Some(self.ask(|request| Command::PutRule {
                request,
                budget,
                creator,
            }));
        }
        let first: Vec<Command> = self
            .admin
            .asked
            .iter()
            .take(4)
            .map(|(_, command)| command.clone())
            .collect();
        for node in 0..NODES {
            if self.process(node).is_some() && self.paused(node).is_none() {
                for command in &first {
                    self.nodes[node].raft.propose(command.clone());
                }
                self.settle_raft(node);
            }
        }
    }
}
