//! Shows the oracle admissions, permits, and the state of all hosts at instants.

use super::coordinator::Coordinator;
use super::service::Service;
use super::{Message, World};
use crate::clock::{MS, SEC};
use crate::mark::Mark;
use crate::oracle::{Admission, Flight, Flown, Health, Right};
use aliquot_core::client::Mode;
use aliquot_core::node::Node;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, Tick, Tokens};
use aliquot_wire::Wire;

impl World {
    pub(super) fn admitted(&mut self, of: usize, admission: Admission, cost: u64) {
        self.show("admitted", Some(self.hosts.nodes + of), || {
            format!("{cost} of {}", admission.budget)
        });
        self.mark_admission(of, &admission);
        self.oracle.admitted(self.now, &admission);
        self.count_admitted(of, cost);
        self.inspect(of, &admission);
    }

    pub(super) fn count_admitted(&mut self, of: usize, cost: u64) {
        self.timeline.admitted(self.now, of, cost);
    }

    pub(super) fn refused(&mut self, of: usize, budget: Option<BudgetId>, cost: u64) {
        self.timeline.refused(self.now, of, cost);
        if let (Some(budget), Some((_, scale))) = (budget, self.services[of].budget) {
            let grains = scale.grains_per_token().saturating_mul(cost);
            self.oracle
                .refused(self.now, budget, Tokens::from_grains(grains));
        }
    }

    /// Checks that an admission under a lease belongs to a session for which its node still has something
    /// booked.
    fn inspect(&mut self, of: usize, admission: &Admission) {
        let service = &self.services[of];
        let now = service.clock.read(self.now);
        let leased = service.client.is_leased(now);
        let Some(edge) = admission.edge.filter(|_| admission.right == Right::Booked) else {
            return;
        };
        if !leased {
            self.marks.hit(Mark::AdmittedByFloor);
            return;
        }
        let Some(&node) = self.incarnations.get(&edge.parent) else {
            return;
        };
        let machine = self.nodes[node]
            .node
            .as_ref()
            .filter(|machine| machine.incarnation() == edge.parent);
        let Some(account) = machine.and_then(|machine| machine.account(admission.budget)) else {
            return;
        };
        // The rest of a quota's previous period is no longer booked, and the client may use it until it hears
        // of the new period.
        let former = admission.period < account.period();
        if account.holding(edge.child).is_zero() && !former {
            let (name, at) = (
                self.hosts.name(self.hosts.nodes + of),
                self.hosts.name(node),
            );
            self.oracle.disjoint.unbooked(self.now, || {
                format!("{name} admitted on {edge}, of which {at} had booked nothing any more")
            });
        }
    }

    pub(super) fn permit_taken(&mut self, of: usize, flight: Flight) {
        let service = &self.services[of];
        let Some((budget, _)) = service.budget else {
            return;
        };
        let (now, flown) = (self.now, (of, service.process.number, flight));
        self.land();
        self.timeline.admitted(now, of, 1);
        if let Some(checkers) = self.oracle.checkers(budget) {
            checkers.taken(now, flown);
        }
    }

    /// Ends the permits that are over, by their clients' own clocks.
    pub(super) fn land(&mut self) {
        let (services, now) = (&self.services, self.now);
        let over = |&(of, process, flight): &Flown| {
            let service: &Service = &services[of];
            let local = service.clock.read(now);
            let flies = match flight {
                Flight::Own(budget, permit) => {
                    service.client.allotments().any(|(id, allotment)| {
                        id == budget && allotment.permits().is_valid(permit, local)
                    })
                }
                Flight::Central(request) => service.requests.is_valid(request, local),
            };
            !flies || service.process.number != process || !service.process.up
        };
        for (budget, checkers) in self.oracle.of_permits() {
            let of = |service: &Service| service.budget.is_some_and(|(id, _)| id == budget);
            if services.iter().any(of) {
                checkers.landed(now, over);
            }
        }
    }

    /// Ends all permits of a process that has ended.
    pub(super) fn end_flights(&mut self, of: usize) {
        let flights = std::mem::take(&mut self.services[of].callers.flights);
        if !flights.is_empty() {
            self.land();
        }
    }

    pub(super) fn applied(&mut self, node: usize, index: u64, effects: &[Effect]) {
        if index > self.applied {
            self.applied = index;
            self.timeline.traffic.entries += 1;
            for effect in effects {
                self.mark_effect(effect);
            }
        }
        self.show("applied", Some(node), || {
            format!("entry {index}: {effects:?}")
        });
        // Permits may have expired since the last look. They no longer count against a limit that this entry
        // lowers.
        if index > self.oracle.latest_applied() {
            self.land();
        }
        let state = &self.nodes[node].state;
        self.oracle.applied(self.now, index, state, effects);
    }

    pub(super) fn most_applied(&self) -> usize {
        let nodes = 0..self.hosts.nodes;
        nodes
            .max_by_key(|&node| self.nodes[node].state.applied())
            .unwrap_or(0)
    }

    pub(super) fn look(&mut self) {
        let best = self.most_applied();
        self.look_at_parts(best);
        if self.now.is_multiple_of(200 * MS) {
            self.look_at_edges(best);
        }
        self.mark_vacancy();
        let health = self.health(best);
        let clients = self.services.len() - self.clones;
        let all = health.unleased.len() == clients && self.now > 10 * SEC;
        self.marks.hit_if(all, Mark::AllUnleased);
        let name = |host: usize| self.hosts.name(host);
        self.oracle.healing.look(self.now, &health, &name);
        self.healed = self.plan.may_end_early() && self.oracle.healing.is_over(self.now);
        if self.now.is_multiple_of(SEC) {
            self.note_second();
            self.show_books();
        }
        let breaks = &self.plan.scenario.run.breaks;
        let mut found = self
            .oracle
            .found()
            .filter_map(|found| found.breach.as_ref());
        self.stopped = found.any(|breach| !breaks.contains(&breach.invariant));
    }

    /// Shows the oracle the shares that all hosts believe they hold at this instant, for every rate budget.
    fn look_at_parts(&mut self, best: usize) {
        let now = self.now;
        let mut clients: Vec<(BudgetId, Share)> = Vec::with_capacity(self.services.len());
        for service in self.services.iter().filter(|service| service.process.up) {
            clients.extend(usable(service, service.clock.read(now)));
        }
        let pools = self.pools(best);
        let pools = pools.map(|node| &self.nodes[node]);
        let up = self.nodes.iter().filter(|host| host.process.up);
        let up = up.filter_map(|host| Some((host.node.as_ref()?, host.clock.read(now))));
        let leased: Vec<(&Node, Tick)> = up.filter(|(node, now)| node.is_leased(*now)).collect();
        for (budget, generation) in self.nodes[best].state.budgets() {
            if generation.budget.kind() != Kind::Rate {
                continue;
            }
            let pool = pools.and_then(|host| host.leader.pool(budget).map(|pool| (host, pool)));
            let pool = pool.map(|(host, pool)| pool.share_at(host.clock.read(now)));
            let nodes = leased.iter().map(|(node, now)| node.undealt(budget, *now));
            let of = clients.iter().filter(|(of, _)| *of == budget);
            let parts = pool
                .into_iter()
                .chain(nodes)
                .chain(of.map(|(_, share)| *share));
            if let Some(checkers) = self.oracle.checkers(budget) {
                checkers.believed(now, parts);
            }
        }
    }

    /// Returns the node whose pools count: the leader of the latest term, if it has applied all entries.
    fn pools(&self, best: usize) -> Option<usize> {
        let latest = self.nodes[best].state.applied();
        let leader = self.leader();
        leader.filter(|&node| self.nodes[node].state.applied() == latest)
    }

    fn look_at_edges(&mut self, best: usize) {
        let now = self.now;
        for host in &self.nodes {
            let Some(node) = &host.node else { continue };
            let (holder, incarnation) = (node.holder(), node.incarnation());
            for (budget, counters) in holder.counters() {
                self.oracle.edges.seen(now, holder.edge(), budget, counters);
                let generation = self.nodes[best].state.budget(budget);
                if let Some(generation) = generation
                    && generation
                        .account
                        .open()
                        .any(|(open, _)| open == incarnation)
                {
                    let committed = generation.account.counters(incarnation);
                    if committed.period == counters.period {
                        self.oracle.commits.given(
                            now,
                            incarnation,
                            budget,
                            counters.given,
                            committed.given,
                        );
                    }
                }
            }
        }
        for service in &self.services[..self.services.len() - self.clones] {
            let Some(holder) = service.client.holder() else {
                continue;
            };
            for (budget, counters) in holder.counters() {
                self.oracle.edges.seen(now, holder.edge(), budget, counters);
            }
        }
    }

    fn health(&self, best: usize) -> Health {
        let is_ready = |node: &&Coordinator| node.process.up && node.leader.is_ready();
        let incarnations: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|host| host.node.as_ref())
            .map(|node| node.incarnation())
            .collect();
        let members = self.nodes[best].state.members();
        let clients = self.services[..self.services.len() - self.clones]
            .iter()
            .enumerate();
        let unleased = clients.filter(|(_, service)| {
            let now = service.clock.read(self.now);
            service.process.up && !service.leaving && !service.client.is_leased(now)
        });
        Health {
            leaders: self.nodes.iter().filter(is_ready).count(),
            unleased: unleased.map(|(of, _)| self.hosts.nodes + of).collect(),
            orphans: members
                .filter(|(incarnation, _)| !incarnations.contains(incarnation))
                .count(),
        }
    }

    /// Records, once a second, clock errors and whether the limit is fully used.
    fn note_second(&mut self) {
        const CLIENTS_SHOWN: usize = 3;
        let hosts = self.hosts.nodes + self.hosts.clients.len().min(CLIENTS_SHOWN);
        for host in 0..hosts {
            let boot = match self.hosts.is_node(host) {
                true => &self.nodes[host].clock,
                false => &self.services[host - self.hosts.nodes].clock,
            };
            if self.skew_from.len() == host {
                self.skew_from.push((self.now, boot.boot(self.now)));
                self.timeline
                    .skews
                    .push((self.hosts.name(host), Vec::new()));
            }
            let skew = boot.skew(self.now, self.skew_from[host]);
            self.timeline.skews[host].1.push(skew);
        }
        for key in self.timeline.keys.iter().filter(|key| key.is_rate) {
            let last: u64 = key.bins.iter().rev().take(10).map(|bin| bin.admitted).sum();
            if last as f64 >= 0.99 * key.limit {
                self.marks.hit(Mark::FullUse);
            }
        }
    }

    pub(super) fn count_message(&mut self, from: usize, to: usize, message: &Message) {
        if from == to {
            return;
        }
        let traffic = &mut self.timeline.traffic;
        traffic.messages += 1;
        let of_client = !self.hosts.is_node(from) || !self.hosts.is_node(to);
        if !self.hosts.is_node(from) {
            traffic.of_clients += 1;
        }
        if self.measures_bytes {
            let bytes = size(message);
            traffic.bytes += bytes;
            if of_client {
                traffic.client_bytes += bytes;
            }
        }
    }
}

/// Returns the shares by which a client would admit at this instant, where a lease or a floor covers them.
fn usable(service: &Service, now: Tick) -> impl Iterator<Item = (BudgetId, Share)> {
    let leased = service.client.is_leased(now);
    let usable = move |mode: &Mode| match mode {
        Mode::Leased => leased,
        Mode::Floor(until) => now < *until,
        _ => false,
    };
    let all = service.client.allotments();
    all.filter(move |(_, allotment)| usable(allotment.mode()))
        .map(move |(budget, allotment)| (budget, allotment.share_at(now)))
}

/// Returns the encoded size of a message in bytes, without transport overhead.
fn size(message: &Message) -> u64 {
    use super::log::LogMessage;
    use aliquot_wire::log::LogEntry;
    let bytes = match message {
        Message::Report { report, .. } | Message::ClientReport(report) => report.to_bytes().len(),
        Message::Answer { answer, .. } | Message::ClientAnswer(answer) => answer.to_bytes().len(),
        Message::Log(LogMessage::Append { entries, .. }) => {
            let entry = |entry: &super::log::Entry| {
                let command = entry.command.as_deref().cloned();
                LogEntry { command }.to_bytes().len()
            };
            32 + entries.iter().map(entry).sum::<usize>()
        }
        Message::Propose(command) => LogEntry {
            command: Some((**command).clone()),
        }
        .to_bytes()
        .len(),
        Message::DecisionRequest(_) | Message::DecisionReply(_) | Message::Release(_) => 40,
        Message::Log(_)
        | Message::Open { .. }
        | Message::Opened { .. }
        | Message::Name { .. }
        | Message::Named { .. } => 32,
        Message::Move | Message::Reset => 0,
    };
    bytes as u64
}
