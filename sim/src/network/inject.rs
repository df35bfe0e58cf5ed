//! Injects faults and recovers them. A fault counts only if it took effect.

use super::fabric::Connection;
use super::node::Job;
use super::{LOOK_EVERY, MS, Network};
use crate::draw::{Draw, Of};
use crate::hosts::HostSet;
use crate::mark::Mark;
use crate::scenario::{Fault, Target};
use crate::world::clock::{QUANTUM, quantised};
use crate::world::net::{Harm, Harmed};
use aliquot_core::command::Command;

impl Network<'_> {
    /// Starts late processes, and injects and recovers the faults that are due.
    pub(super) fn befall_due(&mut self) {
        for client_host in &self.client_hosts {
            if client_host.lock().process == 0 && self.now >= client_host.group.start {
                client_host.start();
                self.fabric
                    .set_up(self.hosts.nodes + client_host.number, true);
            }
        }
        let over = self
            .active
            .iter()
            .filter(|(_, (until, _))| *until <= self.now);
        let over: Vec<usize> = over.map(|(index, _)| *index).collect();
        over.into_iter().for_each(|index| self.recover(index));
        while let Some(fault) = self
            .plan
            .faults
            .get(self.next_fault)
            .filter(|fault| fault.at <= self.now)
        {
            let (index, fault) = (self.next_fault, fault.clone());
            self.next_fault += 1;
            if !self.calmed {
                self.inject(index, &fault);
            }
        }
        self.strobe();
        self.bury();
    }

    fn found(&self, targets: &[Target], index: usize) -> Vec<usize> {
        let mut draw = Draw::of(self.plan.seed, Of::Fault, 1 << 40, index as u64);
        let each = targets.iter();
        let mut found: Vec<usize> = each
            .flat_map(|target| self.hosts.find(target, self.leader, &mut draw))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn inject(&mut self, index: usize, fault: &Fault) {
        let targets = match fault.target.is_empty() {
            true if fault.kind == "leader_transfer" => Vec::new(),
            true => self.found(&[Target::All], index),
            false => self.found(&fault.target, index),
        };
        let took = self.befall(index, fault, &targets);
        let some = targets.iter().take(6);
        let names: Vec<String> = some.map(|&host| self.hosts.name(host)).collect();
        let what = format!("{} {}", fault.kind, names.join(" "));
        self.show("fault", targets.first().copied(), || {
            format!("{what}{}", if took { "" } else { ": no effect" })
        });
        if !took {
            return;
        }
        if self.leader.is_some_and(|leader| targets.contains(&leader)) {
            self.marks.hit(Mark::StruckLeader);
        }
        let down = (0..self.hosts.nodes)
            .filter(|&node| !self.fabric.is_up(node) || self.fabric.hosts[node].frozen().is_some());
        if 2 * down.count() >= self.hosts.nodes {
            self.marks.hit(Mark::NoQuorum);
        }
        let lasts = match fault.kind {
            "clock_step" | "leader_transfer" | "budget_change" | "reset" => 0,
            _ => fault.lasts,
        };
        self.timeline
            .faults
            .push((self.now, self.now + lasts, what));
    }

    /// Injects a fault. Returns true if it took effect.
    fn befall(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
        let until = self.now + fault.lasts;
        match fault.kind {
            "partition" | "one_way" | "blackhole" | "delay" | "loss" | "duplicate" => {
                self.harm_links(index, fault, targets)
            }
            "slow" => {
                let set = HostSet::of(targets.iter().copied());
                let by = quantised(fault.by.unsigned_abs());
                self.fabric
                    .with_net(|net| net.slow.insert(index as u64, (set, by)));
                self.active.insert(index, (until, targets.to_vec()));
                true
            }
            "clock_step" => {
                targets
                    .iter()
                    .for_each(|&host| self.step_clock(host, fault, fault.by));
                !targets.is_empty()
            }
            "strobe" => {
                self.active.insert(index, (until, targets.to_vec()));
                true
            }
            "reset" => {
                let on = |ends: [usize; 2]| ends.iter().any(|end| targets.contains(end));
                let count = self.fabric.each(on, Connection::reset);
                self.fabric.count_resets(count);
                count > 0
            }
            "leader_transfer" => self.transfer(targets),
            "budget_change" => self.change_budget(fault),
            "budget_delete" => self.delete_budget(index, fault),
            _ => {
                let each = targets.iter().copied();
                let affected: Vec<usize> =
                    each.filter(|&host| self.befall_host(fault, host)).collect();
                let took = !affected.is_empty();
                if took {
                    let lasts = if fault.kind == "restart" {
                        50 * MS
                    } else {
                        fault.lasts
                    };
                    self.active.insert(index, (self.now + lasts, affected));
                }
                took
            }
        }
    }

    /// Applies a fault to one host. Returns true if it took effect.
    fn befall_host(&mut self, fault: &Fault, host: usize) -> bool {
        let (now, is_node) = (self.now, self.hosts.is_node(host));
        match fault.kind {
            "crash" => self.crash(host, Connection::sever),
            "restart" => self.crash(host, Connection::reset),
            "client_churn" => !is_node && self.crash(host, Connection::reset),
            "pause" => self.pause(host, fault.lasts),
            "suspend" | "vm_pause" if !self.pause(host, fault.lasts) => false,
            "suspend" => {
                self.fabric.hosts[host].with_clock(|clock| clock.suspend(now));
                true
            }
            "vm_pause" => {
                self.fabric.hosts[host].with_clock(|clock| clock.freeze(now));
                true
            }
            "clock_rate" => {
                self.fabric.hosts[host].with_clock(|clock| clock.run_at(now, fault.ppm));
                true
            }
            "store_error" if is_node && self.fabric.is_up(host) => {
                let disk = self.node_hosts[host].lock().disk.clone();
                disk.is_some_and(|disk| {
                    disk.fail();
                    true
                })
            }
            _ => false,
        }
    }

    fn harm_links(&mut self, index: usize, fault: &Fault, targets: &[usize]) -> bool {
        let mut side = targets.to_vec();
        if fault.with_clients && matches!(fault.kind, "partition" | "delay" | "loss" | "duplicate")
        {
            let homes = self.hosts.homes.iter().enumerate();
            let theirs = homes.filter(|(_, home)| targets.contains(home));
            side.extend(theirs.map(|(client, _)| self.hosts.nodes + client));
        }
        let last = self.hosts.count();
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
            _ => (Harm::Cut, true),
        };
        if fault.kind == "blackhole" {
            // A black hole also swallows the data in flight, and every connection across it.
            let crosses = |ends: [usize; 2]| {
                (side.contains(&ends[0]) && to.contains(&ends[1]))
                    || (side.contains(&ends[1]) && to.contains(&ends[0]))
            };
            self.fabric.each(crosses, Connection::sever);
        }
        let takes = !side.is_empty() && !to.is_empty();
        let harmed = Harmed {
            harm,
            from: HostSet::of(side.iter().copied()),
            to: HostSet::of(to),
            both,
        };
        self.fabric.with_net(|net| net.harm(index as u64, harmed));
        self.active.insert(index, (self.now + fault.lasts, side));
        takes
    }

    /// Kills the process of a host and ends its connections by `how`. Returns false if no process was
    /// running.
    fn crash(&mut self, host: usize, how: impl Fn(&Connection)) -> bool {
        if !self.fabric.is_up(host) {
            return false;
        }
        self.fabric.set_up(host, false);
        self.fabric.each(|ends| ends.contains(&host), how);
        if !self.hosts.is_node(host) {
            return self.client_hosts[host - self.hosts.nodes].kill();
        }
        self.sim.crash(format!("n{}", host + 1));
        let mut inner = self.node_hosts[host].lock();
        (inner.jobs, inner.failed) = (None, None);
        if let Some(disk) = inner.disk.take() {
            // Some of the writes that were not flushed yet reach the disk, the others are lost.
            let mut draw = Draw::of(self.plan.seed, Of::Fault, 2 << 40 | host as u64, self.now);
            inner.image = Some(disk.after_crash(draw.index(disk.waiting() + 1)));
        }
        true
    }

    fn restart(&mut self, host: usize) {
        if self.fabric.is_up(host) {
            return;
        }
        self.fabric.set_up(host, true);
        match self.hosts.is_node(host) {
            true => self.sim.bounce(format!("n{}", host + 1)),
            false => self.client_hosts[host - self.hosts.nodes].start(),
        }
        self.fabric.wake_all();
    }

    /// Stops nodes whose log has failed, as `aliquot serve` does.
    fn bury(&mut self) {
        for node in 0..self.hosts.nodes {
            let failed = self.node_hosts[node].lock().failed.clone();
            if let Some(why) = failed {
                self.show("failed", Some(node), || why);
                self.crash(node, Connection::reset);
            }
        }
    }

    fn pause(&mut self, host: usize, span: u64) -> bool {
        let until = quantised(self.now + span);
        let takes = self.fabric.is_up(host) && self.fabric.hosts[host].frozen().is_none();
        if takes {
            self.fabric.hosts[host].freeze(until);
            self.lasts = self.lasts.max(until);
        }
        takes
    }

    fn step_clock(&self, host: usize, fault: &Fault, by: i64) {
        let by = by / QUANTUM as i64 * QUANTUM as i64;
        let now = self.now;
        self.fabric.hosts[host].with_clock(|clock| match fault.wall {
            true => clock.step_wall(now, by),
            false => clock.step_boot(now, by),
        });
    }

    /// Steps clocks back and forth for as long as a strobe lasts.
    fn strobe(&mut self) {
        for (&index, (_, hosts)) in &self.active {
            let fault = &self.plan.faults[index];
            let since = self.now.saturating_sub(fault.at);
            let period = fault.period.max(MS);
            if fault.kind != "strobe" || since % period >= MS {
                continue;
            }
            let by = if (since / period).is_multiple_of(2) {
                fault.by
            } else {
                -fault.by
            };
            hosts
                .iter()
                .for_each(|&host| self.step_clock(host, fault, by));
        }
    }

    fn transfer(&mut self, targets: &[usize]) -> bool {
        let Some(leader) = self.leader else {
            return false;
        };
        let all = targets.iter().copied().chain(0..self.hosts.nodes);
        let mut heirs = all
            .filter(|&node| self.hosts.is_node(node) && node != leader && self.fabric.is_up(node));
        let heir = heirs.next();
        heir.is_some_and(|heir| self.node_hosts[leader].ask(Job::Transfer(heir as u64 + 1)))
    }

    fn change_budget(&mut self, fault: &Fault) -> bool {
        let Ok((_, budget)) = self.plan.scenario.changed(&fault.set) else {
            return false;
        };
        for key in &mut self.timeline.keys {
            if budget.key().as_str() == key.key {
                key.change(self.now, &budget);
            }
        }
        self.marks.hit(Mark::LimitChanged);
        let request = self.request();
        let command = Command::PutRule {
            request,
            budget,
            creator: None,
        };
        self.asked.push((command, 0));
        true
    }

    /// Deletes a budget. It is written again when the fault is over.
    fn delete_budget(&mut self, index: usize, fault: &Fault) -> bool {
        let changed = self.plan.scenario.changed(&fault.set);
        let rule = changed
            .ok()
            .and_then(|(_, budget)| Some(self.state.rule_named(budget.key())?.0));
        let Some(rule) = rule else { return false };
        self.marks.hit(Mark::BudgetDeleted);
        let request = self.request();
        self.asked.push((Command::DeleteRule { request, rule }, 0));
        let until = self.now + fault.lasts;
        self.active.insert(index, (until, Vec::new()));
        true
    }

    /// Submits the commands of operators to one node after the other, until they are applied.
    pub(super) fn operate(&mut self) {
        const AGAIN: u64 = 20 * LOOK_EVERY;
        for node_host in &self.node_hosts {
            let done = std::mem::take(&mut node_host.lock().done);
            self.asked.retain(|(command, _)| !done.contains(command));
        }
        let (now, up) = (
            self.now,
            (0..self.hosts.nodes).filter(|&node| self.fabric.is_up(node)),
        );
        let up: Vec<usize> = up.collect();
        for (command, at) in &mut self.asked {
            if up.is_empty() || (*at > 0 && now < *at + AGAIN) {
                continue;
            }
            let node = up[(now / AGAIN) as usize % up.len()];
            self.node_hosts[node].ask(Job::Write(Box::new(command.clone())));
            *at = now.max(1);
        }
    }

    fn recover(&mut self, index: usize) {
        let Some((_, affected)) = self.active.remove(&index) else {
            return;
        };
        let fault = self.plan.faults[index].clone();
        self.show("over", affected.first().copied(), || fault.kind.to_owned());
        self.fabric.with_net(|net| net.recover(index as u64));
        self.fabric.wake_all();
        if fault.kind == "budget_delete" {
            self.change_budget(&fault);
        }
        let now = self.now;
        for host in affected {
            match fault.kind {
                "crash" | "restart" | "client_churn" => self.restart(host),
                "store_error" => {
                    // The node may still be running if it has not written since the fault.
                    self.crash(host, Connection::reset);
                    self.restart(host);
                }
                "suspend" => self.fabric.hosts[host].with_clock(|clock| clock.wake(now)),
                "vm_pause" => {
                    let paused = quantised(fault.lasts);
                    self.fabric.hosts[host].with_clock(|clock| clock.thaw(now, paused));
                }
                "clock_rate" => self.fabric.hosts[host].with_clock(|clock| {
                    let usual = clock.usual();
                    clock.run_at(now, usual);
                }),
                _ => {}
            }
        }
    }

    /// Ends the safety phase: recovers all active faults. Pauses are left to end by themselves.
    pub(super) fn calm(&mut self) {
        self.calmed = true;
        let lasting: Vec<usize> = self.active.keys().copied().collect();
        for index in lasting {
            let kind = self.plan.faults[index].kind;
            if !matches!(kind, "pause" | "suspend" | "vm_pause") {
                self.recover(index);
            }
        }
    }
}
