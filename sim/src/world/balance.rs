//! Balancing of clients between nodes: the core's rule, fed by what nodes tell of their sessions.
//!
//! The number of a node's sessions goes with its reports. A real node publishes it once a second, and when it
//! changes, by the same gossip.

use super::World;
use super::event::Message;
use super::host::Coordinator;
use crate::clock::MS;
use crate::mark::Mark;
use aliquot_core::rebalance::{OwnSessions, Rebalancer, ServingNode};
use aliquot_core::unit::{Incarnation, NodeId, Span, Tick};
use std::collections::BTreeMap;

impl Coordinator {
    /// Returns the number of sessions that this node tells other nodes; `None` while it takes no clients.
    pub(super) fn announced(&self, now: Tick) -> Option<u64> {
        let machine = self.node.as_ref()?;
        let takes = machine.is_leased(now) && !self.departs;
        takes.then(|| self.connected().count() as u64)
    }

    /// Returns the sessions that are in use, each with its client.
    fn connected(&self) -> impl Iterator<Item = (Incarnation, usize)> {
        let ledger = self.node.as_ref().map(|machine| machine.ledger());
        let sessions = self
            .sessions
            .iter()
            .map(|(child, client)| (*child, *client));
        sessions.filter(move |(child, _)| {
            let child = ledger.and_then(|ledger| ledger.child(*child));
            child.is_some_and(|child| !child.is_leaving() && !child.is_fenced())
        })
    }

    /// Returns the sessions of clients that were not asked to move within `span`.
    fn staying(&self, now: Tick, span: Span) -> impl Iterator<Item = (Incarnation, usize)> {
        let stays = move |(child, _): &(Incarnation, usize)| {
            let asked = self.balance.asked.get(child);
            asked.is_none_or(|at| now.since(*at) >= span)
        };
        self.connected().filter(stays)
    }

    /// Returns the sessions that may be asked to move now, each with its client: those that hold no permits first.
    fn movable(&self, now: Tick) -> Vec<(Incarnation, usize)> {
        let stays = self.staying(now, Rebalancer::ASK_AGAIN);
        let mut movable: Vec<(Incarnation, usize)> = stays.collect();
        movable.sort_by_key(|(child, _)| self.holds_permits(*child));
        movable
    }

    fn holds_permits(&self, child: Incarnation) -> bool {
        let machine = self.node.as_ref();
        machine.is_some_and(|machine| machine.holds_permits(child))
    }

    fn own_sessions(&self, now: Tick) -> OwnSessions {
        let movable = self.staying(now, Rebalancer::ASK_AGAIN);
        let free = movable.filter(|(child, _)| !self.holds_permits(*child));
        OwnSessions {
            staying: self.staying(now, Rebalancer::GOES_WITHIN).count() as u64,
            without_permits: free.count() as u64,
        }
    }

    /// Returns the other nodes that take clients and were heard from lately, each in its latest incarnation.
    fn serving_nodes(&self, own: Incarnation, now: Tick) -> Vec<ServingNode<usize>> {
        let node_of = |incarnation| Some(self.state.member(incarnation)?.node);
        let mut latest: BTreeMap<NodeId, (Incarnation, Option<u64>)> = BTreeMap::new();
        for (incarnation, (_, sessions)) in &self.balance.sessions_by_incarnation {
            if let Some(node) = node_of(*incarnation) {
                latest.insert(node, (*incarnation, *sessions));
            }
        }
        let own = node_of(own);
        let others = latest.into_iter().filter(|(node, _)| Some(*node) != own);
        let mut serving: Vec<ServingNode<usize>> = others
            .filter(|(_, (incarnation, _))| self.balance.rebalancer.is_reachable(*incarnation, now))
            .filter_map(|(node, (incarnation, sessions))| {
                Some(ServingNode {
                    incarnation,
                    address: node.get() as usize - 1,
                    sessions: sessions?,
                })
            })
            .collect();
        serving.sort_unstable_by_key(|node| node.incarnation);
        serving
    }
}

impl World {
    /// Interval at which a node balances its sessions.
    const REBALANCE: Span = Span::from_secs(1);

    /// A client that is asked to move begins to within this time, at a random instant.
    const MOVE_SPREAD: u64 = 200 * MS;

    /// Asks clients to move to nodes that have fewer, once a second.
    pub(super) fn balance(&mut self, node: usize, now: Tick) {
        let host = &mut self.nodes[node];
        let last = host.balance.rebalanced;
        let due = last.is_none_or(|last| now.since(last) >= Self::REBALANCE);
        let Some(machine) = host.node.as_ref().filter(|_| due && !host.departs) else {
            return;
        };
        let own = machine.incarnation();
        let others = host.serving_nodes(own, now);
        let sessions = host.own_sessions(now);
        host.balance.rebalanced = Some(now);
        let redirects = host.balance.rebalancer.round(sessions, &others);
        for redirect in redirects {
            let host = &mut self.nodes[node];
            let movable = host.movable(now);
            let chosen = movable.into_iter().take(redirect.sessions as usize);
            for (child, client) in chosen {
                self.nodes[node].balance.asked.insert(child, now);
                let to = Some(redirect.address);
                self.send(node, client, Message::Move { to });
            }
        }
    }

    /// Handles a node's request to move to another one.
    pub(super) fn redirected(&mut self, of: usize, to: usize, now: Tick) {
        self.observer.marks.hit(Mark::ClientRedirected);
        let spread = self.choice(of).range(0, Self::MOVE_SPREAD);
        let when = now.after(Span::from_nanos(spread));
        self.services[of].selection.redirect(to, when);
        self.look_within(of, spread);
    }
}
