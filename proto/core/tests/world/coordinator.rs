//! A coordinator node's shell: raft, the replica, a leader (active or not), a node once it has joined.

use super::clock::{Clock, MS, SEC};
use super::net::NODES;
use super::raft::{Raft, RaftMessage};
use super::rng::Rng;
use super::{Message, Plan, Process, Timer, World};
use aliquot_core::command::Command;
use aliquot_core::leader::{Leader, LeaderOutput, Pace};
use aliquot_core::leadership::Barrier;
use aliquot_core::message::Answer;
use aliquot_core::node::{Node, NodeOutput};
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{Incarnation, NodeId, RequestId, Term, Tick};
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) clock: Clock,
    pub(crate) process: Process,
    pub(crate) raft: Raft,
    pub(crate) state: State,
    pub(crate) leader: Leader,
    /// Time at which it became ready, by its own clock.
    pub(crate) ready_since: Option<Tick>,
    leads: Option<u64>,
    barriers: Vec<(Barrier, u64)>,
    pub(crate) node: Option<Node>,
    join: RequestId,
    applying: bool,
    /// The client of each session.
    pub(super) sessions: BTreeMap<Incarnation, usize>,
}

impl Coordinator {
    pub(crate) fn new(me: usize, plan: &Plan, rng: &mut Rng) -> Self {
        let mut raft = Raft::new(me);
        if plan.stubborn {
            raft.doubt = 10 * SEC;
        }
        Self {
            clock: Clock::new(rng.range(1, 1_000 * SEC)),
            process: Process::FIRST,
            raft,
            ready_since: None,
            state: State::new(),
            leader: Leader::new(Pace::default()),
            leads: None,
            barriers: Vec::new(),
            node: None,
            join: RequestId::new(0),
            applying: false,
            sessions: BTreeMap::new(),
        }
    }
}

impl World {
    pub(super) fn start_node(&mut self, node: usize) {
        let id = NodeId::new(node as u64 + 1);
        let now = self.now;
        let host = &mut self.nodes[node];
        host.raft.restart(now);
        host.leader = Leader::new(Pace::default());
        (host.leads, host.node, host.applying) = (None, None, false);
        host.barriers.clear();
        host.sessions.clear();
        // A restart replays the end of the log; that must change nothing.
        let applied = host.state.applied();
        let mut effects = Vec::new();
        for index in applied.saturating_sub(8) + 1..=applied {
            let entry = host.raft.log[index as usize - 1].clone();
            effects.extend(host.state.apply(index, entry.command.as_deref()));
        }
        if !effects.is_empty() {
            let what = || format!("a replayed entry had an effect: {effects:?}");
            self.judge.fail("replay", now, what);
        }
        self.nodes[node].join = self.ask(|request| Command::Join { node: id, request });
        let jitter = self.rng.range(0, 30 * MS);
        self.set(node, jitter, Timer::RaftTick);
        self.set(node, jitter, Timer::NodeTick);
        self.set(node, jitter, Timer::NodeReport);
        self.settle_raft(node);
    }

    pub(super) fn node_timer(&mut self, node: usize, timer: Timer) {
        match timer {
            Timer::RaftTick => {
                let (now, host) = (self.now, &mut self.nodes[node]);
                host.raft.tick(now, &mut self.rng);
                self.settle_raft(node);
                self.set(node, 50 * MS, Timer::RaftTick);
            }
            Timer::NodeTick => {
                self.tick_node(node);
                let span = self.rng.range(20, 50) * MS;
                self.set(node, span, Timer::NodeTick);
            }
            Timer::NodeReport => {
                let leased = self.report_node(node);
                let span = if leased { 500 } else { 150 };
                let span = self.rng.range(span * 9 / 10, span * 11 / 10) * MS;
                self.set(node, span, Timer::NodeReport);
            }
            Timer::Apply => self.apply(node),
            Timer::ClientReport | Timer::Arrival | Timer::Retry | Timer::Release => {}
        }
    }

    fn tick_node(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let now = host.clock.read(self.now);
        let outputs = host.leader.tick(&host.state, now);
        for output in &outputs {
            self.watch_reclaims(node, output);
        }
        let host = &mut self.nodes[node];
        for output in outputs {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let probe = host.raft.probe();
                    host.barriers.push((barrier, probe));
                }
                LeaderOutput::Propose(command) => {
                    host.raft.propose(command);
                }
            }
        }
        if let Some(machine) = &mut host.node {
            machine.tick(now);
        }
        self.settle_raft(node);
        self.tell_nodes(node);
        self.drain_node(node);
    }

    /// Returns true if the node is leased and holds something.
    fn report_node(&mut self, node: usize) -> bool {
        let host = &mut self.nodes[node];
        let now = host.clock.read(self.now);
        let Some(machine) = &mut host.node else {
            return false;
        };
        let wall = 1_700_000_000_000 + (self.now / MS) as i64;
        let report = machine.report(now, wall);
        let leased = machine.is_leased(now);
        if let Some(report) = report {
            let report = Rc::new(report);
            for to in 0..NODES {
                let report = Rc::clone(&report);
                self.send(
                    node,
                    to,
                    Message::Report {
                        report,
                        relayed: false,
                    },
                );
            }
        }
        self.drain_node(node);
        leased
    }

    pub(super) fn node_hears(&mut self, from: usize, node: usize, message: Message) {
        match message {
            Message::Raft(message) => {
                let now = self.now;
                self.nodes[node].raft.handle(from, message, now);
                self.settle_raft(node);
            }
            Message::Report { report, relayed } => {
                let host = &mut self.nodes[node];
                let now = host.clock.read(self.now);
                if host.leads.is_some() {
                    if let Some(answer) = host.leader.handle_report(&report, &host.state, now) {
                        self.tell(node, answer);
                    }
                } else if let (false, Some(to)) = (relayed, host.raft.hint) {
                    self.send(
                        node,
                        to,
                        Message::Report {
                            report,
                            relayed: true,
                        },
                    );
                }
            }
            Message::Answer { answer, relayed } => {
                let target = self.incarnations.get(&answer.edge.child).copied();
                if target == Some(node) {
                    let host = &mut self.nodes[node];
                    let now = host.clock.read(self.now);
                    if let Some(machine) = &mut host.node {
                        machine.handle_answer(&answer, now);
                    }
                    self.drain_node(node);
                } else if let (false, Some(to)) = (relayed, target) {
                    self.send(
                        node,
                        to,
                        Message::Answer {
                            answer,
                            relayed: true,
                        },
                    );
                }
            }
            Message::Open { nonce } => {
                let host = &mut self.nodes[node];
                let now = host.clock.read(self.now);
                let edge = host
                    .node
                    .as_mut()
                    .and_then(|machine| machine.open_session(now));
                if let Some(edge) = edge {
                    host.sessions.insert(edge.child, from);
                    self.send(node, from, Message::Opened { nonce, edge });
                }
            }
            Message::ClientReport(report) => {
                let host = &mut self.nodes[node];
                let now = host.clock.read(self.now);
                if let Some(machine) = &mut host.node {
                    machine.handle_report(&report, now);
                    // The refusal of another incarnation's edge must reach its client, too.
                    self.drain_node_to(node, Some((report.edge, from)));
                }
            }
            central => self.node_hears_questions(from, node, central),
        }
    }

    pub(super) fn drain_node(&mut self, node: usize) {
        self.drain_node_to(node, None);
    }

    fn drain_node_to(&mut self, node: usize, asker: Option<(aliquot_core::unit::Edge, usize)>) {
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
                    self.say(|| format!("node {node} must join again, {incarnation} is closed"));
                    let id = NodeId::new(node as u64 + 1);
                    self.nodes[node].join = self.ask(|request| Command::Join { node: id, request });
                }
            }
        }
    }

    /// Sends raft's messages, and follows its elections and its commits.
    pub(super) fn settle_raft(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let now = host.clock.read(self.now);
        let leads = host.raft.is_leader().then_some(host.raft.term);
        if leads != host.leads {
            if host.leads.is_some() {
                host.leader.deposed();
            }
            host.barriers.clear();
            (host.leads, host.ready_since) = (leads, None);
            if let Some(term) = leads {
                host.leader.elected(Term::new(term), &host.state, now);
                self.say(|| format!("node {node} elected in term {term}"));
            }
        }
        let host = &mut self.nodes[node];
        let probed = host.raft.probed();
        let (done, waiting) = host
            .barriers
            .iter()
            .partition::<Vec<_>, _>(|(_, probe)| *probe <= probed);
        host.barriers = waiting;
        let mut answers: Vec<Answer> = Vec::new();
        for (barrier, _) in done {
            answers.extend(host.leader.acknowledged(barrier, &host.state, now));
        }
        let out: Vec<(usize, RaftMessage)> = std::mem::take(&mut host.raft.out);
        let apply = host.raft.commit > host.state.applied() && !host.applying;
        host.applying |= apply;
        for (to, message) in out {
            self.send(node, to, Message::Raft(message));
        }
        for answer in answers {
            self.tell(node, answer);
        }
        if apply {
            let stormy = self.now < self.lasts.max(self.plan.faults_to);
            let most = if stormy { self.plan.apply_ms } else { 10 };
            let span = self.rng.range(1, most) * MS;
            self.set(node, span, Timer::Apply);
        }
    }

    fn apply(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        host.applying = false;
        let index = host.state.applied() + 1;
        if index > host.raft.commit {
            return;
        }
        let entry = host.raft.log[index as usize - 1].clone();
        let command = entry.command.as_deref();
        let effects = host.state.apply(index, command);
        let now = host.clock.read(self.now);
        host.leader
            .applied(Term::new(entry.term), command, &effects, &host.state, now);
        if host.leader.is_ready() && host.ready_since.is_none() {
            host.ready_since = Some(now);
            self.ready_since = self.now;
        }
        self.judge
            .applied(self.now, index, &self.nodes[node].state, &effects);
        self.watch_stamps(&effects);
        self.say(|| {
            format!(
                "node {node} applied {index} of term {}: {command:?} -> {effects:?}",
                entry.term
            )
        });
        self.follow(node, command, &effects);
        self.settle_raft(node);
        self.tell_nodes(node);
    }

    fn follow(&mut self, node: usize, command: Option<&Command>, effects: &[Effect]) {
        let done = |asked: &(RequestId, Command)| Some(&asked.1) == command;
        self.admin.asked.retain(|asked| !done(asked));
        let host = &mut self.nodes[node];
        if let (true, Some(machine)) = (effects.contains(&Effect::Configured), &mut host.node) {
            machine.set_drift(host.state.drift());
            machine.set_lease(host.state.lease());
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
            self.incarnations
                .insert(*incarnation, of.get() as usize - 1);
            let host = &mut self.nodes[node];
            if *request == host.join {
                let mut machine = Node::new(*incarnation, host.state.drift());
                machine.set_lease(host.state.lease());
                host.node = Some(machine);
                host.sessions.clear();
            }
        }
    }

    /// Sends a leader's unsolicited answers.
    fn tell_nodes(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let now = host.clock.read(self.now);
        for answer in host.leader.poll_answers(&host.state, now) {
            self.tell(node, answer);
        }
    }

    fn tell(&mut self, leader: usize, answer: Answer) {
        let answer = Rc::new(answer);
        for to in 0..NODES {
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
