//! Orders of operators, which are repeated at one node after the other until they are carried out.
//!
//! A node is let in and removed as by `aliquot cluster add`, `promote` and `remove`: the leader refuses a node that
//! asks to join and is not among its configured peers.

use super::reach::{PEERS, name};
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
    pub(super) fn concerns(&self, node: usize) -> bool {
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
