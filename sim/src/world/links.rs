//! Faults of links, leadership transfers, budget changes, and clones.

use super::clock::{MS, quantised};
use super::event::{Message, Timer};
use super::net::{Harm, Harmed};
use super::{Process, World};
use crate::hosts::HostSet;
use crate::mark::Mark;
use crate::scenario::Fault;

impl World {
    pub(super) fn harm_links(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
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

    pub(super) fn reset(&mut self, targets: &[usize]) -> bool {
        let mut took = false;
        for &host in targets {
            if self.hosts.is_node(host) {
                let clients: Vec<usize> = self.nodes[host].sessions.values().copied().collect();
                took |= !clients.is_empty();
                for client in clients {
                    self.send(host, client, Message::Reset);
                }
            } else if let Some(node) = self.services[host - self.hosts.nodes].link() {
                took = true;
                self.send(node, host, Message::Reset);
            }
        }
        took
    }

    pub(super) fn transfer(&mut self, targets: &[usize]) -> bool {
        let Some(leader) = self.leader() else {
            return false;
        };
        let heir = targets.iter().copied().chain(0..self.hosts.nodes);
        let heir = heir
            .filter(|&node| self.hosts.is_node(node))
            .find(|&node| node != leader && self.process(node).is_some());
        let local = self.nodes[leader].clock.read(self.now).nanos();
        let took = heir.is_some_and(|heir| self.nodes[leader].log.transfer(heir, local));
        self.marks.hit_if(took, Mark::LeadHandedOver);
        self.settle(leader);
        took
    }

    /// Copies the memory of a client to a second machine, which reaches no other host.
    pub(super) fn clone_client(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
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

    pub(super) fn change_budget(&mut self, fault: &Fault) -> bool {
        let Ok((_, budget)) = self.plan.scenario.changed(&fault.set) else {
            return false;
        };
        for (index, key) in self.keys.iter().enumerate() {
            if budget.key().matches(key) {
                self.timeline.keys[index].change(self.now, &budget);
                let new = budget.whole();
                let old = std::mem::replace(&mut self.limits[index], new);
                let lowered =
                    new.rate < old.rate || new.burst < old.burst || new.tokens < old.tokens;
                self.marks.hit_if(lowered, Mark::LimitLowered);
                let raised =
                    new.rate > old.rate || new.burst > old.burst || new.tokens > old.tokens;
                self.marks.hit_if(raised, Mark::LimitRaised);
            }
        }
        self.marks.hit(Mark::LimitChanged);
        self.put(budget);
        true
    }

    /// Deletes a budget. It is written again when the fault is over.
    pub(super) fn delete_budget(&mut self, index: usize, fault: &Fault) -> bool {
        let Ok((_, budget)) = self.plan.scenario.changed(&fault.set) else {
            return false;
        };
        let took = self.delete(&budget);
        if took {
            self.marks.hit(Mark::BudgetDeleted);
            self.lasts_for(index, fault.lasts, Vec::new());
        }
        took
    }
}
