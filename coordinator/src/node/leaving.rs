//! Departure of this node: it takes no clients, and hands back all tokens.

use aliquot_core::node::Node;
use tokio::sync::oneshot;

/// The departure of this node, once it was asked to leave.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    begun: bool,
    /// Callers that wait until this node has left.
    callers: Vec<oneshot::Sender<()>>,
}

impl Leaving {
    /// Begins the departure. This node never serves clients again.
    pub(super) const fn begin(&mut self) {
        self.begun = true;
    }

    /// Returns true once this node was asked to leave.
    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Has a caller wait until this node has left.
    pub(super) fn wait(&mut self, reply: oneshot::Sender<()>) {
        self.callers.push(reply);
    }

    /// Returns true if a caller waits.
    pub(super) const fn is_awaited(&self) -> bool {
        !self.callers.is_empty()
    }

    /// Resolves the calls that wait if nothing is left to hand back.
    pub(super) fn resolve(&mut self, node: Option<&Node>) {
        if node.is_none_or(Node::has_left) {
            for reply in self.callers.drain(..) {
                let _ = reply.send(());
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/leaving.rs"]
mod tests;
