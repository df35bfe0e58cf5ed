//! The shell of a coordinator node: the log, the replica, the leader's state machine, and the node's own once
//! it has joined. The shell handles the consequences of an input at once, as the real process does.

use super::World;
use super::event::{Message, Timer};
use super::host::Balance;
use super::log::AGAIN;
use crate::clock::MS;
use crate::draw::{Draw, Of};
use crate::mark::Mark;
use aliquot_budgets::zones::Iana;
use aliquot_core::command::Command;
use aliquot_core::leader::{Leader, Pace};
use aliquot_core::node::{Node, NodeOutput};
use aliquot_core::unit::{Edge, NodeId, Span, Tick};
use std::rc::Rc;

impl World {
    const URGENT: Span = Span::from_millis(10);
    const UNLEASED: Span = Span::from_millis(100);

    pub(super) fn pace(&self) -> Pace {
        Pace {
            round: Span::from_nanos(self.plan.scenario.lease.round),
            report: Span::from_nanos(self.plan.scenario.lease.report_every),
            ..Pace::default()
        }
    }

    /// Draws the next election timeout of a node.
    fn log_patience(&mut self, node: usize) -> u64 {
        let lease = &self.plan.scenario.lease;
        let bounds = (lease.election_min, lease.election_max);
        let host = &mut self.nodes[node];
        host.timers += 1;
        Draw::of(self.seed, Of::Timer, node as u64, host.timers).range(bounds.0, bounds.1)
    }

    /// Starts a process on a node's disk. It replays the end of the log, which must change nothing.
    pub(super) fn start_node(&mut self, node: usize) {
        let (now, pace) = (self.now, self.pace());
        let patience = match (node, now) {
            // The first node forms the cluster, and leads it.
            (0, 0) => 0,
            _ => self.log_patience(node),
        };
        self.mark_start(node);
        self.apply_rest(node);
        let host = &mut self.nodes[node];
        host.process.start();
        host.latest = host.clock.read(now);
        host.log.restart(host.latest.nanos(), patience);
        host.leader = Leader::new(pace).in_zones(&Iana);
        host.leader.follow_silences(&host.state, host.latest);
        (host.leads, host.ready_since, host.node) = (None, None, None);
        (host.applying, host.report_urgent, host.jumps) = (false, true, None);
        host.barriers.clear();
        host.sessions.clear();
        host.reports.clear();
        host.wanted.clear();
        host.heard.clear();
        host.balance = Balance::default();
        let applied = host.state.applied();
        let mut again = Vec::new();
        for index in applied.saturating_sub(8) + 1..=applied {
            let entry = host.log.entries[index as usize - 1].clone();
            again.extend(host.state.apply(index, entry.command.as_deref()));
        }
        if !again.is_empty() {
            self.observer.oracle.commits.replayed(now, node, &again);
        }
        let host = &mut self.nodes[node];
        host.join = Some(self.requests.next());
        host.asked = None;
        let jitter = Draw::of(self.seed, Of::Timer, node as u64, 1 << 40).range(0, 20 * MS);
        self.set(node, jitter, Timer::LogTick);
        self.set(node, jitter, Timer::NodeTick);
        self.settle(node);
    }

    pub(super) fn node_timer(&mut self, node: usize, timer: Timer) {
        match timer {
            Timer::LogTick => {
                let patience = self.log_patience(node);
                let host = &mut self.nodes[node];
                let now = host.clock.read(self.now).nanos();
                host.log.tick(now, patience);
                let beat = host.clock.true_span(self.plan.scenario.lease.heartbeat / 2);
                self.set(node, beat, Timer::LogTick);
            }
            Timer::NodeTick => {
                self.tick_node(node);
                let span = self.nodes[node]
                    .clock
                    .true_span(self.plan.scenario.lease.tick);
                self.set(node, span, Timer::NodeTick);
            }
            Timer::Apply => self.apply(node),
            Timer::Look | Timer::Arrival | Timer::Retry(_) | Timer::Done => {}
        }
        self.settle(node);
    }

    fn tick_node(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let now = host.look(self.now);
        let jumped = host.jumped(now, host.clock.wall_ms(self.now));
        if let Some(machine) = &mut host.node {
            if jumped {
                machine.clock_jumped(now);
                self.observer.marks.hit(Mark::NodeClockJumped);
            }
            let before = machine.is_leased(now);
            machine.tick(now);
            if !before && machine.holder().counters().next().is_some() {
                self.observer.marks.hit(Mark::NodeWithoutLease);
            }
        }
        let due = host
            .asked
            .is_none_or(|asked| now.since(asked).nanos() >= AGAIN);
        let wanted: Vec<usize> = host.wanted.iter().copied().collect();
        if due && (host.join.is_some() || !wanted.is_empty()) {
            host.asked = Some(now);
            self.ask_for_incarnation(node);
            for key in wanted {
                self.instantiate(node, key);
            }
        }
        self.balance(node, now);
        self.keep_leaving(node);
    }

    fn ask_for_incarnation(&mut self, node: usize) {
        let host = &self.nodes[node];
        let request = host.join.filter(|_| !host.departs);
        if let Some(request) = request {
            let node_id = NodeId::new(node as u64 + 1);
            self.propose(
                node,
                Command::Join {
                    node: node_id,
                    request,
                },
            );
        }
    }

    pub(super) fn instantiate(&mut self, node: usize, key: usize) {
        let host = &self.nodes[node];
        let creator = host.node.as_ref().map(Node::incarnation);
        let keys = vec![self.keys.keys[key].to_string()];
        self.propose(node, Command::Instantiate { keys, creator });
    }

    /// Passes a command to the leader, as far as this node knows which node leads.
    pub(super) fn propose(&mut self, node: usize, command: Command) {
        let host = &mut self.nodes[node];
        if host.log.is_leader() {
            host.log.propose(command);
        } else if let Some(to) = host.log.hint {
            self.send(node, to, Message::Propose(Rc::new(command)));
        }
    }

    pub(super) fn node_receives(&mut self, from: usize, node: usize, message: Message) {
        let now = self.nodes[node].look(self.now);
        match message {
            Message::Log(message) => {
                // Messages between members of the log concern only the log. The rest of the node is affected
                // only if leadership changes, entries are committed or a quorum has answered.
                let host = &mut self.nodes[node];
                let hint = host.log.hint;
                host.log.handle(from, &message, now.nanos());
                if host.log.hint != hint {
                    // What a former leader was asked for is asked of the new one at the next tick.
                    host.asked = None;
                }
                if !self.follow_log(node) {
                    self.flush_log(node);
                    return;
                }
            }
            Message::Propose(command) => {
                self.nodes[node].log.propose((*command).clone());
            }
            Message::Report {
                report,
                sessions,
                relayed,
            } => {
                self.node_receives_report(node, (report, sessions), relayed, now);
                if self.nodes[node].leads.is_none() {
                    return;
                }
            }
            Message::Answer { answer, relayed } => {
                let target = self.incarnations.get(&answer.edge.child).copied();
                if target != Some(node) {
                    self.relay_answer((from, node), target.filter(|_| !relayed), answer);
                    return;
                }
                let incarnation = self.nodes[node].node.as_ref().map(Node::incarnation);
                let former = incarnation != Some(answer.edge.child);
                self.observer
                    .marks
                    .hit_if(former, Mark::AnswerOfFormerIncarnation);
                self.observer.marks.hit_if(relayed, Mark::AnswerRelayed);
                let host = &mut self.nodes[node];
                if let Some(machine) = &mut host.node {
                    let ended = |budget| host.state.has_ended(budget);
                    machine.handle_answer_but(&answer, now, ended);
                }
            }
            Message::ClientReport(report) => {
                self.mark_client_report(node, &report);
                self.rename(from, node, &report);
                let host = &mut self.nodes[node];
                if let Some(machine) = &mut host.node {
                    let ended = |budget| host.state.has_ended(budget);
                    machine.handle_report_under(&report, now, |_| None, ended);
                    // The refusal of an edge of another incarnation must find its way as well.
                    self.drain_to(node, Some((report.edge, from)));
                }
            }
            other => self.node_receives_from_client(from, node, other, now),
        }
        self.settle(node);
    }

    /// Handles the consequences of an input: elections, commits, rounds, answers and reports.
    pub(super) fn settle(&mut self, node: usize) {
        self.follow_log(node);
        self.lead(node);
        let host = &mut self.nodes[node];
        let now = host.look(self.now);
        if let Some(machine) = &mut host.node {
            machine.flush_urgent(now);
        }
        self.drain_to(node, None);
        self.report_if_due(node, now);
        self.flush_log(node);
    }

    pub(super) fn report_if_due(&mut self, node: usize, now: Tick) {
        let wall = self.nodes[node].clock.wall_ms(self.now);
        let host = &mut self.nodes[node];
        let usual = host.leader.report_every();
        let Some(machine) = &mut host.node else {
            return;
        };
        host.report_urgent |= machine.take_report_urgent();
        let every = match (machine.is_leased(now), host.report_urgent) {
            (_, true) => Self::URGENT,
            (false, false) => Self::UNLEASED,
            (true, false) => usual,
        };
        if now.since(host.reported) < every {
            return;
        }
        (host.reported, host.report_urgent) = (now, false);
        let Some(report) = machine.report(now, wall) else {
            return;
        };
        let report = Rc::new(report);
        let (child, seq) = (report.edge.child, report.seq);
        let patience = &mut self.observer.oracle.patience;
        patience.reported(self.now, child, seq);
        let sessions = self.nodes[node].announced(now);
        for to in 0..self.hosts.nodes {
            if to != node {
                let report = Rc::clone(&report);
                self.send(
                    node,
                    to,
                    Message::Report {
                        report,
                        sessions,
                        relayed: false,
                    },
                );
            }
        }
        self.node_receives_report(node, (report, sessions), true, now);
        self.drain_to(node, None);
    }

    /// Sends the answers of the node's state machine. `asker` is the client whose report was just handled,
    /// with its edge. It receives the answer even if its edge is unknown here.
    pub(super) fn drain_to(&mut self, node: usize, asker: Option<(Edge, usize)>) {
        let Some(machine) = &mut self.nodes[node].node else {
            return;
        };
        let incarnation = machine.incarnation();
        for output in machine.poll_outputs() {
            match output {
                NodeOutput::Answer(answer) => {
                    let asked = asker.filter(|(edge, _)| *edge == answer.edge);
                    let known = self.nodes[node].sessions.get(&answer.edge.child);
                    let known = known.copied().filter(|_| answer.edge.parent == incarnation);
                    if let Some(to) = asked.map(|(_, to)| to).or(known) {
                        self.send(node, to, Message::ClientAnswer(answer));
                    }
                }
                NodeOutput::Rejoin => {
                    self.observer.marks.hit(Mark::NodeRejoined);
                    self.nodes[node].join = Some(self.requests.next());
                }
            }
        }
    }
}
