//! A deterministic two-level world over the core alone: three coordinator nodes with a replicated log, fifty
//! clients, one thread, no clock.
//!
//! Every event has a true time; every host sees only its own clock. The same seed gives the same events in
//! the same order, hence the same trace.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | the parameters of a seed, drawn before it begins |
//! | `clock`, `net`, `raft` | time, links, and the replicated log |
//! | `coordinator`, `fleet` | the hosts: the shells around the machines |
//! | `load`, `counted`, `asks`, `faults` | requests and faults |
//! | `judge`, `inspect` | checks of the invariants |
//! | `report` (beside the kernel) | the figures of many seeds |

mod admin;
mod asks;
mod clock;
mod coordinator;
mod counted;
mod event;
mod faults;
mod fleet;
mod inspect;
mod judge;
mod load;
mod mending;
mod net;
mod plan;
mod raft;
mod rng;

pub(crate) use judge::Breach;
pub(crate) use plan::Plan;

use aliquot_core::unit::{Edge, Incarnation, RequestId};
use clock::{MS, SEC};
use coordinator::Coordinator;
use event::{Due, Event, Message, Timer};
use fleet::Service;
use judge::Judge;
use net::{NODES, Net};
use rng::Rng;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The run of one seed.
#[derive(Debug)]
pub(crate) struct World {
    plan: Plan,
    now: u64,
    next: u64,
    queue: BinaryHeap<Due>,
    rng: Rng,
    net: Net,
    nodes: Vec<Coordinator>,
    services: Vec<Service>,
    judge: Judge,
    counted: counted::Counted,
    admin: admin::Admin,
    faults: Vec<(u64, faults::Fault)>,
    load: load::Load,
    /// The node of each incarnation, to which answers are sent.
    incarnations: BTreeMap<Incarnation, usize>,
    /// Central admissions: the incarnation, and the request.
    decided: BTreeSet<(Incarnation, Edge, RequestId)>,
    trace: u64,
    /// Set if the node of the next proposed reclaim comes back.
    trap: bool,
    /// End of the faults so far.
    lasts: u64,
    /// Time at which a leader last became ready.
    ready_since: u64,
    pub(crate) seen: Seen,
    /// Prints the events.
    pub(crate) verbose: bool,
}

/// The result of a seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    pub(crate) faults: u64,
    /// Number of admissions of a quota or permits, or by a node in a client's stead.
    pub(crate) counted: u64,
    pub(crate) utilisation: f64,
    pub(crate) healed: f64,
    pub(crate) slack: i128,
    pub(crate) trace: u64,
    pub(crate) simulated: f64,
    pub(crate) breach: Option<Breach>,
    pub(crate) tokens_per_grain: f64,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0xa11_0c07);
        let hosts = NODES + Plan::CLIENTS;
        let net = Net::new(hosts, &mut rng);
        let load = load::Load::draw(&plan, &mut rng);
        let faults = faults::draw(&plan, &mut rng);
        let judge = Judge::new(plan.drift(), plan.cost == 1, plan.greatest());
        let mut world = Self {
            nodes: (0..NODES)
                .map(|me| Coordinator::new(me, &plan, &mut rng))
                .collect(),
            services: (0..Plan::CLIENTS)
                .map(|me| Service::new(me, plan.drift(), &mut rng))
                .collect(),
            counted: counted::Counted::new(&plan),
            admin: admin::Admin::default(),
            plan,
            now: 0,
            next: 0,
            queue: BinaryHeap::new(),
            rng,
            net,
            judge,
            faults,
            load,
            incarnations: BTreeMap::new(),
            decided: BTreeSet::new(),
            trace: 0xcbf2_9ce4_8422_2325,
            trap: false,
            lasts: 0,
            ready_since: 0,
            seen: Seen::default(),
            verbose: false,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        // First of all: a bound on drift that rises promises nothing about leases given before.
        self.configure();
        self.tune_clocks(self.plan.rho);
        for node in 0..NODES {
            self.start_node(node);
        }
        for client in 0..Plan::CLIENTS {
            self.start_service(client);
        }
        for index in 0..self.faults.len() {
            let at = self.faults[index].0;
            self.at(at, Event::Fault(index));
        }
        self.at(0, Event::Admin);
        self.at(SEC, Event::Look);
    }

    /// Runs the seed, or up to its first breach.
    pub(crate) fn run(mut self) -> Seen {
        // `None` after a breach: the world ends there.
        let _ = self.live();
        let mut seen = self.seen;
        seen.slack = self.judge.slack;
        seen.trace = self.trace;
        seen.simulated = self.now as f64 / SEC as f64;
        seen.breach = self.judge.breach;
        let per_token = self.judge.scale.map_or(1, |scale| scale.grains_per_token());
        seen.tokens_per_grain = 1.0 / per_token as f64;
        seen
    }

    fn live(&mut self) -> Option<()> {
        self.run_until(self.plan.faults_from)?;
        let before = self.meter();
        self.run_storm()?;
        self.seen.utilisation = self.part_since(before);
        let last = self.run_to_last_fault()?;
        let healed = self.plan.healed_from(last);
        self.run_until(healed)?;
        let before = self.meter();
        self.run_until(healed + Plan::HEALED)?;
        self.seen.healed = self.part_since(before);
        Some(())
    }

    /// Returns the part of what the limit made since `before` that was admitted since.
    fn part_since(&mut self, before: (f64, f64)) -> f64 {
        let after = self.meter();
        (after.0 - before.0) / (after.1 - before.1)
    }

    /// Returns the tokens admitted, and made by the limit, so far.
    fn meter(&mut self) -> (f64, f64) {
        self.judge.account_until(self.now);
        (self.judge.admitted, self.judge.made)
    }

    fn run_until(&mut self, end: u64) -> Option<()> {
        while let Some(due) = self.queue.pop() {
            if due.at > end {
                self.queue.push(due);
                break;
            }
            self.now = due.at;
            self.seen.events += 1;
            self.handle(due.event);
            if self.judge.breach.is_some() {
                return None;
            }
        }
        self.now = end;
        Some(())
    }

    fn handle(&mut self, event: Event) {
        let host = match &event {
            Event::Deliver { to, .. } => Some(*to),
            Event::Timer { host, .. } => Some(*host),
            _ => None,
        };
        if let Some(until) = host.and_then(|host| self.paused(host)) {
            // A paused process finds everything waiting when it continues.
            self.at(until, event);
            return;
        }
        match event {
            Event::Deliver { from, to, message } => {
                self.note(1, (from * 64 + to) as u64);
                self.deliver(from, to, *message);
            }
            Event::Timer {
                host,
                process,
                timer,
            } => {
                self.note(2, (host * 8 + timer as usize) as u64);
                if self.process(host) == Some(process) {
                    self.timer(host, timer);
                }
            }
            Event::Fault(index) => self.befall(index),
            Event::Mend(mending) => self.mend(mending),
            Event::Admin => {
                self.administer();
                self.after(100 * MS, Event::Admin);
            }
            Event::Look => {
                self.look();
                self.after(50 * MS, Event::Look);
            }
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) {
        if self.process(to).is_none() {
            return;
        }
        if to < NODES {
            self.node_hears(from, to, message);
        } else {
            self.service_hears(from, to - NODES, message);
        }
    }

    fn timer(&mut self, host: usize, timer: Timer) {
        if host < NODES {
            self.node_timer(host, timer);
        } else {
            self.service_timer(host - NODES, timer);
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        let id = self.next;
        self.next += 1;
        let at = clock::quantised(at.max(self.now));
        self.queue.push(Due { at, id, event });
    }

    fn after(&mut self, span: u64, event: Event) {
        self.at(self.now + span, event);
    }

    /// Sets a timer of the present process of `host`.
    fn set(&mut self, host: usize, span: u64, timer: Timer) {
        if let Some(process) = self.process(host) {
            self.after(
                span,
                Event::Timer {
                    host,
                    process,
                    timer,
                },
            );
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        let slow = matches!(message, Message::Raft(_)) && self.now < self.net.slow_log;
        let slow = if slow && from != to { 300 * MS } else { 0 };
        let copies = self.net.send(from, to, self.now, &mut self.rng);
        self.lasts = self.lasts.max(self.net.late_until);
        for delay in copies.into_iter().flatten() {
            let delay = delay + slow;
            if slow > 0 {
                self.lasts = self.lasts.max(self.now + delay);
            }
            let message = Box::new(message.clone());
            self.after(delay, Event::Deliver { from, to, message });
        }
    }

    /// Returns the process that runs on a host, if one does.
    fn process(&self, host: usize) -> Option<u64> {
        let process = match host {
            _ if host < NODES => &self.nodes[host].process,
            _ => &self.services[host - NODES].process,
        };
        process.up.then_some(process.number)
    }

    fn paused(&self, host: usize) -> Option<u64> {
        let until = match host {
            _ if host < NODES => self.nodes[host].process.paused_until,
            _ => self.services[host - NODES].process.paused_until,
        };
        (until > self.now).then_some(until)
    }

    /// Sets another rate for every clock.
    fn tune_clocks(&mut self, rho: u32) {
        for host in 0..NODES + Plan::CLIENTS {
            self.tune_clock(host, i64::from(rho));
        }
    }

    /// Sets another rate for a host's clock, often as far off as it may be.
    fn tune_clock(&mut self, host: usize, rho: i64) {
        let ppm = match self.rng.range(0, 4) {
            0 => rho,
            1 => -rho,
            _ => self.rng.range(0, 2 * rho as u64 + 1) as i64 - rho,
        };
        let now = self.now;
        let clock = match host {
            _ if host < NODES => &mut self.nodes[host].clock,
            _ => &mut self.services[host - NODES].clock,
        };
        clock.set_rate(now, ppm);
    }

    fn note(&mut self, kind: u64, what: u64) {
        for word in [self.now, kind, what] {
            self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{:>9.4} {}", self.now as f64 / SEC as f64, what());
        }
    }
}

/// A process on a host.
#[derive(Clone, Copy, Debug)]
struct Process {
    number: u64,
    up: bool,
    paused_until: u64,
}

impl Process {
    const FIRST: Self = Self {
        number: 1,
        up: true,
        paused_until: 0,
    };
}
