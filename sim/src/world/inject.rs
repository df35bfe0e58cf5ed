//! Injects faults. A fault counts only if it took effect.

use super::World;
use super::clock::{MS, quantised};
use super::event::{Event, Message};
use crate::draw::{Draw, Of};
use crate::hosts::HostSet;
use crate::mark::Mark;
use crate::scenario::{Fault, Target};

impl World {
    /// Returns the ready leader. If several running nodes believe that they lead, it is the one of the latest
    /// term.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads =
            |node: &usize| self.nodes[*node].process.up && self.nodes[*node].leader.is_ready();
        let leading = (0..self.hosts.nodes).filter(leads);
        leading.max_by_key(|&node| self.nodes[node].leader.term())
    }

    pub(super) fn found(&self, targets: &[Target], index: usize) -> Vec<usize> {
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

    pub(super) fn inject(&mut self, index: usize) {
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
            let leads = leader.is_some_and(|leader| targets.contains(&leader));
            self.mark_fault(&fault, leads);
            let lasts = match fault.kind {
                "clock_step" | "leader_transfer" | "membership" | "budget_change" | "reset" => 0,
                _ => fault.lasts,
            };
            self.timeline
                .faults
                .push((self.now, self.now + lasts, what));
        }
    }

    /// Injects a fault. Returns true if it took effect.
    fn befall(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
        match fault.kind {
            "partition" | "one_way" | "blackhole" | "delay" | "loss" | "duplicate" | "reorder" => {
                self.harm_links(index, fault, targets)
            }
            "slow" => {
                let set = HostSet::of(targets.iter().copied());
                let by = quantised(fault.by.unsigned_abs());
                self.net.slow.insert(index as u64, (set, by));
                self.lasts_for(index, fault.lasts, targets.to_vec());
                true
            }
            "clock_step" => {
                let step = |host: &usize| self.step(*host, fault, fault.by);
                targets.iter().for_each(step);
                !targets.is_empty()
            }
            "strobe" => {
                self.lasts_for(index, fault.lasts, targets.to_vec());
                self.strobe(index, 0);
                true
            }
            "reset" => self.reset(targets),
            "leader_transfer" => self.transfer(targets),
            "membership" => {
                let each = |world: &mut Self, node: usize| match fault.joins {
                    true => world.join(node),
                    false => world.leave(node),
                };
                let nodes = targets.iter().filter(|&&host| self.hosts.is_node(host));
                let nodes: Vec<usize> = nodes.copied().collect();
                nodes.into_iter().filter(|&node| each(self, node)).count() > 0
            }
            "budget_change" => self.change_budget(fault),
            "budget_delete" => self.delete_budget(index, fault),
            "clone_client" => self.clone_client(index, fault, targets),
            _ => {
                let affected = targets.iter().copied();
                let affected: Vec<usize> = affected
                    .filter(|&host| self.befall_host(fault, host))
                    .collect();
                let took = !affected.is_empty();
                if took {
                    let lasts = if fault.kind == "restart" {
                        50 * MS
                    } else {
                        fault.lasts
                    };
                    self.lasts_for(index, lasts, affected);
                }
                took
            }
        }
    }

    /// Applies a fault to one host. Returns true if it took effect.
    fn befall_host(&mut self, fault: &Fault, host: usize) -> bool {
        let (now, is_node) = (self.now, self.hosts.is_node(host));
        match fault.kind {
            "crash" | "restart" => self.crash(host),
            "client_churn" => !is_node && self.crash(host),
            "pause" => self.pause(host, fault.lasts),
            "suspend" | "vm_pause" if !self.pause(host, fault.lasts) => false,
            "suspend" => {
                self.mark_suspend(host);
                self.clock_mut(host).suspend(now);
                true
            }
            "vm_pause" => {
                self.clock_mut(host).freeze(now);
                true
            }
            "clock_rate" => {
                self.clock_mut(host).run_at(now, fault.ppm);
                true
            }
            "store_error" if is_node => {
                let local = self.nodes[host].clock.read(now).nanos();
                self.nodes[host].log.broken = true;
                self.nodes[host].log.step_down(local);
                self.settle(host);
                true
            }
            _ => false,
        }
    }

    fn join(&mut self, node: usize) -> bool {
        let joins = self.process(node).is_none();
        if joins {
            self.start_node(node);
        }
        joins
    }

    /// Marks a fault as active, and schedules its end.
    pub(super) fn lasts_for(&mut self, index: usize, span: u64, affected: Vec<usize>) {
        self.active.insert(index, affected);
        self.after(span, Event::Recover(index as u32));
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
        let down = down.count();
        self.marks
            .hit_if(2 * down >= self.hosts.nodes, Mark::NoQuorum);
        let up = self.nodes.iter().any(|node| node.process.up);
        self.marks.hit_if(!up, Mark::AllNodesDown);
        true
    }

    fn crash_client(&mut self, of: usize) -> bool {
        let service = &mut self.services[of];
        let up = std::mem::replace(&mut service.process.up, false);
        service.selection.lost();
        service.selection.abandon();
        self.end_flights(of);
        up
    }

    fn pause(&mut self, host: usize, span: u64) -> bool {
        let until = quantised(self.now + span);
        let now = self.now;
        let lease = self.plan.scenario.lease.lease;
        self.marks.hit_if(span > lease, Mark::PausedPastLease);
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
        self.marks
            .hit_if(fault.wall && by < 0, Mark::WallSteppedBack);
        match fault.wall {
            true => self.clock_mut(host).step_wall(now, by),
            false => self.clock_mut(host).step_boot(now, by),
        }
    }

    /// Steps clocks back and forth for as long as a strobe lasts.
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
}

/// The unit of clock steps: whole quanta, so that readings stay exact.
const fn clock_step() -> i64 {
    super::clock::QUANTUM as i64
}
