//! The hosts, links and budgets of the kernel tier, as faults affect them.

use super::World;
use super::event::{Event, Message, Timer};
use super::host::Process;
use crate::clock::{Clock, MS};
use crate::faults::{self, Fleet, Lasting, Stop};
use crate::hosts::Hosts;
use crate::net::Net;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::scenario::{DamagedPart, MemberChange};
use aliquot_core::command::Command;
use aliquot_core::state::State;
use aliquot_core::unit::{NodeId, RequestId};

impl World {
    /// Returns the ready leader. If several running nodes believe that they lead, it is the one of the latest
    /// term.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads =
            |node: &usize| self.nodes[*node].process.up && self.nodes[*node].leader.is_ready();
        let leading = (0..self.hosts.nodes).filter(leads);
        leading.max_by_key(|&node| self.nodes[node].leader.term())
    }

    /// Steps clocks back and forth for as long as a strobe lasts.
    pub(super) fn strobe(&mut self, index: usize, count: u64) {
        if let Some(period) = faults::strobe(self, index, count) {
            self.after(period, Event::Strobe(index as u32, count + 1));
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
}

impl Fleet for World {
    fn now(&self) -> u64 {
        self.now
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    fn state(&self) -> &State {
        &self.nodes[self.most_applied()].state
    }

    fn leader(&self) -> Option<usize> {
        Self::leader(self)
    }

    fn is_up(&self, host: usize) -> bool {
        self.process(host).is_some()
    }

    fn is_paused(&self, host: usize) -> bool {
        self.paused(host).is_some()
    }

    fn is_leased(&self, client: usize) -> bool {
        let service = &self.services[client];
        service.client.is_leased(service.clock.read(self.now))
    }

    fn lasting(&mut self) -> &mut Lasting {
        &mut self.lasting
    }

    fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }

    fn ends_after(&mut self, index: usize, span: u64) {
        self.after(span, Event::Recover(index as u32));
    }

    fn begin_strobe(&mut self, index: usize) {
        self.strobe(index, 0);
    }

    fn with_net<T>(&mut self, change: impl FnOnce(&mut Net) -> T) -> T {
        change(&mut self.net)
    }

    fn swallow(&mut self, _: &[usize], _: &[usize]) {}

    fn wake_links(&mut self) {}

    fn with_clock<T>(&mut self, host: usize, change: impl FnOnce(&mut Clock) -> T) -> T {
        change(match self.hosts.is_node(host) {
            true => &mut self.nodes[host].clock,
            false => &mut self.services[host - self.hosts.nodes].clock,
        })
    }

    fn stop(&mut self, host: usize, _: Stop) -> bool {
        match self.hosts.is_node(host) {
            true => self.crash_node(host),
            false => self.crash_client(host - self.hosts.nodes),
        }
    }

    fn start(&mut self, host: usize) {
        match self.hosts.is_node(host) {
            _ if self.process(host).is_some() => {}
            true if self.nodes[host].departs => {}
            true => self.start_node(host),
            false => self.start_service(host - self.hosts.nodes),
        }
    }

    fn pause(&mut self, host: usize, until: u64) -> bool {
        let now = self.now;
        let process = match self.hosts.is_node(host) {
            true => &mut self.nodes[host].process,
            false => &mut self.services[host - self.hosts.nodes].process,
        };
        let takes = process.up && process.paused_until <= now;
        if takes {
            process.paused_until = until;
        }
        takes
    }

    fn break_disk(&mut self, node: usize) -> bool {
        let local = self.nodes[node].clock.read(self.now).nanos();
        self.nodes[node].log.broken = true;
        self.nodes[node].log.step_down(local);
        self.settle(node);
        true
    }

    fn repair_disk(&mut self, node: usize) {
        self.nodes[node].log.broken = false;
    }

    fn damage_disk(&mut self, node: usize, _: DamagedPart) -> bool {
        let took = self.crash_node(node);
        self.nodes[node].departs |= took;
        took
    }

    fn slow_disk(&mut self, node: usize, by: u64) {
        self.nodes[node].log.slower = by;
    }

    fn reset(&mut self, hosts: &[usize]) -> bool {
        let mut took = false;
        for &host in hosts {
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

    fn transfer(&mut self, leader: usize, heir: usize) -> bool {
        let local = self.nodes[leader].clock.read(self.now).nanos();
        let took = self.nodes[leader].log.transfer(heir, local);
        self.settle(leader);
        took
    }

    fn change_members(&mut self, node: usize, change: MemberChange) -> bool {
        match change {
            MemberChange::Join if self.process(node).is_some() => false,
            MemberChange::Join => {
                self.start_node(node);
                true
            }
            MemberChange::Leave => self.leave(node),
            MemberChange::Remove => {
                let id = NodeId::new(node as u64 + 1);
                self.operator.submit(Command::Remove { node: id });
                // A node that runs departs when it has applied the command. Another one is not started again.
                self.nodes[node].departs |= self.process(node).is_none();
                true
            }
        }
    }

    /// Copies the memory of a client to a second machine, which reaches no other host.
    fn clone_client(&mut self, index: usize, targets: &[usize]) -> Option<usize> {
        let mut hosts = targets.iter().copied();
        let original =
            hosts.find(|&host| !self.hosts.is_node(host) && self.process(host).is_some());
        let earlier = self.plan.faults[..index].iter();
        let earlier = earlier.filter(|fault| fault.kind == "clone_client").count();
        let clone = self.hosts.clients.len() + earlier;
        let original = original.filter(|_| clone < self.services.len())?;
        let mut copy = self.services[original - self.hosts.nodes].clone();
        let asked = std::mem::take(&mut copy.callers.asked);
        copy.callers = copy.callers.reborn();
        copy.callers.asked = asked;
        copy.process = Process::DOWN;
        copy.process.start();
        self.services[clone] = copy;
        self.begin_callers(clone);
        let host = self.hosts.nodes + clone;
        self.set(host, MS, Timer::Look);
        Some(host)
    }

    fn next_request(&mut self) -> RequestId {
        self.requests.next()
    }

    fn submit(&mut self, command: Command) {
        self.operator.submit(command);
    }
}
