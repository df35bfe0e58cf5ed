//! Balancing of clients between nodes, and their departure from a node that leaves.

use super::context::Context;
use super::presence::latest_presences;
use crate::gossip::Book;
use crate::session::Registry;
use aliquot_core::node::Node;
use aliquot_core::rebalance::{Rebalancer, ServingNode};
use aliquot_core::state::State;
use aliquot_core::unit::{Incarnation, Span, Tick};

/// Sends clients to other nodes.
#[derive(Debug)]
pub(super) struct Balance {
    rebalancer: Rebalancer,
    rebalanced: Tick,
}

/// Interval at which sessions are balanced between nodes.
const REBALANCE: Span = Span::from_secs(1);

/// At each tick, a leaving node asks one in this many of its clients to move: all of them within half a
/// second, but never all at once.
const LEAVE_ONE_IN: usize = 8;

impl Balance {
    pub(super) fn new() -> Self {
        Self {
            rebalancer: Rebalancer::new(Incarnation::default()),
            rebalanced: Tick::ZERO,
        }
    }

    /// Starts anew for another incarnation of this node, which has no sessions yet.
    pub(super) fn begin_incarnation(&mut self, incarnation: Incarnation) {
        self.rebalancer = Rebalancer::new(incarnation);
    }

    /// Notes that an incarnation announced its number of sessions.
    pub(super) fn hear(&mut self, incarnation: Incarnation, now: Tick) {
        self.rebalancer.note_announced(incarnation, now);
    }

    /// Asks clients to move: some if other nodes have fewer, and all of them while this node leaves.
    pub(super) fn keep(
        &mut self,
        (node, leaving): (Option<&Node>, bool),
        registry: &mut Registry,
        book: &Book,
        state: &State,
        context: &mut Context,
    ) {
        let due = context.now.since(self.rebalanced) >= REBALANCE;
        if due {
            self.rebalanced = context.now;
        }
        match (leaving, due) {
            (false, true) => {
                let others = self.serving_nodes(book, state, context);
                let holds_permits = |client| node.is_some_and(|node| node.holds_permits(client));
                self.rebalance(&others, registry, context, holds_permits);
            }
            (false, false) => {}
            (true, due) => {
                if due {
                    // A client that could not connect to the node that it was sent to is sent to
                    // another one.
                    registry.forget_asked();
                }
                let others = self.serving_nodes(book, state, context);
                redirect(&others, registry, context.now);
            }
        }
    }

    fn rebalance(
        &mut self,
        others: &[ServingNode<String>],
        registry: &mut Registry,
        context: &mut Context,
        holds_permits: impl Fn(Incarnation) -> bool,
    ) {
        let own = registry.own_sessions(context.now, &holds_permits);
        for redirect in self.rebalancer.round(own, others) {
            let count = usize::try_from(redirect.sessions).unwrap_or(usize::MAX);
            let asked = registry.ask_to_move(count, &redirect.address, context.now, &holds_permits);
            context.counts.moved += asked as u64;
            tracing::debug!(asked, to = %redirect.address, "clients were asked to move");
        }
    }

    /// Returns the other nodes that take clients now and sent something lately.
    fn serving_nodes(
        &self,
        book: &Book,
        state: &State,
        context: &Context,
    ) -> Vec<ServingNode<String>> {
        let mut latest = latest_presences(book, state);
        latest.remove(&context.options.node);
        let nodes = latest.into_values();
        let mut nodes: Vec<ServingNode<String>> = nodes
            .filter(|presence| !presence.address.is_empty())
            .filter(|presence| {
                self.rebalancer
                    .is_reachable(presence.incarnation, context.now)
            })
            .map(|presence| ServingNode {
                incarnation: presence.incarnation,
                address: presence.address,
                sessions: presence.sessions,
            })
            .collect();
        nodes.sort_unstable_by_key(|node| node.incarnation);
        nodes
    }
}

/// Asks the clients of a leaving node to move, spread over the other nodes.
fn redirect(nodes: &[ServingNode<String>], registry: &mut Registry, now: Tick) {
    let batch = (registry.connected() / LEAVE_ONE_IN).max(4);
    for node in nodes {
        let count = batch.div_ceil(nodes.len());
        registry.ask_to_move(count, &node.address, now, |_| false);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/balance.rs"]
mod tests;
