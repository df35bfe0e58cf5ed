//! Operators: they submit commands to the log, again and again until these are applied.

use super::World;
use aliquot_core::command::Command;
use aliquot_core::node::Node;
use aliquot_core::unit::{NodeId, Span};

impl World {
    pub(super) fn configure(&mut self) {
        let lease = &self.plan.scenario.lease;
        let (drift, lease) = (lease.drift, Span::from_nanos(lease.lease));
        self.operator
            .asked
            .push(Command::Configure { drift, lease });
    }

    /// Submits the budgets once all running nodes have joined, or after some time. One of the nodes is their
    /// creator and receives their tokens.
    fn write_first_budgets(&mut self) {
        const PATIENCE: u64 = 2_000_000_000;
        let up = self.nodes.iter().filter(|node| node.process.up);
        let joined = up.clone().all(|node| node.node.is_some());
        let creator = self
            .nodes
            .iter()
            .find_map(|node| node.node.as_ref().map(Node::incarnation));
        if self.operator.began || creator.is_none() || !(joined || self.now > PATIENCE) {
            return;
        }
        self.operator.began = true;
        let request = self.requests.next();
        let budgets = self.plan.scenario.budgets.iter();
        self.operator.asked.push(Command::Apply {
            request,
            deletes: Vec::new(),
            puts: budgets.map(|(_, budget)| budget.clone()).collect(),
            creator,
        });
    }

    /// Submits pending commands to every node that believes it leads.
    pub(super) fn operate(&mut self) {
        self.write_first_budgets();
        if self.operator.asked.is_empty() && self.operator.removes.is_empty() {
            return;
        }
        let first: Vec<Command> = self.operator.asked.iter().take(4).cloned().collect();
        for node in 0..self.hosts.nodes {
            if self.process(node).is_none()
                || self.paused(node).is_some()
                || !self.nodes[node].log.is_leader()
            {
                continue;
            }
            for command in &first {
                self.nodes[node].log.propose(command.clone());
            }
            for gone in self.operator.removes.clone() {
                let host = &mut self.nodes[node];
                let id = NodeId::new(gone as u64 + 1);
                if host.leader.is_ready() && host.log.propose(Command::Remove { node: id }) {
                    self.operator.removes.retain(|node| *node != gone);
                }
            }
            self.settle(node);
        }
    }
}
