//! Inspects all hosts and shows the oracle their state.

use super::service::is_booked;
use super::{Network, SEC};
use crate::mark::Mark;
use crate::oracle::Health;
use aliquot_core::share::Share;
use aliquot_core::unit::BudgetId;

impl Network<'_> {
    /// Inspects all hosts at this instant.
    pub(super) fn look(&mut self) {
        self.follow_leader();
        let budgets: Vec<BudgetId> = self.state.budgets().map(|(budget, _)| budget).collect();
        for budget in budgets {
            let mut parts = self.held_by_nodes(budget);
            for client in 0..self.client_hosts.len() {
                if self.budget_of(client).is_some_and(|(of, _)| of == budget) {
                    let limiter = self.client_hosts[client].lock().limiter.clone();
                    let booked = limiter.filter(|limiter| is_booked(limiter.peek().right));
                    parts.extend(booked.map(|limiter| limiter.share()));
                }
            }
            let now = self.now;
            if let Some(checkers) = self.oracle.checkers(budget) {
                checkers.believed(now, parts.into_iter());
            }
        }
        self.look_at_edges();
        let health = self.health();
        if health.unleased.len() == self.client_hosts.len() && self.now > 10 * SEC {
            self.marks.hit(Mark::AllUnleased);
        }
        let name = |host: usize| self.hosts.name(host);
        self.oracle.healing.look(self.now, &health, &name);
        self.healed = self.plan.may_end_early() && self.oracle.healing.is_over(self.now);
        if self.now.is_multiple_of(SEC) {
            self.note_second();
        }
        self.show_states();
        let breaks = &self.plan.scenario.run.breaks;
        let mut found = self
            .oracle
            .found()
            .filter_map(|found| found.breach.as_ref());
        self.stopped |= found.any(|breach| !breaks.contains(&breach.invariant));
    }

    /// Updates the current leader: among the ready leaders, the one of the latest term.
    fn follow_leader(&mut self) {
        let is_ready = |node: &usize| {
            self.fabric.is_up(*node) && self.node_hosts[*node].lock().snapshot.is_ready
        };
        let leading = (0..self.hosts.nodes).filter(is_ready);
        let leader = leading.max_by_key(|&node| self.node_hosts[node].lock().snapshot.term);
        if leader != self.leader {
            if let Some(leader) = leader {
                if !self.timeline.ready_leaders.is_empty() {
                    self.marks.hit(Mark::LeaderChanged);
                }
                self.timeline.became_ready(self.now, leader);
                self.show("office", Some(leader), String::new);
            }
            self.leader = leader;
        }
    }

    /// Returns what nodes hold and have not passed on, and what the leader has not granted.
    fn held_by_nodes(&self, budget: BudgetId) -> Vec<Share> {
        let mut parts = Vec::new();
        let of = |shares: &[(BudgetId, Share)]| {
            let found = shares.iter().find(|(of, _)| *of == budget);
            found.map(|(_, share)| *share)
        };
        for node in (0..self.hosts.nodes).filter(|&node| self.fabric.is_up(node)) {
            let node_host = self.node_hosts[node].lock();
            let snapshot = &node_host.snapshot;
            // A node that is starting or stopping has not answered this look, so it is left out.
            if snapshot.at != self.now {
                continue;
            }
            if snapshot.leased {
                parts.extend(of(&snapshot.undealt));
            }
            if self.leader == Some(node) && snapshot.applied == self.effects.len() as u64 {
                parts.extend(of(&snapshot.pool));
            }
        }
        parts
    }

    fn look_at_edges(&mut self) {
        let now = self.now;
        for node_host in &self.node_hosts {
            let node_host = node_host.lock();
            let snapshot = &node_host.snapshot;
            let (Some(edge), Some(incarnation)) = (snapshot.edge, snapshot.incarnation) else {
                continue;
            };
            if snapshot.at != now {
                continue;
            }
            for (budget, counters) in &snapshot.counters {
                self.oracle.edges.seen(now, edge, *budget, counters);
                let Some(generation) = self.state.budget(*budget) else {
                    continue;
                };
                if generation
                    .account
                    .open()
                    .any(|(open, _)| open == incarnation)
                {
                    let committed = generation.account.counters(incarnation);
                    if committed.period == counters.period {
                        let given = (counters.given, committed.given);
                        self.oracle
                            .commits
                            .given(now, incarnation, *budget, given.0, given.1);
                    }
                }
            }
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
                .count(),
            unleased: clients
                .filter(|&client| !leased(client))
                .map(|client| self.hosts.nodes + client)
                .collect(),
            orphans: self
                .state
                .members()
                .filter(|(incarnation, _)| !incarnations.contains(incarnation))
                .count(),
        }
    }

    /// Records, once a second, clock errors and whether the limit is fully used.
    fn note_second(&mut self) {
        const CLIENTS_SHOWN: usize = 3;
        let hosts = self.hosts.nodes + self.hosts.clients.len().min(CLIENTS_SHOWN);
        for host in 0..hosts {
            let now = self.now;
            if self.skew_from.len() == host {
                let shows = self.fabric.hosts[host].with_clock(|clock| clock.boot(now));
                self.skew_from.push((now, shows));
                self.timeline
                    .skews
                    .push((self.hosts.name(host), Vec::new()));
            }
            let from = self.skew_from[host];
            let skew = self.fabric.hosts[host].with_clock(|clock| clock.skew(now, from));
            self.timeline.skews[host].1.push(skew);
        }
        for key in self.timeline.keys.iter().filter(|key| key.is_rate) {
            let last: u64 = key.bins.iter().rev().take(10).map(|bin| bin.admitted).sum();
            if last as f64 >= 0.99 * key.limit {
                self.marks.hit(Mark::FullUse);
            }
        }
    }

    /// Shows the tracer the state of every host.
    fn show_states(&mut self) {
        if self.tracer.is_none() {
            return;
        }
        for node in 0..self.hosts.nodes {
            let text = format!("{:?}", self.node_hosts[node].lock().snapshot);
            self.show("state", Some(node), || text);
        }
        for client in 0..self.client_hosts.len() {
            let limiter = self.client_hosts[client].lock().limiter.clone();
            let status = self.client_hosts[client]
                .session()
                .as_ref()
                .map(aliquot_client::Client::status);
            let text = format!("{status:?} {:?}", limiter.map(|limiter| limiter.peek()));
            self.show("state", Some(self.hosts.nodes + client), || text);
        }
    }
}
