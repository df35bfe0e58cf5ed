//! Inspects all hosts and reports their state to the observer.

use super::service::{Session, is_booked, share_of};
use super::{LOOK_EVERY, Network};
use crate::clock::SEC;
use crate::mark::Mark;
use crate::oracle::Health;
use aliquot_client::Limiter;
use aliquot_core::share::Share;
use aliquot_core::unit::BudgetId;

impl Network<'_> {
    /// Inspects all hosts at this instant.
    pub(super) fn look(&mut self) {
        let now = self.now;
        self.follow_leader();
        self.look_at_callers();
        let mut parts = self.held_by_nodes();
        let keys = 0..self.observer.keys().keys.len();
        let budgets: Vec<_> = keys.map(|key| self.budget_of(key)).collect();
        for client_host in &self.client_hosts {
            for (key, limiter) in &client_host.lock().limiters {
                if let Some((budget, _)) = budgets[*key]
                    && is_booked(limiter.peek().state)
                {
                    parts.push((budget, share_of(limiter)));
                }
            }
        }
        self.observer.believed(now, &self.state, parts, |_| true);
        self.look_at_edges();
        (0..self.client_hosts.len()).for_each(|client| self.follow_client(client));
        let is_cut = self.leader.is_some_and(|leader| self.is_cut_off(leader));
        self.observer.led_by(now, self.leader, is_cut);
        let health = self.health();
        self.observer.inspected(now, &health);
        if now.is_multiple_of(SEC) {
            for host in 0..self.observer.clocks_shown() {
                self.fabric.hosts[host].with_clock(|clock| self.observer.clock(now, host, clock));
            }
        }
        self.show_states();
    }

    /// Reports the permits in flight, and the callers of closed loops that wait.
    fn look_at_callers(&mut self) {
        let now = self.now;
        let mut permits = vec![0; self.observer.keys().keys.len()];
        for key in self.event_log.held_keys() {
            permits[key] += 1;
        }
        self.observer
            .held(now, permits.into_iter().enumerate(), LOOK_EVERY);
        for client in 0..self.client_hosts.len() {
            for (key, waiting) in self.client_hosts[client].waiting() {
                self.observer
                    .waited(now, (client, key), (waiting, LOOK_EVERY));
            }
        }
    }

    /// Updates the current leader: among the ready leaders, the one of the latest term.
    fn follow_leader(&mut self) {
        let is_ready = |node: &usize| {
            self.fabric.is_up(*node) && self.node_hosts[*node].lock().snapshot.is_ready
        };
        let ready: Vec<usize> = (0..self.hosts.nodes).filter(is_ready).collect();
        let term = |node: &usize| self.node_hosts[*node].lock().snapshot.term;
        let leader = ready.iter().copied().max_by_key(term);
        if leader == self.leader {
            return;
        }
        if let Some(former) = self.leader {
            let deposed = self.fabric.is_up(former) && !ready.contains(&former);
            self.observer.marks.hit_if(deposed, Mark::LeaderDeposed);
        }
        if let Some(leader) = leader {
            self.observer.became_ready(self.now, leader, ready.len());
            self.observer
                .show(self.now, "ready", Some(leader), String::new);
        }
        self.leader = leader;
    }

    /// Returns true if the leader reaches no quorum.
    fn is_cut_off(&self, leader: usize) -> bool {
        let nodes = 0..self.hosts.nodes;
        let reached = nodes.filter(|&node| self.fabric.joined(leader, node));
        2 * reached.count() <= self.hosts.nodes
    }

    /// Returns what nodes hold and have not passed on, and what the leader has not granted.
    fn held_by_nodes(&self) -> Vec<(BudgetId, Share)> {
        let mut parts = Vec::new();
        for node in (0..self.hosts.nodes).filter(|&node| self.fabric.is_up(node)) {
            let node_host = self.node_hosts[node].lock();
            let snapshot = &node_host.snapshot;
            // A node that is starting or stopping has not answered this look, so it is left out.
            if snapshot.at != self.now {
                continue;
            }
            if snapshot.leased {
                parts.extend(&snapshot.ungranted);
            }
            if self.leader == Some(node) && snapshot.applied == self.effects.len() as u64 {
                parts.extend(&snapshot.pool);
            }
        }
        parts
    }

    fn look_at_edges(&mut self) {
        for node_host in &self.node_hosts {
            let node_host = node_host.lock();
            let snapshot = &node_host.snapshot;
            let (Some(edge), Some(incarnation)) = (snapshot.edge, snapshot.incarnation) else {
                continue;
            };
            if snapshot.at == self.now {
                let unleased = !snapshot.leased && !snapshot.counters.is_empty();
                self.observer.marks.hit_if(unleased, Mark::NodeWithoutLease);
                let committed = Some((incarnation, &self.state));
                let counters = snapshot.counters.iter().copied();
                self.observer.counted(self.now, edge, committed, counters);
            }
        }
    }

    /// Counts marks of a client's session since the last inspection.
    fn follow_client(&mut self, client: usize) {
        let client_host = &self.client_hosts[client];
        let (edge, lease) = client_host.edge();
        let process = client_host.lock().process;
        let now = Session {
            process,
            edge,
            leased: !lease.is_zero(),
        };
        let before = std::mem::replace(&mut self.sessions[client], now);
        let marks = &mut self.observer.marks;
        let reborn = before.process != process;
        marks.hit_if(reborn && before.process > 0, Mark::ClientRestarted);
        marks.hit_if(now.leased && (reborn || !before.leased), Mark::LeaseBegan);
        if reborn {
            return;
        }
        let moved = edge.is_some() && before.edge.is_some_and(|before| edge != Some(before));
        marks.hit_if(moved, Mark::SessionMoved);
        if before.leased && !now.leased && client_host.lock().up {
            let host = self.hosts.nodes + client;
            let parent = before.edge.map(|edge| edge.parent);
            let node = parent.and_then(|parent| self.observer.node_of(parent));
            let cut = node.is_some_and(|node| !self.fabric.joined(host, node));
            let paused = self.fabric.hosts[host].frozen().is_some();
            let marks = &mut self.observer.marks;
            marks.hit(Mark::ClientLapsed);
            marks.hit_if(paused, Mark::LapsedInPause);
            marks.hit_if(cut, Mark::LapsedWhileCut);
        }
    }

    fn health(&self) -> Health {
        let up = (0..self.hosts.nodes).filter(|&node| self.fabric.is_up(node));
        let incarnations: Vec<_> = up
            .clone()
            .filter_map(|node| self.node_hosts[node].lock().snapshot.incarnation)
            .collect();
        let leased = |client: usize| {
            let client = self.client_hosts[client].session();
            client
                .as_ref()
                .is_some_and(|client| !client.status().lease.is_zero())
        };
        let clients =
            (0..self.client_hosts.len()).filter(|&client| self.client_hosts[client].lock().up);
        Health {
            leaders: up
                .filter(|&node| self.node_hosts[node].lock().snapshot.is_ready)
                .collect(),
            unleased: clients
                .filter(|&client| !leased(client))
                .map(|client| self.hosts.nodes + client)
                .collect(),
            orphans: self
                .state
                .members()
                .filter(|(incarnation, _)| !incarnations.contains(incarnation))
                .map(|(_, member)| member.node.get() as usize - 1)
                .collect(),
        }
    }

    /// Shows the tracer the state of every host.
    fn show_states(&mut self) {
        if !self.observer.is_traced() {
            return;
        }
        for node in 0..self.hosts.nodes {
            let text = format!("{:?}", self.node_hosts[node].lock().snapshot);
            self.observer.show(self.now, "state", Some(node), || text);
        }
        for client in 0..self.client_hosts.len() {
            let limiters: Vec<Limiter> = {
                let inner = self.client_hosts[client].lock();
                inner.limiters.values().cloned().collect()
            };
            let status = self.client_hosts[client]
                .session()
                .as_ref()
                .map(aliquot_client::Client::status);
            let peeks: Vec<_> = limiters.iter().map(Limiter::peek).collect();
            let text = match &peeks[..] {
                peeks @ ([] | [_]) => format!("{status:?} {:?}", peeks.first()),
                peeks => format!("{status:?} {peeks:?}"),
            };
            let host = self.hosts.nodes + client;
            self.observer.show(self.now, "state", Some(host), || text);
        }
    }
}
