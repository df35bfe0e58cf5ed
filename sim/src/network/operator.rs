//! Orders of operators, which are repeated at one node after the other until they are carried out.
//!
//! A node is let in and removed as by `aliquot cluster add`, `promote` and `remove`: the leader refuses a node that
//! asks to join and is not among its configured peers.

use super::node::Job;
use super::reach::{PEERS, name};
use super::{LOOK_EVERY, Network};
use aliquot_coordinator::node::{NodeHandle, View};
use aliquot_coordinator::raft::{Change, PeerAddress, Raft};
use aliquot_core::command::Command;
use aliquot_core::unit::NodeId;

/// An order of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Have a command applied.
    Write(Box<Command>),
    /// Let a node in, and give it a vote.
    Add(usize),
    /// Remove a node from the cluster.
    Remove(usize),
}

impl Order {
    /// Carries the order out at a node. Returns true once it is known to be carried out. It may be repeated.
    pub(super) async fn carry_out(&self, handle: &NodeHandle, raft: &Raft) -> bool {
        match self {
            Self::Write(command) => handle.write((**command).clone()).await.is_ok(),
            Self::Add(node) => add(raft, *node).await,
            Self::Remove(node) => {
                let id = *node as u64 + 1;
                let is_gone = move |view: &View<'_>| {
                    view.state.was_removed(NodeId::new(id)) && view.status.address(id).is_none()
                };
                handle.view(is_gone).await == Ok(true)
                    || raft.change(Change::Remove(id)).await.is_ok()
            }
        }
    }

    /// Returns true if the order is about this node. It is then given to another one.
    fn concerns(&self, node: usize) -> bool {
        match self {
            Self::Write(_) => false,
            Self::Add(of) | Self::Remove(of) => *of == node,
        }
    }
}

async fn add(raft: &Raft, node: usize) -> bool {
    let address = name(node, PEERS);
    let Ok(id) = raft.identify(&address).await else {
        return false;
    };
    let peer = PeerAddress { node: id, address };
    raft.change(Change::Add(peer)).await.is_ok() && raft.change(Change::Promote(id)).await.is_ok()
}

impl Network<'_> {
    /// Gives orders of operators to one node after the other, until they are carried out. A node that was removed
    /// while it ran is stopped then.
    pub(super) fn operate(&mut self) {
        const AGAIN: u64 = 20 * LOOK_EVERY;
        let done = self
            .node_hosts
            .iter()
            .flat_map(|node_host| std::mem::take(&mut node_host.lock().done));
        let done: Vec<Order> = done.collect();
        for (order, _) in self
            .orders
            .extract_if(.., |(order, _)| done.contains(order))
        {
            if let Order::Remove(node) = order {
                // Has no effect if it does not run any more.
                self.node_hosts[node].ask(Job::Leave);
            }
        }
        let now = self.now;
        for (order, at) in &mut self.orders {
            let takes = |node: &usize| self.fabric.is_up(*node) && !order.concerns(*node);
            let nodes: Vec<usize> = (0..self.hosts.nodes).filter(takes).collect();
            if nodes.is_empty() || (*at > 0 && now < *at + AGAIN) {
                continue;
            }
            let node = nodes[(now / AGAIN) as usize % nodes.len()];
            self.node_hosts[node].ask(Job::CarryOut(order.clone()));
            *at = now.max(1);
        }
    }
}
