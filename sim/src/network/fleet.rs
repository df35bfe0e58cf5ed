//! The hosts, links and budgets of the network tier, as faults affect them.

use super::fabric::Connection;
use super::node::{Job, NodeSnapshot};
use super::operator::Order;
use super::reach::host_name;
use super::{LOOK_EVERY, Network};
use crate::clock::{Clock, MS};
use crate::draw::{Draw, Of};
use crate::faults::{self, Fleet, Lasting, Stop};
use crate::hosts::Hosts;
use crate::mark::Mark;
use crate::net::Net;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::scenario::{DamagedPart, MemberChange};
use aliquot_core::command::Command;
use aliquot_core::state::State;
use aliquot_core::unit::{NodeId, RequestId};

impl Network<'_> {
    /// Starts late processes, and injects and recovers the faults that are due.
    pub(super) fn run_faults(&mut self) {
        for client_host in &self.client_hosts {
            if client_host.lock().process == 0 && self.now >= client_host.group.start {
                client_host.start();
                self.fabric
                    .set_up(self.hosts.nodes + client_host.number, true);
            }
        }
        for index in self.lasting.over(self.now) {
            faults::recover(self, index);
        }
        let (from, now) = (self.next_fault, self.now);
        let rest = self.plan.faults[from..].iter();
        self.next_fault += rest.take_while(|fault| fault.at <= now).count();
        (from..self.next_fault).for_each(|index| faults::inject(self, index));
        self.strobe();
        self.stop_failed();
        self.stop_departed();
    }

    /// Stops nodes whose log has failed, as `aliquot serve` does.
    fn stop_failed(&mut self) {
        for node in 0..self.hosts.nodes {
            let failed = self.node_hosts[node].lock().failed.clone();
            if let Some(why) = failed {
                self.observer.show(self.now, "failed", Some(node), || why);
                self.stop(node, Stop::Exit);
            }
        }
    }

    /// Ends the processes of nodes that have left. A departing node that does not run is removed then.
    fn stop_departed(&mut self) {
        for node in 0..self.hosts.nodes {
            let (departs, left) = {
                let inner = self.node_hosts[node].lock();
                (inner.departs, inner.left)
            };
            if let Some(returned) = left {
                self.observer.marks.hit_if(returned, Mark::NodeLeft);
                self.stop(node, Stop::Exit);
            }
            let id = NodeId::new(node as u64 + 1);
            if departs && !self.fabric.is_up(node) && !self.state.was_removed(id) {
                self.order(Order::Remove(node));
            }
        }
    }

    /// Gives an order to the operators, unless they have it already.
    fn order(&mut self, order: Order) {
        if self.orders.iter().all(|(known, _)| *known != order) {
            self.orders.push((order, 0));
        }
    }

    /// Gives orders of operators to one node after the other, until they are carried out. A node that was removed
    /// while it ran is stopped then.
    pub(super) fn operate(&mut self) {
        const AGAIN: u64 = 20 * LOOK_EVERY;
        let done = self
            .node_hosts
            .iter()
            .flat_map(|node_host| std::mem::take(&mut node_host.lock().done));
        let done: Vec<Order> = done.collect();
        for (order, _) in self
            .orders
            .extract_if(.., |(order, _)| done.contains(order))
        {
            if let Order::Remove(node) = order {
                // Has no effect if it does not run any more.
                self.node_hosts[node].ask(Job::Leave);
            }
        }
        let now = self.now;
        for (order, at) in &mut self.orders {
            let takes = |node: &usize| self.fabric.is_up(*node) && !order.concerns(*node);
            let nodes: Vec<usize> = (0..self.hosts.nodes).filter(takes).collect();
            if nodes.is_empty() || (*at > 0 && now < *at + AGAIN) {
                continue;
            }
            let node = nodes[(now / AGAIN) as usize % nodes.len()];
            self.node_hosts[node].ask(Job::CarryOut(order.clone()));
            *at = now.max(1);
        }
    }

    /// Steps clocks back and forth for as long as strobes last.
    fn strobe(&mut self) {
        let lasting: Vec<usize> = self.lasting.indices().collect();
        for index in lasting {
            let fault = &self.plan.faults[index];
            let since = self.now.saturating_sub(fault.at);
            let period = fault.period.max(MS);
            if fault.kind == "strobe" && since % period < MS {
                faults::strobe(self, index, since / period);
            }
        }
    }
}

impl Fleet for Network<'_> {
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
        &self.state
    }

    fn leader(&self) -> Option<usize> {
        self.leader
    }

    fn is_up(&self, host: usize) -> bool {
        self.fabric.is_up(host)
    }

    fn is_paused(&self, host: usize) -> bool {
        self.fabric.hosts[host].frozen().is_some()
    }

    fn is_leased(&self, client: usize) -> bool {
        let session = self.client_hosts[client].session();
        let session = session.as_ref();
        session.is_some_and(|client| !client.status().lease.is_zero())
    }

    fn lasting(&mut self) -> &mut Lasting {
        &mut self.lasting
    }

    fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }

    fn ends_after(&mut self, _: usize, _: u64) {}

    fn begin_strobe(&mut self, _: usize) {}

    fn with_net<T>(&mut self, change: impl FnOnce(&mut Net) -> T) -> T {
        self.fabric.with_net(change)
    }

    fn swallow(&mut self, from: &[usize], to: &[usize]) {
        let crosses = |ends: [usize; 2]| {
            (from.contains(&ends[0]) && to.contains(&ends[1]))
                || (from.contains(&ends[1]) && to.contains(&ends[0]))
        };
        self.fabric.each(crosses, Connection::sever);
    }

    fn wake_links(&mut self) {
        self.fabric.wake_all();
    }

    fn with_clock<T>(&mut self, host: usize, change: impl FnOnce(&mut Clock) -> T) -> T {
        self.fabric.hosts[host].with_clock(change)
    }

    fn stop(&mut self, host: usize, how: Stop) -> bool {
        if !self.fabric.is_up(host) {
            return false;
        }
        self.fabric.set_up(host, false);
        let end = match how {
            Stop::PowerLoss => Connection::sever,
            Stop::Exit => Connection::reset,
        };
        self.fabric.each(|ends| ends.contains(&host), end);
        if !self.hosts.is_node(host) {
            return self.client_hosts[host - self.hosts.nodes].kill();
        }
        self.sim.crash(host_name(host));
        let mut inner = self.node_hosts[host].lock();
        (inner.jobs, inner.failed, inner.left) = (None, None, None);
        // The next process leads nothing, until a look at it shows otherwise.
        inner.snapshot = NodeSnapshot::default();
        if let Some(disk) = inner.disk.take() {
            // Some of the writes that were not flushed yet reach the disk, the others are lost.
            let mut draw = Draw::of(self.plan.seed, Of::Fault, 2 << 40 | host as u64, self.now);
            inner.image = Some(disk.after_crash(draw.index(disk.waiting() + 1)));
        }
        true
    }

    fn start(&mut self, host: usize) {
        let departs = |node: usize| self.node_hosts[node].lock().departs;
        if self.fabric.is_up(host) || (self.hosts.is_node(host) && departs(host)) {
            return;
        }
        self.fabric.set_up(host, true);
        match self.hosts.is_node(host) {
            true => self.sim.bounce(host_name(host)),
            false => self.client_hosts[host - self.hosts.nodes].start(),
        }
        self.fabric.wake_all();
    }

    fn pause(&mut self, host: usize, until: u64) -> bool {
        let takes = self.fabric.is_up(host) && self.fabric.hosts[host].frozen().is_none();
        if takes {
            self.fabric.hosts[host].freeze(until);
        }
        takes
    }

    fn break_disk(&mut self, node: usize) -> bool {
        let disk = self.node_hosts[node].lock().disk.clone();
        let disk = disk.filter(|_| self.fabric.is_up(node));
        disk.is_some_and(|disk| {
            disk.fail();
            true
        })
    }

    fn repair_disk(&mut self, node: usize) {
        // The node may still be running if it has not written since the fault.
        self.stop(node, Stop::Exit);
        self.start(node);
    }

    fn damage_disk(&mut self, node: usize, part: DamagedPart) -> bool {
        let draw = Draw::of(self.plan.seed, Of::Fault, 3 << 40 | node as u64, self.now);
        let mut inner = self.node_hosts[node].lock();
        match (inner.disk.clone(), &mut inner.image) {
            (Some(disk), _) => disk.damage(part, draw),
            (None, Some(image)) => image.damage(part, draw),
            (None, None) => false,
        }
    }

    fn slow_disk(&mut self, node: usize, by: u64) {
        self.node_hosts[node].flush.make_slower(by);
    }

    fn reset(&mut self, hosts: &[usize]) -> bool {
        let on = |ends: [usize; 2]| ends.iter().any(|end| hosts.contains(end));
        let count = self.fabric.each(on, Connection::reset);
        self.fabric.count_resets(count);
        count > 0
    }

    fn transfer(&mut self, leader: usize, heir: usize) -> bool {
        self.node_hosts[leader].ask(Job::Transfer(heir as u64 + 1))
    }

    fn change_members(&mut self, node: usize, change: MemberChange) -> bool {
        if self.node_hosts[node].lock().departs {
            return false;
        }
        match change {
            MemberChange::Join if self.fabric.is_up(node) => return false,
            MemberChange::Join => {
                self.start(node);
                self.order(Order::Add(node));
                return true;
            }
            MemberChange::Leave if !self.node_hosts[node].ask(Job::Leave) => return false,
            MemberChange::Leave => {}
            MemberChange::Remove => self.order(Order::Remove(node)),
        }
        self.node_hosts[node].lock().departs = true;
        true
    }

    fn clone_client(&mut self, _: usize, _: &[usize]) -> Option<usize> {
        None
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::new(self.requests)
    }

    fn submit(&mut self, command: Command) {
        self.order(Order::Write(Box::new(command)));
    }
}
