//! Reports admissions, permits, entries, and the state of all hosts at instants to the observer.

use super::World;
use super::event::Message;
use super::host::{Coordinator, Service};
use crate::clock::{MS, SEC};
use crate::observer::{Applied, Basis};
use crate::oracle::{Admission, Flight, Flown, Health, Right};
use aliquot_core::client::Mode;
use aliquot_core::command::Command;
use aliquot_core::node::Node;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, Tick, Tokens};
use aliquot_wire::Wire;

impl World {
    pub(super) fn admitted(&mut self, of: usize, admission: Admission, cost: u64) {
        let (now, host) = (self.now, self.hosts.nodes + of);
        self.observer.show(now, "admitted", Some(host), || {
            format!("{cost} of {}", admission.budget)
        });
        let basis = self.basis(of, &admission);
        self.observer.admitted(now, (of, cost), &admission, basis);
        if let Some(Basis::Lease { .. }) = basis {
            self.inspect(of, &admission);
        }
    }

    pub(super) fn refused(&mut self, of: usize, budget: Option<BudgetId>, cost: u64) {
        let service = &self.services[of];
        let scale = |budget| {
            let key = service.keys.get(&budget)?;
            service.budget(*key).map(|(_, scale)| scale)
        };
        let grains = budget.and_then(|budget| Some((budget, scale(budget)?)));
        let grains = grains.map(|(budget, scale)| {
            let grains = scale.grains_per_token().saturating_mul(cost);
            (budget, Tokens::from_grains(grains))
        });
        self.observer.refused(self.now, Some(of), grains);
    }

    /// Returns the source of a booked right.
    fn basis(&self, of: usize, admission: &Admission) -> Option<Basis> {
        if admission.right != Right::Booked {
            return None;
        }
        let Some(edge) = admission.edge else {
            return Some(Basis::FormerFloor);
        };
        let service = &self.services[of];
        let now = service.clock.read(self.now);
        if !service.client.is_leased(now) {
            return Some(Basis::Floor);
        }
        let until = service.client.holder()?.lease().until();
        let node = self.incarnations.get(&edge.parent).copied();
        let host = self.hosts.nodes + of;
        let is_cut = |node| self.net.is_harmed() && !self.net.reaches(host, node);
        Some(Basis::Lease {
            node,
            left: until.since(now),
            node_is_up: node.is_some_and(|node| self.nodes[node].process.up),
            is_cut: node.is_some_and(is_cut),
        })
    }

    /// Checks that an admission under a lease belongs to a session for which its node still has something
    /// booked.
    fn inspect(&mut self, of: usize, admission: &Admission) {
        let Some(edge) = admission.edge else { return };
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
            self.observer.oracle.disjoint.unbooked(self.now, || {
                format!("{name} admitted on {edge}, of which {at} had booked nothing any more")
            });
        }
    }

    pub(super) fn permit_taken(&mut self, of: usize, key: usize, flight: Flight) {
        let service = &self.services[of];
        let Some((budget, _)) = service.budget(key) else {
            return;
        };
        let (now, flown) = (self.now, (of, service.process.number, flight));
        let over = permit_over(&self.services, now);
        self.observer
            .permit_taken(now, (of, Some(budget)), flown, over);
    }

    /// Ends the permits that are over, by their clients' own clocks.
    pub(super) fn land(&mut self) {
        let over = permit_over(&self.services, self.now);
        self.observer.land(self.now, over);
    }

    /// Ends all permits of a process that has ended.
    pub(super) fn end_flights(&mut self, of: usize) {
        let flights = std::mem::take(&mut self.services[of].callers.flights);
        if !flights.is_empty() {
            self.land();
        }
    }

    /// Reports the entry that a node has just applied.
    pub(super) fn applied(&mut self, node: usize, command: Option<&Command>, effects: &[Effect]) {
        let nodes = &self.nodes;
        let runs = |incarnation| {
            let mut up = nodes.iter().filter(|host| host.process.up);
            up.any(|host| host.node.as_ref().map(Node::incarnation) == Some(incarnation))
        };
        let applied = Applied {
            node,
            index: nodes[node].state.applied(),
            command,
            effects,
            state: &nodes[node].state,
        };
        let over = permit_over(&self.services, self.now);
        self.observer.applied(self.now, applied, runs, over);
    }

    pub(super) fn most_applied(&self) -> usize {
        let nodes = 0..self.hosts.nodes;
        nodes
            .max_by_key(|&node| self.nodes[node].state.applied())
            .unwrap_or(0)
    }

    /// Inspects all hosts at this instant.
    pub(super) fn look(&mut self) {
        let (now, best) = (self.now, self.most_applied());
        self.look_at_callers();
        let budgets = self.nodes[best].state.budgets().len();
        let slice = Slice::new(budgets, now / Self::INSPECT_EVERY);
        let parts = self.parts(best, slice);
        let state = &self.nodes[best].state;
        self.observer
            .believed(now, state, parts, |budget| slice.has(budget));
        if now.is_multiple_of(200 * MS) {
            self.look_at_edges(best, Slice::new(budgets, now / (200 * MS)));
        }
        let leader = self.leader();
        let is_cut = leader.is_some_and(|leader| self.is_cut_off(leader));
        self.observer.led_by(now, leader, is_cut);
        let health = self.health(best);
        self.observer.inspected(now, &health);
        if now.is_multiple_of(SEC) {
            self.note_clocks();
            self.show_books();
        }
    }

    /// Reports the permits in flight, and the callers of closed loops that wait.
    fn look_at_callers(&mut self) {
        let (now, span) = (self.now, Self::INSPECT_EVERY);
        let up = |service: &&Service| service.process.up;
        let over = permit_over(&self.services, now);
        let mut held: Vec<(usize, usize)> = Vec::new();
        for (of, service) in self.services.iter().enumerate().filter(|(_, of)| up(of)) {
            let from = held.len();
            for &(_, key, flight) in &service.callers.flights {
                if over(&(of, service.process.number, flight)) {
                    continue;
                }
                match held[from..].iter_mut().find(|(held, _)| *held == key) {
                    Some((_, count)) => *count += 1,
                    None => held.push((key, 1)),
                }
            }
        }
        self.observer.held(now, held.into_iter(), span);
        for (of, service) in self.services.iter().enumerate().filter(|(_, of)| up(of)) {
            for (&key, queue) in service.callers.queues.iter() {
                if queue.callers > 0 {
                    self.observer.waited(now, (of, key), (queue.callers, span));
                }
            }
        }
    }

    /// Returns the shares that all hosts believe they hold at this instant.
    fn parts(&self, best: usize, slice: Slice) -> Vec<(BudgetId, Share)> {
        let now = self.now;
        let mut parts: Vec<(BudgetId, Share)> = Vec::with_capacity(self.services.len());
        for service in self.services.iter().filter(|service| service.process.up) {
            parts.extend(usable(service, service.clock.read(now), slice));
        }
        let pools = self.pools(best).map(|node| &self.nodes[node]);
        let up = self.nodes.iter().filter(|host| host.process.up);
        let up = up.filter_map(|host| Some((host.node.as_ref()?, host.clock.read(now))));
        let leased: Vec<(&Node, Tick)> = up.filter(|(node, now)| node.is_leased(*now)).collect();
        for (budget, generation) in self.nodes[best].state.budgets() {
            if generation.budget.kind() != Kind::Rate || !slice.has(budget) {
                continue;
            }
            let pool = pools.and_then(|host| {
                let pool = host.leader.pool(budget)?;
                Some(pool.share_at(host.clock.read(now)))
            });
            let nodes = leased
                .iter()
                .map(|(node, now)| node.ungranted(budget, *now));
            parts.extend(pool.into_iter().chain(nodes).map(|share| (budget, share)));
        }
        parts
    }

    /// Returns the node whose pools count: the leader of the latest term, if it has applied all entries.
    fn pools(&self, best: usize) -> Option<usize> {
        let latest = self.nodes[best].state.applied();
        let leader = self.leader();
        leader.filter(|&node| self.nodes[node].state.applied() == latest)
    }

    fn look_at_edges(&mut self, best: usize, slice: Slice) {
        let (now, state) = (self.now, &self.nodes[best].state);
        for node in self.nodes.iter().filter_map(|host| host.node.as_ref()) {
            let (holder, committed) = (node.holder(), Some((node.incarnation(), state)));
            let counters = holder.counters().filter(|(budget, _)| slice.has(*budget));
            self.observer
                .counted(now, holder.edge(), committed, counters);
        }
        let originals = &self.services[..self.services.len() - self.clones];
        for holder in originals
            .iter()
            .filter_map(|service| service.client.holder())
        {
            let counters = holder.counters().filter(|(budget, _)| slice.has(*budget));
            self.observer.counted(now, holder.edge(), None, counters);
        }
    }

    /// Returns true if the leader reaches no quorum.
    fn is_cut_off(&self, leader: usize) -> bool {
        if !self.net.is_harmed() {
            return false;
        }
        let both =
            |&other: &usize| self.net.reaches(leader, other) && self.net.reaches(other, leader);
        let reached = (0..self.hosts.nodes).filter(both).count();
        2 * reached <= self.hosts.nodes
    }

    fn health(&self, best: usize) -> Health {
        let nodes = || self.nodes.iter().enumerate();
        let is_ready = |node: &Coordinator| node.process.up && node.leader.is_ready();
        let incarnations: Vec<_> = nodes()
            .filter_map(|(_, host)| host.node.as_ref())
            .map(Node::incarnation)
            .collect();
        let members = self.nodes[best].state.members();
        let orphans = members.filter(|(incarnation, _)| !incarnations.contains(incarnation));
        let clients = self.services[..self.services.len() - self.clones]
            .iter()
            .enumerate();
        // A client that moves hands back what it has, and gets its next lease by the first answer of its new node.
        let answered = Self::LEAVE_WAIT.nanos() + 6 * self.plan.delay() + MS;
        let unleased = clients.filter(|(_, service)| {
            let now = service.clock.read(self.now);
            let moves = service.moved.is_some_and(|at| self.now < at + answered);
            let serves = service.process.up && !service.leaving;
            serves && !service.client.is_leased(now) && !moves
        });
        Health {
            leaders: nodes()
                .filter(|(_, node)| is_ready(node))
                .map(|(node, _)| node)
                .collect(),
            unleased: unleased.map(|(of, _)| self.hosts.nodes + of).collect(),
            orphans: orphans
                .map(|(_, member)| member.node.get() as usize - 1)
                .collect(),
        }
    }

    fn note_clocks(&mut self) {
        for host in 0..self.observer.clocks_shown() {
            let clock = match self.hosts.is_node(host) {
                true => &self.nodes[host].clock,
                false => &self.services[host - self.hosts.nodes].clock,
            };
            self.observer.clock(self.now, host, clock);
        }
    }

    pub(super) fn count_message(&mut self, from: usize, to: usize, message: &Message) {
        if from == to {
            return;
        }
        let traffic = &mut self.observer.timeline.traffic;
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

/// The budgets that an inspection covers: all of them if they are few, otherwise a part, another one at each turn.
#[derive(Clone, Copy, Debug)]
struct Slice {
    parts: u64,
    turn: u64,
}

impl Slice {
    /// Number of budgets up to which every inspection covers all of them.
    const FEW: usize = 512;

    const fn new(budgets: usize, turn: u64) -> Self {
        let parts = budgets.div_ceil(Self::FEW) as u64;
        let parts = if parts == 0 { 1 } else { parts };
        Self {
            parts,
            turn: turn % parts,
        }
    }

    const fn has(self, budget: BudgetId) -> bool {
        budget.get() % self.parts == self.turn
    }
}

/// Returns a function that says whether a permit is over, by its client's own clock.
fn permit_over(services: &[Service], now: u64) -> impl Fn(&Flown) -> bool {
    move |&(of, process, flight): &Flown| {
        let service = &services[of];
        let local = service.clock.read(now);
        let flies = match flight {
            Flight::Own(budget, permit) => service
                .client
                .allotment(budget)
                .is_some_and(|allotment| allotment.permits().is_valid(permit, local)),
            Flight::Central(request) => service.requests.is_valid(request, local),
        };
        !flies || service.process.number != process || !service.process.up
    }
}

/// Returns the shares by which a client would admit at this instant, where a lease or a floor covers them.
fn usable(service: &Service, now: Tick, slice: Slice) -> impl Iterator<Item = (BudgetId, Share)> {
    let leased = service.client.is_leased(now);
    let usable = move |mode: &Mode| match mode {
        Mode::Leased => leased,
        Mode::Floor(until) => now < *until,
        _ => false,
    };
    let all = service.client.allotments();
    all.filter(move |(budget, allotment)| slice.has(*budget) && usable(allotment.mode()))
        .map(move |(budget, allotment)| (budget, allotment.share_at(now)))
}

/// Returns the encoded size of a message in bytes, without transport overhead.
fn size(message: &Message) -> u64 {
    use super::log::LogMessage;
    use aliquot_wire::log::LogEntry;
    let bytes = match message {
        Message::Report { report, .. } => report.to_bytes().len(),
        Message::ClientReport(report) => report.to_bytes().len(),
        Message::Answer { answer, .. } => answer.to_bytes().len(),
        Message::ClientAnswer(answer) => answer.to_bytes().len(),
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
        Message::Move { .. } | Message::Reset => 0,
    };
    bytes as u64
}
