//! The leadership of a node: elections, barriers, rounds, commits, and answers to other nodes.

use super::World;
use super::event::{Message, Timer};
use super::host::Coordinator;
use super::log::LogMessage;
use crate::clock::MS;
use crate::mark::Mark;
use aliquot_core::command::{Changes, Command};
use aliquot_core::leader::LeaderOutput;
use aliquot_core::message::{Answer, Report};
use aliquot_core::node::Node;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{Term, Tick};
use std::rc::Rc;

impl World {
    /// Time between two slices of an entry, in nanoseconds.
    const SLICE: u64 = MS;

    pub(super) fn lead(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        if host.leads.is_none() {
            return;
        }
        let now = host.look(self.now);
        host.leader.learn_earlier(host.log.earlier_until());
        for output in host.leader.tick(&host.state, now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let probe = host.log.probe(now);
                    host.barriers.push((barrier, probe));
                }
                LeaderOutput::Propose(command) => {
                    if let Command::Round(changes) = &command {
                        let since = host.ready_since.map(|ready_since| now.since(ready_since));
                        self.observer.proposed(self.now, changes, since);
                    }
                    if !host.log.propose(command) {
                        self.observer.marks.hit(Mark::RoundRefused);
                        host.leader.refused(&host.state, now);
                    }
                }
            }
        }
        for answer in host.leader.poll_answers(&host.state, now) {
            self.tell(node, answer);
        }
    }

    /// Follows changes of leadership, and barriers that a quorum has answered. Returns true if there was any.
    pub(super) fn follow_log(&mut self, node: usize) -> bool {
        let host = &mut self.nodes[node];
        let now = host.look(self.now);
        let leads = host.log.is_leader().then_some(host.log.term);
        let mut changed = leads != host.leads;
        if changed {
            if host.leads.is_some() {
                host.leader.deposed();
                self.observer.marks.hit(Mark::LeaderDeposed);
                let waited = !host.barriers.is_empty();
                self.observer.marks.hit_if(waited, Mark::BarrierVoid);
            }
            host.barriers.clear();
            (host.leads, host.ready_since) = (leads, None);
            if let Some(term) = leads {
                host.leader.elected(Term::new(term), &host.state, now);
                self.observer.elected(self.now, node);
                host.log.propose(Command::Round(Changes::default()));
            }
        }
        if !host.barriers.is_empty() {
            changed |= self.handle_quorum(node, now);
        }
        changed
    }

    /// Handles barriers that a quorum has answered. Returns true if there was any.
    fn handle_quorum(&mut self, node: usize, now: Tick) -> bool {
        let host = &mut self.nodes[node];
        let probed = host.log.probed();
        let mut answers: Vec<Answer> = Vec::new();
        let before = host.barriers.len();
        let (leader, state) = (&mut host.leader, &host.state);
        host.barriers.retain(|&(barrier, probe)| {
            if probe <= probed {
                answers.extend(leader.acknowledged(barrier, state, now));
            }
            probe > probed
        });
        let heard = host.barriers.len() < before;
        for answer in answers {
            self.tell(node, answer);
        }
        heard
    }

    /// Sends the messages of the log, and schedules the application of committed entries.
    pub(super) fn flush_log(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let mut out: Vec<(usize, LogMessage)> = std::mem::take(&mut host.log.out);
        let noted = std::mem::take(&mut host.log.noted);
        self.observer
            .marks
            .hit_if(noted.conflict, Mark::EntriesTruncated);
        self.observer.marks.hit_if(noted.gap, Mark::AppendRefused);
        self.observer.marks.hit_if(noted.lost, Mark::ElectionLost);
        let apply = host.log.commit > host.applied_whole() && !host.applying;
        host.applying |= apply;
        for (to, message) in out.drain(..) {
            self.send(node, to, Message::Log(message));
        }
        // Puts the vector back, so that its capacity is reused.
        self.nodes[node].log.out = out;
        if apply {
            let usual = self.plan.scenario.topology.commit_delay;
            let span = usual + self.nodes[node].log.slower;
            self.set(node, span, Timer::Apply);
        }
    }

    /// Applies committed entries. Between two slices of an entry, the node does whatever else there is to do.
    pub(super) fn apply(&mut self, node: usize) {
        self.nodes[node].applying = false;
        while self.nodes[node].log.commit > self.nodes[node].applied_whole() {
            self.apply_slice(node);
            if self.nodes[node].state.is_half_applied() {
                self.nodes[node].applying = true;
                self.set(node, Self::SLICE, Timer::Apply);
                return;
            }
        }
    }

    fn apply_slice(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let index = host.applied_whole() + 1;
        let entry = host.log.entries[index as usize - 1].clone();
        let command = entry.command.as_deref();
        let effects = host.state.apply_slice(index, command, State::CLOSINGS_MAX);
        let now = host.look(self.now);
        let bounded = &mut self.observer.oracle.bounded;
        bounded.slice_applied(self.now, command, &effects);
        let host = &mut self.nodes[node];
        let term = Term::new(entry.term);
        if let (Some(leads), Some(Command::Round(changes))) = (host.leads, command)
            && entry.term < leads
            && *changes != Changes::default()
        {
            self.observer.marks.hit(Mark::EntryInherited);
            let reclaims = !changes.reclaims.is_empty();
            self.observer.marks.hit_if(reclaims, Mark::ReclaimInherited);
        }
        host.leader
            .applied(term, command, &effects, &host.state, now);
        if host.leader.is_ready() && host.ready_since.is_none() {
            host.ready_since = Some(now);
            let is_ready = |host: &&Coordinator| host.process.up && host.leader.is_ready();
            let ready = self.nodes.iter().filter(is_ready).count();
            self.observer.became_ready(self.now, node, ready);
            // The latest reports of the nodes build on the state of an earlier leader. Handling them now asks
            // each node for a complete one.
            let heard: Vec<Rc<Report>> = self.nodes[node].heard.values().cloned().collect();
            for report in heard {
                let host = &mut self.nodes[node];
                if let Some(answer) = host.leader.handle_report(&report, &host.state, now) {
                    self.tell(node, answer);
                }
            }
        }
        let host = &mut self.nodes[node];
        host.effects.extend(effects);
        if !host.state.is_half_applied() {
            let effects = std::mem::take(&mut host.effects);
            self.applied(node, command, &effects);
            self.follow(node, command, &effects);
        }
    }

    /// Applies the rest of an entry that was half applied when the process ended. A process keeps no half of an entry: it
    /// applies the whole entry anew, with the same result.
    pub(super) fn apply_rest(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        if !host.state.is_half_applied() {
            return;
        }
        let index = host.state.applied();
        let entry = host.log.entries[index as usize - 1].clone();
        let command = entry.command.as_deref();
        let mut effects = std::mem::take(&mut host.effects);
        effects.extend(host.state.apply(index, command));
        self.applied(node, command, &effects);
    }

    fn follow(&mut self, node: usize, command: Option<&Command>, effects: &[Effect]) {
        self.operator.done(command);
        let host = &mut self.nodes[node];
        if let (true, Some(machine)) = (effects.contains(&Effect::Configured), &mut host.node) {
            machine.set_drift(host.state.drift());
            machine.set_lease(host.state.lease());
        }
        if let Some(Command::Instantiate { keys: made, .. }) = command {
            let keys = &self.keys.keys;
            host.wanted
                .retain(|&wanted| made.iter().all(|key| keys[wanted].as_str() != key));
        }
        if let Some(machine) = &mut host.node {
            for ended in effects.iter().filter_map(Effect::ended) {
                machine.forget(ended);
            }
        }
        let own = host.node.as_ref().map(Node::incarnation);
        let is_removed = |effect: &Effect| matches!(effect, Effect::Leaving(incarnation) if own == Some(*incarnation));
        if effects.iter().any(is_removed) {
            // No effect on a node that leaves already.
            self.leave(node);
        }
        for effect in effects {
            let Effect::Joined {
                node: of,
                incarnation,
                request,
            } = effect
            else {
                continue;
            };
            let of = of.get() as usize - 1;
            self.incarnations.insert(*incarnation, of);
            let host = &mut self.nodes[node];
            if host.join == Some(*request) {
                let mut machine = Node::new(*incarnation, host.state.drift());
                machine.set_lease(host.state.lease());
                host.node = Some(machine);
                (host.join, host.report_urgent) = (None, true);
                host.balance.begin_incarnation(*incarnation);
                host.sessions.clear();
            }
        }
    }

    pub(super) fn tell(&mut self, leader: usize, answer: Answer) {
        let (incarnation, answer) = (answer.edge.child, Rc::new(answer));
        let drift = self.nodes[leader].state.drift();
        let patience = &mut self.observer.oracle.patience;
        patience.confirmed(incarnation, answer.answers, answer.lease, drift);
        if self.incarnations.get(&incarnation) == Some(&leader) {
            let host = &mut self.nodes[leader];
            let now = host.look(self.now);
            if let Some(machine) = host
                .node
                .as_mut()
                .filter(|machine| machine.incarnation() == incarnation)
            {
                let ended = |budget| host.state.has_ended(budget);
                machine.handle_answer_but(&answer, now, ended);
            }
            return;
        }
        for to in (0..self.hosts.nodes).filter(|&to| to != leader) {
            let answer = Rc::clone(&answer);
            self.send(
                leader,
                to,
                Message::Answer {
                    answer,
                    relayed: false,
                },
            );
        }
    }
}
