//! The stage: nodes, clients, a log driven by hand, and messages that wait until the script delivers them.

use super::judge::Judge;
use super::wire::{Body, Wire};
use aliquot_core::client::{Client, Permit};
use aliquot_core::command::Command;
use aliquot_core::leader::{Leader, LeaderOutput, Pace};
use aliquot_core::leadership::Barrier;
use aliquot_core::node::Node;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Drift, NodeId, RequestId, Term, Tick};
use std::collections::BTreeMap;

pub(super) const MILLI: u64 = 1_000_000;
pub(super) const STEP: u64 = 100 * MILLI;
/// 1 January 2026, in milliseconds of the Unix epoch.
pub(super) const DAWN: i64 = 1_767_225_600_000;

/// A clock: true time, run at another rate.
#[derive(Clone, Copy, Default)]
pub(super) struct Clock {
    pub(super) ppm: i64,
    pub(super) wall_ms: i64,
}

impl Clock {
    pub(super) fn at(self, now: u64) -> Tick {
        let drifted = i128::from(now) * i128::from(1_000_000 + self.ppm) / 1_000_000;
        Tick::from_nanos(u64::try_from(drifted).unwrap_or(0))
    }

    pub(super) fn wall(self, now: u64) -> i64 {
        DAWN + self.wall_ms + i64::try_from(now / MILLI).unwrap_or(0)
    }
}

pub(super) struct Host {
    pub(super) id: NodeId,
    pub(super) state: State,
    pub(super) leader: Leader,
    pub(super) node: Option<Node>,
    pub(super) clock: Clock,
    /// Receives nothing of the log.
    pub(super) alone: bool,
    pub(super) leased: bool,
}

pub(super) struct Process {
    pub(super) client: Client,
    pub(super) home: String,
    pub(super) clock: Clock,
    /// Attempts per step, and their cost.
    pub(super) load: Option<(u64, u64)>,
    /// A cost that a caller waits for until it is served.
    pub(super) wants: Option<u64>,
    pub(super) permits: Vec<(u64, Permit)>,
    pub(super) admitted: u64,
    pub(super) denied: u64,
    pub(super) reason: String,
    pub(super) leased: bool,
    pub(super) deaf_to_recalls: bool,
}

pub(super) struct Entry {
    pub(super) term: Term,
    pub(super) command: Option<Command>,
}

/// Everything in a scenario.
#[derive(Default)]
pub(super) struct Stage {
    pub(super) now: u64,
    pub(super) hosts: BTreeMap<String, Host>,
    pub(super) clients: BTreeMap<String, Process>,
    pub(super) log: Vec<Entry>,
    pub(super) wire: Wire,
    /// The node that all nodes report to, as their leader.
    pub(super) lead: String,
    /// Nodes that report to another node instead.
    pub(super) routes: BTreeMap<String, String>,
    pub(super) term: u64,
    pub(super) requests: u64,
    pub(super) hold_log: bool,
    pub(super) hold_acks: bool,
    pub(super) proposals: BTreeMap<u64, (String, Term, Command)>,
    pub(super) acks: BTreeMap<u64, (String, Barrier)>,
    pub(super) counter: u64,
    pub(super) budget: Option<BudgetId>,
    pub(super) judge: Judge,
    pub(super) out: Vec<String>,
}

impl Stage {
    pub(super) fn say(&mut self, line: impl Into<String>) {
        let millis = self.now / MILLI;
        let line = line.into();
        self.out.push(format!("{:>6} ms  {line}", millis));
    }

    pub(super) fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::new(self.requests)
    }

    fn next_name(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn add_node(&mut self, name: &str) {
        let number = u64::try_from(self.hosts.len()).unwrap_or(0) + 1;
        let mut state = State::new();
        for (index, entry) in (1..).zip(&self.log) {
            let _ = state.apply(index, entry.command.as_ref());
        }
        let host = Host {
            id: NodeId::new(number),
            state,
            leader: Leader::new(Pace::default()),
            node: None,
            clock: Clock::default(),
            alone: false,
            leased: false,
        };
        self.hosts.insert(name.into(), host);
        self.join(name);
    }

    /// Appends a node's request to join.
    pub(super) fn join(&mut self, name: &str) {
        let request = self.request();
        let node = self.hosts[name].id;
        self.append(Term::new(self.term), Some(Command::Join { node, request }));
    }

    /// Commits an entry: every node that receives the log applies it.
    pub(super) fn append(&mut self, term: Term, command: Option<Command>) {
        self.log.push(Entry { term, command });
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        let mut changed = false;
        for name in names {
            if !self.hosts[&name].alone {
                changed |= self.catch_up(&name, !changed);
            }
        }
    }

    /// Applies the entries that a host has not applied yet.
    pub(super) fn catch_up(&mut self, name: &str, aloud: bool) -> bool {
        let mut any = false;
        let mut news = Vec::new();
        let now = self.now;
        let Some(host) = self.hosts.get_mut(name) else {
            return false;
        };
        for (index, entry) in (1..).zip(&self.log) {
            if index <= host.state.applied() {
                continue;
            }
            any = true;
            let tick = host.clock.at(now);
            let before = host.state.clone();
            let effects = host.state.apply(index, entry.command.as_ref());
            let (command, state) = (entry.command.as_ref(), &host.state);
            host.leader
                .applied(entry.term, command, &effects, state, tick);
            for effect in &effects {
                if let Effect::Joined {
                    node, incarnation, ..
                } = effect
                    && *node == host.id
                {
                    host.node = Some(Node::new(*incarnation, host.state.drift()));
                }
            }
            news.push((before, effects));
        }
        if aloud {
            for (before, effects) in news {
                self.judge_effects(&before, &effects, name);
            }
        }
        any
    }

    pub(super) fn client_reports(&mut self) {
        let names: Vec<String> = self.clients.keys().cloned().collect();
        for name in names {
            self.client_report(&name);
        }
    }

    pub(super) fn client_report(&mut self, name: &str) {
        self.reopen(name);
        let now = self.now;
        let Some(process) = self.clients.get_mut(name) else {
            return;
        };
        let (tick, wall) = (process.clock.at(now), process.clock.wall(now));
        if let Some(report) = process.client.report(tick, wall) {
            let home = process.home.clone();
            self.send(name, &home, Body::Report(report));
        }
    }

    /// Opens an edge for a client without one, if its node can be reached.
    fn reopen(&mut self, name: &str) {
        let now = self.now;
        let Some(process) = self.clients.get_mut(name) else {
            return;
        };
        if process.client.edge().is_some() || !self.wire.is_open(name, &process.home) {
            return;
        }
        let Some(host) = self.hosts.get_mut(&process.home) else {
            return;
        };
        let tick = host.clock.at(now);
        let age = process.client.age(process.clock.at(now));
        let open = |node: &mut Node| match age {
            Some(age) => node.open_session_aged(age, tick),
            None => node.open_session(tick),
        };
        if let Some(edge) = host.node.as_mut().and_then(open) {
            process.client.open(edge, process.clock.at(now));
        }
    }

    pub(super) fn node_reports(&mut self) {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            self.node_report(&name);
        }
    }

    pub(super) fn node_report(&mut self, name: &str) {
        let now = self.now;
        let to = self.routes.get(name).unwrap_or(&self.lead).clone();
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        let (tick, wall) = (host.clock.at(now), host.clock.wall(now));
        let report = host.node.as_mut().and_then(|node| node.report(tick, wall));
        if let (Some(report), false) = (report, to.is_empty()) {
            self.send(name, &to, Body::Report(report));
        }
    }

    pub(super) fn tick_leaders(&mut self) {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            let now = self.now;
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            let tick = host.clock.at(now);
            for output in host.leader.tick(&host.state, tick) {
                match output {
                    LeaderOutput::Barrier(barrier) => self.barrier(&name, barrier),
                    LeaderOutput::Propose(command) => self.propose(&name, command),
                }
            }
        }
    }

    fn barrier(&mut self, name: &str, barrier: Barrier) {
        if self.hold_acks || self.hosts[name].alone {
            let number = self.next_name();
            self.say(format!("{name} asks a quorum: acks a{number} are held"));
            self.acks.insert(number, (name.into(), barrier));
        } else {
            self.acknowledge(name, barrier);
        }
    }

    /// Acknowledges a leader's barrier.
    pub(super) fn acknowledge(&mut self, name: &str, barrier: Barrier) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        let tick = host.clock.at(now);
        let answers = host.leader.acknowledged(barrier, &host.state, tick);
        self.answer(name, answers);
    }

    pub(super) fn answer(&mut self, name: &str, answers: Vec<aliquot_core::message::Answer>) {
        for answer in answers {
            let incarnation = answer.edge.child;
            self.judge_confirmation(name, &answer);
            if let Some(to) = self.home_of(incarnation) {
                self.send(name, &to, Body::Answer(answer));
            }
        }
    }

    fn propose(&mut self, name: &str, command: Command) {
        let Some(term) = self.hosts[name].leader.term() else {
            return;
        };
        self.judge_proposal(name, &command);
        if self.hold_log || self.hosts[name].alone {
            let number = self.next_name();
            let what = super::say::command(self, &command);
            self.say(format!("{name} proposes e{number}: {what}; held"));
            self.proposals.insert(number, (name.into(), term, command));
        } else {
            self.append(term, Some(command));
        }
    }

    pub(super) fn drift(&self) -> Drift {
        Drift::default()
    }
}
