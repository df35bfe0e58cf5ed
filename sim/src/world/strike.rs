//! What goes wrong, and how it ends. A fault counts only if it took effect.

use super::clock::{MS, quantised};
use super::event::{Event, Message, Timer};
use super::net::{Harm, Harmed};
use super::{Process, World};
use crate::draw::{Draw, Of};
use crate::hosts::HostSet;
use crate::mark::Mark;
use crate::scenario::{Fault, Target};

impl World {
    /// Who is in office, as far as anybody who runs believes: the latest term.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads =
            |node: &usize| self.nodes[*node].process.up && self.nodes[*node].leader.in_office();
        let leading = (0..self.hosts.nodes).filter(leads);
        leading.max_by_key(|&node| self.nodes[node].leader.term())
    }

    fn found(&self, targets: &[Target], index: usize) -> Vec<usize> {
        let leader = self.leader();
        let mut draw = Draw::of(self.seed, Of::Fault, 1 << 40, index as u64);
        let mut found: Vec<usize> = targets
            .iter()
            .flat_map(|target| self.hosts.find(target, leader, &mut draw))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(super) fn strike(&mut self, index: usize) {
        let fault = self.plan.faults[index].clone();
        if self.callers_until != u64::MAX && fault.at > self.plan.scenario.run.duration {
            return;
        }
        let leader = self.leader();
        let targets = match fault.target.is_empty() {
            true if fault.kind == "leader_transfer" => Vec::new(),
            true => self.found(&[Target::All], index),
            false => self.found(&fault.target, index),
        };
        let took = self.befall(index, &fault, &targets);
        let names: Vec<String> = targets
            .iter()
            .take(6)
            .map(|&host| self.hosts.name(host))
            .collect();
        let what = format!("{} {}", fault.kind, names.join(" "));
        self.show("fault", targets.first().copied(), || {
            format!("{what}{}", if took { "" } else { ": no effect" })
        });
        if took {
            if leader.is_some_and(|leader| targets.contains(&leader)) {
                self.marks.hit(Mark::StruckLeader);
            }
            let lasts = match fault.kind {
                "clock_step" | "leader_transfer" | "membership" | "budget_change" | "reset" => 0,
                _ => fault.lasts,
            };
            self.course.faults.push((self.now, self.now + lasts, what));
        }
    }

    /// Whether it took effect.
    fn befall(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
        let any = |world: &mut Self, each: fn(&mut Self, &Fault, usize) -> bool| {
            let struck: Vec<usize> = targets
                .iter()
                .copied()
                .filter(|&host| each(world, fault, host))
                .collect();
            let took = !struck.is_empty();
            if took {
                world.lasts_for(index, fault.lasts, struck);
            }
            took
        };
        match fault.kind {
            "partition" | "one_way" | "blackhole" | "delay" | "loss" | "duplicate" | "reorder" => {
                self.harm_links(index, fault, targets)
            }
            "slow" => {
                let set = HostSet::of(targets.iter().copied());
                self.net
                    .slow
                    .insert(index as u64, (set, quantised(fault.by as u64)));
                self.lasts_for(index, fault.lasts, targets.to_vec());
                true
            }
            "crash" => any(self, |world, _, host| world.crash(host)),
            "restart" => {
                let struck: Vec<usize> = targets
                    .iter()
                    .copied()
                    .filter(|&host| self.crash(host))
                    .collect();
                let took = !struck.is_empty();
                self.lasts_for(index, 50 * MS, struck);
                took
            }
            "pause" => any(self, |world, fault, host| world.pause(host, fault.lasts)),
            "suspend" => any(self, |world, fault, host| {
                let now = world.now;
                let took = world.pause(host, fault.lasts);
                if took {
                    world.clock_mut(host).suspend(now);
                }
                took
            }),
            "vm_pause" => any(self, |world, fault, host| {
                let now = world.now;
                let took = world.pause(host, fault.lasts);
                if took {
                    world.clock_mut(host).freeze(now);
                }
                took
            }),
            "clock_step" => {
                targets
                    .iter()
                    .for_each(|&host| self.step(host, fault, fault.by));
                true
            }
            "clock_rate" => any(self, |world, fault, host| {
                let now = world.now;
                world.clock_mut(host).run_at(now, fault.ppm);
                true
            }),
            "strobe" => {
                self.lasts_for(index, fault.lasts, targets.to_vec());
                self.strobe(index, 0);
                true
            }
            "reset" => self.reset(targets),
            "leader_transfer" => self.transfer(targets),
            "membership" if fault.joins => {
                let starts: Vec<usize> = targets
                    .iter()
                    .copied()
                    .filter(|&host| self.hosts.is_node(host) && self.process(host).is_none())
                    .collect();
                starts.iter().for_each(|&node| self.start_node(node));
                !starts.is_empty()
            }
            "membership" => {
                targets
                    .iter()
                    .filter(|&&host| self.hosts.is_node(host) && self.leave(host))
                    .count()
                    > 0
            }
            "budget_change" => self.change_budget(fault),
            "client_churn" => any(self, |world, _, host| {
                !world.hosts.is_node(host) && world.crash(host)
            }),
            "clone_client" => self.clone_client(index, fault, targets),
            "store_error" => any(self, |world, _, host| {
                let is_node = world.hosts.is_node(host);
                if is_node {
                    let now = world.nodes[host].clock.read(world.now).nanos();
                    world.nodes[host].log.broken = true;
                    world.nodes[host].log.step_down(now);
                    world.settle(host);
                }
                is_node
            }),
            _ => false,
        }
    }

    /// It lasts for so long from now on.
    fn lasts_for(&mut self, index: usize, span: u64, struck: Vec<usize>) {
        self.active.insert(index, struck);
        self.after(span, Event::Mend(index as u32));
    }

    fn harm_links(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
        let mut side = targets.to_vec();
        if fault.with_clients
            && matches!(
                fault.kind,
                "partition" | "delay" | "loss" | "duplicate" | "reorder"
            )
        {
            let homes = self.hosts.homes.iter().enumerate();
            let theirs = homes
                .filter(|(_, home)| targets.contains(home))
                .map(|(client, _)| self.hosts.nodes + client);
            side.extend(theirs);
        }
        let last = self.hosts.count() - self.clones;
        let to = match fault.to.is_empty() {
            false => self.found(&fault.to, index),
            true if side.len() >= last => (0..last).collect(),
            true => (0..last)
                .filter(|host| !side.contains(host))
                .collect::<Vec<_>>(),
        };
        let by = quantised(fault.by.unsigned_abs());
        let (harm, both) = match fault.kind {
            "one_way" => (Harm::Cut, false),
            "delay" => (Harm::Delay(fault.amount, by), true),
            "loss" => (Harm::Loss(fault.amount), true),
            "duplicate" => (Harm::Duplicate(fault.amount), true),
            "reorder" => (Harm::Reorder(fault.amount, by), true),
            _ => (Harm::Cut, true),
        };
        let takes = match harm {
            Harm::Cut => {
                let reaches = |&from: &usize| {
                    to.iter()
                        .any(|&to| from != to && self.net.reaches(from, to))
                };
                side.iter().any(reaches)
            }
            _ => !side.is_empty() && !to.is_empty(),
        };
        let (from, to) = (HostSet::of(side.iter().copied()), HostSet::of(to));
        self.net.harm(
            index as u64,
            Harmed {
                harm,
                from,
                to,
                both,
            },
        );
        self.lasts_for(index, fault.lasts, side);
        takes
    }

    pub(super) fn crash(&mut self, host: usize) -> bool {
        match self.hosts.is_node(host) {
            true => self.crash_node(host),
            false => self.crash_client(host - self.hosts.nodes),
        }
    }

    pub(super) fn crash_node(&mut self, node: usize) -> bool {
        if !self.nodes[node].process.up {
            return false;
        }
        let host = &mut self.nodes[node];
        host.process.up = false;
        host.leader.deposed();
        host.node = None;
        let clients: Vec<usize> = std::mem::take(&mut host.sessions).into_values().collect();
        for client in clients {
            self.send(node, client, Message::Reset);
        }
        let down = self
            .nodes
            .iter()
            .filter(|node| !node.process.up || node.process.paused_until > self.now);
        if 2 * down.count() >= self.hosts.nodes {
            self.marks.hit(Mark::NoQuorum);
        }
        true
    }

    fn crash_client(&mut self, of: usize) -> bool {
        let service = &mut self.services[of];
        let up = std::mem::replace(&mut service.process.up, false);
        service.link = None;
        self.end_flights(of);
        up
    }

    fn pause(&mut self, host: usize, span: u64) -> bool {
        let until = quantised(self.now + span);
        let now = self.now;
        let process = self.process_mut(host);
        let takes = process.up && process.paused_until <= now;
        if takes {
            process.paused_until = until;
            self.lasts = self.lasts.max(until);
        }
        takes
    }

    fn step(&mut self, host: usize, fault: &Fault, by: i64) {
        let now = self.now;
        let by = by / clock_step() * clock_step();
        match fault.wall {
            true => self.clock_mut(host).step_wall(now, by),
            false => self.clock_mut(host).step_boot(now, by),
        }
    }

    /// To and fro, as long as it lasts.
    pub(super) fn strobe(&mut self, index: usize, count: u64) {
        let Some(hosts) = self.active.get(&index).cloned() else {
            return;
        };
        let fault = self.plan.faults[index].clone();
        let by = if count.is_multiple_of(2) {
            fault.by
        } else {
            -fault.by
        };
        hosts.iter().for_each(|&host| self.step(host, &fault, by));
        self.after(fault.period, Event::Strobe(index as u32, count + 1));
    }

    fn reset(&mut self, targets: &[usize]) -> bool {
        let mut took = false;
        for &host in targets {
            if self.hosts.is_node(host) {
                let clients: Vec<usize> = self.nodes[host].sessions.values().copied().collect();
                took |= !clients.is_empty();
                for client in clients {
                    self.send(host, client, Message::Reset);
                }
            } else if let Some(node) = self.services[host - self.hosts.nodes].link {
                took = true;
                self.send(node, host, Message::Reset);
            }
        }
        took
    }

    fn transfer(&mut self, targets: &[usize]) -> bool {
        let Some(leader) = self.leader() else {
            return false;
        };
        let heir = targets.iter().copied().chain(0..self.hosts.nodes);
        let heir = heir
            .filter(|&node| self.hosts.is_node(node))
            .find(|&node| node != leader && self.process(node).is_some());
        let took = heir.is_some_and(|heir| self.nodes[leader].log.transfer(heir));
        self.settle(leader);
        took
    }

    fn change_budget(&mut self, fault: &Fault) -> bool {
        let Ok((_, budget)) = self.plan.scenario.changed(&fault.set) else {
            return false;
        };
        for (index, key) in self.keys.iter().enumerate() {
            if budget.key().matches(key) {
                self.course.keys[index].change(self.now, &budget);
            }
        }
        self.marks.hit(Mark::LimitChanged);
        self.put(budget);
        true
    }

    /// The memory of a client goes on in a second machine, which reaches nobody.
    fn clone_client(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
        let original = targets
            .iter()
            .copied()
            .find(|&host| !self.hosts.is_node(host) && self.process(host).is_some());
        let earlier = self.plan.faults[..index]
            .iter()
            .filter(|fault| fault.kind == "clone_client")
            .count();
        let clone = self.hosts.clients.len() + earlier;
        let Some(original) = original.filter(|_| clone < self.services.len()) else {
            return false;
        };
        let mut copy = self.services[original - self.hosts.nodes].clone();
        copy.callers = copy.callers.reborn();
        copy.process = Process::DOWN;
        copy.process.start();
        self.services[clone] = copy;
        self.lasts_for(index, fault.lasts, vec![self.hosts.nodes + clone]);
        self.begin_callers(clone);
        self.set(self.hosts.nodes + clone, MS, Timer::Look);
        true
    }

    pub(super) fn mend(&mut self, index: usize) {
        let Some(struck) = self.active.remove(&index) else {
            return;
        };
        let fault = self.plan.faults[index].clone();
        self.show("over", struck.first().copied(), || fault.kind.to_owned());
        self.net.mend(index as u64);
        let now = self.now;
        for host in struck {
            match fault.kind {
                "crash" | "restart" | "client_churn" if self.process(host).is_none() => {
                    match self.hosts.is_node(host) {
                        true if self.nodes[host].departs => {}
                        true => self.start_node(host),
                        false => self.start_service(host - self.hosts.nodes),
                    }
                }
                "suspend" => self.clock_mut(host).wake(now),
                "vm_pause" => {
                    let paused = quantised(fault.lasts);
                    self.clock_mut(host).thaw(now, paused);
                }
                "clock_rate" => {
                    let usual = self.clock_mut(host).usual();
                    self.clock_mut(host).run_at(now, usual);
                }
                "store_error" => self.nodes[host].log.broken = false,
                "clone_client" => {
                    self.crash(host);
                }
                _ => {}
            }
        }
    }

    /// The safety phase is over: whatever lasts ends now, but for pauses, which end when they do.
    pub(super) fn calm(&mut self) {
        let lasting: Vec<usize> = self.active.keys().copied().collect();
        for index in lasting {
            let pauses = matches!(
                self.plan.faults[index].kind,
                "pause" | "suspend" | "vm_pause"
            );
            if !pauses {
                self.mend(index);
            }
        }
    }
}

/// Clocks are stepped by whole quanta, so that readings stay exact.
const fn clock_step() -> i64 {
    super::clock::QUANTUM as i64
}
