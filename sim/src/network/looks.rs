//! What the oracle is told: what happened in a step, and all hosts at instants.

use super::diary::{Decided, Happened, What};
use super::disk::Written;
use super::node::Applied;
use super::service::is_booked;
use super::{MS, Network, SEC};
use crate::mark::Mark;
use crate::oracle::{Admission, Flight, Flown, Health, Right};
use aliquot_client::Standing;
use aliquot_core::command::Command;
use aliquot_core::share::Share;
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, RequestId, Scale, Span, Tokens};
use aliquot_wire::Wire;
use aliquot_wire::log::LogEntry;
use aliquot_wire::raft;

impl Network<'_> {
    /// Takes in all that happened in a step, in order.
    pub(super) fn hear(&mut self) {
        for happened in self.diary.take() {
            match happened {
                Happened::Applied(applied) => self.applied(&applied),
                Happened::Written(written) => self.wrote(&written),
                Happened::Decided(decided) => self.decided(&decided),
            }
        }
        if self.witness.is_none() {
            return;
        }
        for (_, from, to, len, digest) in self.fabric.take_noted() {
            let from = self.hosts.name(from);
            self.show("piece", Some(to), || {
                format!("from {from}: {len} bytes {digest:016x}")
            });
        }
    }

    fn applied(&mut self, applied: &Applied) {
        let (node, entry) = (applied.node, &applied.entry);
        self.offices
            .entry((node, entry.term))
            .or_insert(applied.tick);
        let said = digest(&applied.outcome);
        if let Some(known) = self.effects.get(entry.index as usize - 1) {
            if *known != said {
                let outcome = &applied.outcome;
                self.oracle.commits.replayed(self.now, node, outcome);
            }
            return;
        }
        let read = entry.command.clone().map(LogEntry::from_bytes);
        let command = match read {
            Some(Ok(read)) => read.command,
            Some(Err(error)) => return self.broke_log(entry.index, &error.to_string()),
            None => None,
        };
        if entry.index != self.effects.len() as u64 + 1 {
            return self.broke_log(entry.index, "entries before it were applied nowhere");
        }
        let effects = self.state.apply(entry.index, command.as_ref());
        self.effects.push(digest(&effects));
        if digest(&effects) != said {
            self.oracle
                .commits
                .replayed(self.now, node, &applied.outcome);
        }
        self.course.traffic.entries += 1;
        for effect in &effects {
            match effect {
                Effect::Reclaimed(_) => self.marks.hit(Mark::ReclaimApplied),
                Effect::Stamped(..) => self.marks.hit(Mark::Stamped),
                _ => {}
            }
        }
        self.show("applied", Some(node), || {
            format!("entry {}: {effects:?}", entry.index)
        });
        self.oracle
            .applied(self.now, entry.index, &self.state, &effects);
    }

    fn broke_log(&mut self, index: u64, why: &str) {
        let now = self.now;
        self.oracle
            .commits
            .broke(now, || format!("entry {index} of the log: {why}"));
        self.stopped = true;
    }

    /// A leader writes an entry before anybody else does: then it is proposed.
    fn wrote(&mut self, (_, node, index, bytes): &Written) {
        let Ok(entry) = raft::Entry::from_bytes(bytes.clone()) else {
            return;
        };
        let place = (entry.id.term, *index);
        if place <= self.written {
            return;
        }
        self.written = place;
        let raft::Payload::Command(command) = entry.payload else {
            return;
        };
        if let Ok(LogEntry {
            command: Some(Command::Round(changes)),
        }) = LogEntry::from_bytes(command)
        {
            let now_here = self.fabric.hosts[*node].read().nanos();
            let since = self.offices.get(&(*node, entry.id.term));
            let since = since.map(|since| Span::from_nanos(now_here.saturating_sub(*since)));
            if !changes.reclaims.is_empty() {
                self.marks.hit(Mark::ReclaimProposed);
            }
            self.oracle
                .patience
                .proposed(self.now, &changes, (since, self.state.lease()));
        }
    }

    /// The budget that a client asks for, as the log has it by now.
    fn budget_of(&self, client: usize) -> Option<(BudgetId, Scale)> {
        let key = &self.stations[client].key;
        let key = aliquot_core::budget::Key::try_from(key.as_str()).ok()?;
        let id = self.state.budget_of(&key)?;
        Some((id, self.state.budget(id)?.budget.scale()))
    }

    fn decided(&mut self, decided: &Decided) {
        let (client, now) = (decided.client, decided.at);
        let host = self.hosts.nodes + client;
        let budget = self.budget_of(client);
        let grains = |cost: u64| {
            budget.map_or(0, |(_, scale)| {
                scale.grains_per_token().saturating_mul(cost)
            })
        };
        match &decided.what {
            What::Offered(cost) => self.course.offered(now, client, *cost),
            What::Refused(cost) => {
                self.course.refused(now, client, *cost);
                if let Some((budget, _)) = budget {
                    let cost = Tokens::from_grains(grains(*cost));
                    self.oracle.refused(now, budget, cost);
                }
            }
            What::Central(cost) => {
                self.marks.hit(Mark::AdmittedCentrally);
                self.course.admitted(now, client, *cost);
                self.show("admitted", Some(host), || format!("{cost} centrally"));
            }
            What::Admitted {
                cost,
                period,
                standing,
                share,
                edge,
            } => {
                let booked = is_booked(*standing);
                if !booked {
                    self.marks.hit(Mark::AdmittedUnleased);
                }
                if *standing == Standing::Floor {
                    self.marks.hit(Mark::AdmittedByFloor);
                }
                self.show("admitted", Some(host), || format!("{cost} as {standing:?}"));
                self.course.admitted(now, client, *cost);
                let Some((budget, _)) = budget else {
                    let what = "something was admitted of a budget that no log has";
                    return self.oracle.commits.broke(now, || what.to_owned());
                };
                let admission = Admission {
                    client: Some(client),
                    budget,
                    edge: edge.filter(|_| *standing == Standing::Leased),
                    cost: Tokens::from_grains(grains(*cost)),
                    period: *period,
                    right: match standing {
                        Standing::Open => Right::Open,
                        _ if booked => Right::Booked,
                        _ => Right::Kept,
                    },
                    share: *share,
                };
                self.oracle.admitted(now, &admission);
            }
            What::Taken(number) => {
                self.land();
                self.course.admitted(now, client, 1);
                let flown = flown(client, decided.process, *number);
                if let Some(bench) = budget.and_then(|(budget, _)| self.oracle.bench(budget)) {
                    bench.taken(now, flown);
                }
            }
            What::Landed(_) => self.land(),
        }
    }

    /// Permits that are over, by the clocks of those who hold them.
    fn land(&mut self) {
        let (diary, now) = (self.diary.clone(), self.now);
        let over = |(client, process, flight): &Flown| match flight {
            Flight::Central(number) => !diary.is_flying(*client, *process, number.get()),
            Flight::Own(..) => true,
        };
        let budgets: Vec<BudgetId> = self.state.budgets().map(|(budget, _)| budget).collect();
        for budget in budgets {
            if let Some(bench) = self.oracle.bench(budget) {
                bench.landed(now, over);
            }
        }
    }

    /// All hosts at this instant.
    pub(super) fn look(&mut self) {
        self.follow_leader();
        let budgets: Vec<BudgetId> = self.state.budgets().map(|(budget, _)| budget).collect();
        for budget in budgets {
            let mut parts = self.held_by_nodes(budget);
            for client in 0..self.stations.len() {
                if self.budget_of(client).is_some_and(|(of, _)| of == budget) {
                    let limiter = self.stations[client].lock().limiter.clone();
                    let booked = limiter.filter(|limiter| is_booked(limiter.peek().right));
                    parts.extend(booked.map(|limiter| limiter.share()));
                }
            }
            let now = self.now;
            if let Some(bench) = self.oracle.bench(budget) {
                bench.believed(now, parts.into_iter());
            }
        }
        self.look_at_edges();
        let health = self.health();
        if health.unleased.len() == self.stations.len() && self.now > 10 * SEC {
            self.marks.hit(Mark::AllUnleased);
        }
        self.oracle.healing.look(self.now, &health);
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

    /// Who is in office: the latest term.
    fn follow_leader(&mut self) {
        let in_office =
            |node: &usize| self.fabric.is_up(*node) && self.sites[*node].lock().sight.in_office;
        let leading = (0..self.hosts.nodes).filter(in_office);
        let leader = leading.max_by_key(|&node| self.sites[node].lock().sight.term);
        if leader != self.leader {
            if let Some(leader) = leader {
                if !self.course.offices.is_empty() {
                    self.marks.hit(Mark::LeaderChanged);
                }
                self.course.in_office(self.now, leader);
                self.show("office", Some(leader), String::new);
            }
            self.leader = leader;
        }
    }

    /// What nodes hold and have dealt to nobody, and what the leader has.
    fn held_by_nodes(&self, budget: BudgetId) -> Vec<Share> {
        let mut parts = Vec::new();
        let of = |shares: &[(BudgetId, Share)]| {
            let found = shares.iter().find(|(of, _)| *of == budget);
            found.map(|(_, share)| *share)
        };
        for node in (0..self.hosts.nodes).filter(|&node| self.fabric.is_up(node)) {
            let site = self.sites[node].lock();
            let sight = &site.sight;
            // A node that begins or is about to end says nothing; then nothing of it is counted.
            if sight.at != self.now {
                continue;
            }
            if sight.leased {
                parts.extend(of(&sight.undealt));
            }
            if self.leader == Some(node) && sight.applied == self.effects.len() as u64 {
                parts.extend(of(&sight.pool));
            }
        }
        parts
    }

    fn look_at_edges(&mut self) {
        let now = self.now;
        for site in &self.sites {
            let site = site.lock();
            let sight = &site.sight;
            let (Some(edge), Some(life)) = (sight.edge, sight.life) else {
                continue;
            };
            if sight.at != now {
                continue;
            }
            for (budget, counters) in &sight.counters {
                self.oracle.edges.seen(now, edge, *budget, counters);
                let Some(generation) = self.state.budget(*budget) else {
                    continue;
                };
                if generation.account.open().any(|(open, _)| open == life) {
                    let committed = generation.account.counters(life);
                    if committed.period == counters.period {
                        let given = (counters.given, committed.given);
                        self.oracle
                            .commits
                            .given(now, life, *budget, given.0, given.1);
                    }
                }
            }
        }
    }

    fn health(&self) -> Health {
        let up = (0..self.hosts.nodes).filter(|&node| self.fabric.is_up(node));
        let lives: Vec<_> = up
            .clone()
            .filter_map(|node| self.sites[node].lock().sight.life)
            .collect();
        let leased = |client: usize| {
            let client = self.stations[client].session();
            client
                .as_ref()
                .is_some_and(|client| !client.status().lease.is_zero())
        };
        let clients = (0..self.stations.len()).filter(|&client| self.stations[client].lock().up);
        Health {
            leaders: up
                .filter(|&node| self.sites[node].lock().sight.in_office)
                .count(),
            unleased: clients
                .filter(|&client| !leased(client))
                .map(|client| self.hosts.name(self.hosts.nodes + client))
                .collect(),
            ghosts: self
                .state
                .members()
                .filter(|(life, _)| !lives.contains(life))
                .count(),
        }
    }

    /// What is noted once a second: how far clocks are off, and whether the limit is used.
    fn note_second(&mut self) {
        const CLIENTS_SHOWN: usize = 3;
        let hosts = self.hosts.nodes + self.hosts.clients.len().min(CLIENTS_SHOWN);
        for host in 0..hosts {
            let now = self.now;
            if self.skew_from.len() == host {
                let shows = self.fabric.hosts[host].with_clock(|clock| clock.boot(now));
                self.skew_from.push((now, shows));
                self.course.skews.push((self.hosts.name(host), Vec::new()));
            }
            let from = self.skew_from[host];
            let skew = self.fabric.hosts[host].with_clock(|clock| clock.skew(now, from));
            self.course.skews[host].1.push(skew);
        }
        for key in self.course.keys.iter().filter(|key| key.is_rate) {
            let last: u64 = key.bins.iter().rev().take(10).map(|bin| bin.admitted).sum();
            if last as f64 >= 0.99 * key.limit {
                self.marks.hit(Mark::FullUse);
            }
        }
    }

    /// A digest of every host's state, for who writes all down.
    fn show_states(&mut self) {
        if self.witness.is_none() {
            return;
        }
        for node in 0..self.hosts.nodes {
            let text = format!("{:?}", self.sites[node].lock().sight);
            self.show("state", Some(node), || text);
        }
        for client in 0..self.stations.len() {
            let limiter = self.stations[client].lock().limiter.clone();
            let status = self.stations[client]
                .session()
                .as_ref()
                .map(aliquot_client::Client::status);
            let text = format!("{status:?} {:?}", limiter.map(|limiter| limiter.peek()));
            self.show("state", Some(self.hosts.nodes + client), || text);
        }
    }
}

/// Permits have numbers of their own here.
const fn flown(client: usize, process: u32, number: u64) -> Flown {
    (client, process, Flight::Central(RequestId::new(number)))
}

/// What an entry did, in short.
fn digest(effects: &[Effect]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{effects:?}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

const _: () = assert!(MS * 1_000 == SEC);
