//! A seed, lived through: a deterministic world over the core's machines.
//!
//! Every event has a true time; every host sees only its own clocks. There is
//! one thread and no clock, and all chance is drawn by name ([`crate::draw`]),
//! so the same seed gives the same events in the same order.
//!
//! | file | what it is |
//! |---|---|
//! | `clock`, `net`, `log` | hosts' clocks, links, and the replicated log |
//! | `coordinator`, `office`, `desk` | a node: its shell, its leading, its clients |
//! | `service`, `callers` | a service instance and who calls it |
//! | `strike` | what goes wrong, and how it ends |
//! | `operator` | who writes budgets |
//! | `looks` | what the oracle is shown |

mod callers;
mod clock;
mod coordinator;
mod desk;
mod event;
mod log;
mod looks;
mod net;
mod office;
mod operator;
mod service;
mod strike;
mod witness;

pub use witness::{Sight, Witness};

use crate::course::Course;
use crate::draw::{Draw, Of};
use crate::hosts::Hosts;
use crate::mark::{Mark, Marks};
use crate::oracle::{Breach, Oracle};
use crate::plan::Plan;
use crate::scenario::{Scenario, Target};
use aliquot_core::budget::{Budget, Key};
use aliquot_core::unit::Incarnation;
use callers::Callers;
use clock::{Clock, MS, SEC};
use coordinator::Coordinator;
use event::{Due, Event, Message, Timer};

use log::{Log, Patience};
use net::Net;
use operator::{Operator, Requests};
use service::Service;
use std::collections::{BTreeMap, BinaryHeap};

/// A process on a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    number: u32,
    up: bool,
    paused_until: u64,
    /// Its machine is there and says at once that nobody listens.
    refuses: bool,
}

impl Process {
    const DOWN: Self = Self {
        number: 0,
        up: false,
        paused_until: 0,
        refuses: true,
    };

    const fn start(&mut self) {
        self.number += 1;
        (self.up, self.paused_until) = (true, 0);
    }
}

/// What came of a seed.
#[derive(Debug)]
pub struct Lived {
    /// Breaches of invariants that must hold: the first of each.
    pub breaches: Vec<Breach>,
    /// Breaches of invariants that the scenario is there to break.
    pub allowed: Vec<Breach>,
    /// Why something could not be judged.
    pub doubts: Vec<String>,
    /// The least slack under an envelope, in tokens; negative is an excess.
    pub slack: Option<f64>,
    /// Tokens admitted without a lease, by policy.
    pub unleased: f64,
    /// How long it took to recover after the last fault, in nanoseconds.
    pub recovery: Option<u64>,
    /// What it was like.
    pub course: Course,
    /// The marks that were hit.
    pub marks: Marks,
    /// Events: inputs handled by a machine of the core.
    pub events: u64,
    /// How much true time was lived through, in nanoseconds.
    pub lived: u64,
}

/// A seed being lived through.
pub struct World {
    plan: Plan,
    seed: u64,
    now: u64,
    next: u64,
    queue: BinaryHeap<Due>,
    hosts: Hosts,
    net: Net,
    nodes: Vec<Coordinator>,
    services: Vec<Service>,
    /// The keys that clients ask for, with the budget that each falls under.
    keys: Vec<Key>,
    claims: Vec<Budget>,
    oracle: Oracle,
    marks: Marks,
    course: Course,
    operator: Operator,
    requests: Requests,
    /// Which node each life belongs to.
    lives: BTreeMap<Incarnation, usize>,
    /// What was admitted centrally: by which life, to which question.
    decided: std::collections::BTreeSet<(
        Incarnation,
        aliquot_core::unit::Edge,
        aliquot_core::unit::RequestId,
    )>,
    /// What the last refusal said.
    just_asked: bool,
    retry_after: u64,
    callers_until: u64,
    /// Faults that last, with the hosts that they struck.
    active: BTreeMap<usize, Vec<usize>>,
    /// Until when what has befallen so far lasts at least.
    lasts: u64,
    clones: usize,
    applied: u64,
    events: u64,
    stopped: bool,
    measures_bytes: bool,
    skew_from: Vec<(u64, i64)>,
    witness: Option<Box<dyn Witness>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, now, .. } = self;
        f.debug_struct("World")
            .field("seed", seed)
            .field("now", now)
            .finish_non_exhaustive()
    }
}

impl World {
    /// A seed before its first event.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let (seed, scenario) = (plan.seed, plan.scenario.clone());
        let clones = plan
            .faults
            .iter()
            .filter(|fault| fault.kind == "clone_client")
            .count();
        let hosts = Hosts::new(&scenario, clones);
        let (keys, claims, key_of) = keys_of(&scenario, &hosts);
        let named: Vec<(String, Budget)> = keys
            .iter()
            .map(Key::to_string)
            .zip(claims.iter().cloned())
            .collect();
        let course = Course::new(&named, key_of.clone());
        let bounds = Patience {
            least: scenario.lease.election_min,
            most: scenario.lease.election_max,
        };
        let clock = |host| clock_of(&scenario, &hosts, host, seed);
        let pace = aliquot_core::leader::Pace::default();
        let nodes = (0..hosts.nodes)
            .map(|me| Coordinator::new(clock(me), Log::new(me, hosts.nodes, bounds), pace))
            .collect();
        let drift = scenario.lease.drift;
        let services = (0..hosts.clients.len() + clones)
            .map(|of| {
                let (group, key) = (
                    hosts.clients.get(of).map_or(0, |&(group, _)| group),
                    key_of.get(of).copied().unwrap_or(0),
                );
                Service::new(
                    clock(hosts.nodes + of),
                    group,
                    key,
                    drift,
                    Callers::default(),
                )
            })
            .collect();
        let net = Net::new(seed, scenario.topology.clone(), hosts.zones.clone());
        let mut world = Self {
            seed,
            now: 0,
            next: 0,
            queue: BinaryHeap::new(),
            net,
            nodes,
            services,
            keys,
            claims,
            oracle: Oracle::new(drift),
            marks: Marks::default(),
            course,
            operator: Operator::default(),
            requests: Requests::default(),
            lives: BTreeMap::new(),
            decided: std::collections::BTreeSet::new(),
            just_asked: false,
            retry_after: 0,
            callers_until: u64::MAX,
            active: BTreeMap::new(),
            lasts: 0,
            clones,
            applied: 0,
            events: 0,
            stopped: false,
            measures_bytes: false,
            skew_from: Vec::new(),
            witness: None,
            hosts,
            plan,
        };
        world.begin();
        world
    }

    /// Counts the bytes of messages: slower, and changes nothing else.
    #[must_use]
    pub const fn measuring_bytes(mut self) -> Self {
        self.measures_bytes = true;
        self
    }

    /// Shows everything that happens to a witness.
    #[must_use]
    pub fn witnessed_by(mut self, witness: Box<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    fn begin(&mut self) {
        self.configure();
        let late = |world: &Self, node: usize| {
            let joins = |fault: &&crate::scenario::Fault| fault.kind == "membership" && fault.joins;
            world
                .plan
                .faults
                .iter()
                .filter(joins)
                .any(|fault| fault.target.contains(&Target::Node(node)))
        };
        for node in 0..self.hosts.nodes {
            if !late(self, node) {
                self.start_node(node);
            }
        }
        for of in 0..self.hosts.clients.len() {
            let start = self.plan.scenario.clients[self.services[of].group].start;
            match start {
                0 => self.start_service(of),
                // A process that is yet to begin is a fault that ends then, and is none.
                at => self.at(
                    at,
                    Event::Timer {
                        host: (self.hosts.nodes + of) as u32,
                        process: 0,
                        timer: Timer::Look,
                    },
                ),
            }
        }
        for index in 0..self.plan.faults.len() {
            self.at(self.plan.faults[index].at, Event::Strike(index as u32));
        }
        self.at(0, Event::Operate);
        self.at(SEC, Event::Look);
    }

    /// Lives the seed through: the safety phase, then the healing phase. It
    /// ends early at a breach of something that must hold.
    #[must_use]
    pub fn live(mut self) -> Lived {
        let (end, heal) = (self.plan.scenario.run.duration, self.plan.heal());
        self.run_until(end);
        if heal > 0 && !self.stopped {
            self.calm();
            let from = self.now.max(self.lasts);
            self.run_until(from);
            let within = self
                .plan
                .scenario
                .lease
                .heals_within(self.net.usual_delay());
            self.oracle.healing.begin(from, within);
            self.run_until(from + heal);
        }
        self.look();
        self.finish(end)
    }

    fn finish(mut self, end: u64) -> Lived {
        let breaks = &self.plan.scenario.run.breaks;
        let breaches = self.oracle.found().filter_map(|found| found.breach.clone());
        let (allowed, breaches) = breaches.partition(|breach| breaks.contains(&breach.invariant));
        let recovery = self.oracle.healing.took();
        if recovery.is_some() {
            self.marks.hit(Mark::Recovered);
        }
        self.course.ends = (end.min(self.now), self.now);
        let grains = self
            .claims
            .first()
            .map_or(1, |budget| budget.scale().grains_per_token());
        Lived {
            breaches,
            allowed,
            doubts: self
                .oracle
                .found()
                .filter_map(|found| found.doubt.clone())
                .collect(),
            slack: self.oracle.slack(),
            unleased: self.oracle.degraded.admitted as f64 / grains as f64,
            recovery,
            course: self.course,
            marks: self.marks,
            events: self.events,
            lived: self.now,
        }
    }

    fn run_until(&mut self, end: u64) {
        while let Some(due) = self.queue.peek() {
            if due.at > end || self.stopped {
                break;
            }
            let Some(due) = self.queue.pop() else { break };
            self.now = due.at;
            self.handle(due.event);
        }
        if !self.stopped {
            self.now = clock::quantised(end);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver { to, .. } if self.paused(to as usize).is_some() => {
                self.wait_for(to as usize, event)
            }
            Event::Timer { host, .. } if self.paused(host as usize).is_some() => {
                self.wait_for(host as usize, event)
            }
            Event::Deliver { from, to, message } => {
                if self.process(to as usize).is_some() {
                    self.events += 1;
                    self.deliver(from as usize, to as usize, *message);
                }
            }
            Event::Timer {
                host,
                process,
                timer,
            } => self.ring(host as usize, process, timer),
            Event::Strike(index) => self.strike(index as usize),
            Event::Strobe(index, count) => self.strobe(index as usize, count),
            Event::Mend(index) => self.mend(index as usize),
            Event::Operate => {
                self.operate();
                self.after(100 * MS, Event::Operate);
            }
            Event::Look => {
                self.look();
                self.after(50 * MS, Event::Look);
            }
        }
    }

    /// A process that does not run finds everything waiting when it does.
    fn wait_for(&mut self, host: usize, event: Event) {
        let until = self.paused(host).unwrap_or(self.now);
        self.at(until, event);
    }

    fn ring(&mut self, host: usize, process: u32, timer: Timer) {
        if self.process(host) != Some(process) {
            if let (0, false, None) = (process, self.hosts.is_node(host), self.process(host)) {
                // A process that starts late.
                self.start_service(host - self.hosts.nodes);
            }
            return;
        }
        self.events += 1;
        if self.hosts.is_node(host) {
            self.node_timer(host, timer);
            return;
        }
        let of = host - self.hosts.nodes;
        match timer {
            Timer::Arrival => self.arrive(of),
            Timer::Look => self.look_at_session(of),
            Timer::Retry => self.retry(of),
            Timer::Done => self.release_permits(of),
            Timer::NodeTick | Timer::LogTick | Timer::Apply => {}
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) {
        if self.witness.is_some() {
            self.show_message(from, to, &message);
        }
        if self.hosts.is_node(to) {
            self.node_hears(from, to, message);
        } else {
            self.service_hears(from, to - self.hosts.nodes, message);
        }
        if self.witness.is_some() {
            self.show_state(to);
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        let id = self.next;
        self.next += 1;
        let at = clock::quantised(at.max(self.now));
        self.queue.push(Due { at, id, event });
    }

    fn after(&mut self, span: u64, event: Event) {
        self.at(self.now.saturating_add(span), event);
    }

    /// Sets a timer of the present process of `host`.
    fn set(&mut self, host: usize, span: u64, timer: Timer) {
        if let Some(process) = self.process(host) {
            let slow = if self.net.slow.is_empty() {
                0
            } else {
                self.net.slowness(host)
            };
            let host = host as u32;
            self.after(
                span.saturating_add(slow),
                Event::Timer {
                    host,
                    process,
                    timer,
                },
            );
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        // A clone has its original's memory and nobody's network.
        if from >= self.hosts.count() - self.clones {
            return;
        }
        self.count_message(from, to, &message);
        let fate = self.net.send(from, to);
        let slow = if self.net.slow.is_empty() {
            0
        } else {
            self.net.slowness(to)
        };
        if fate.cut {
            self.marks.hit(Mark::MessageCut);
        }
        let [first, second] = fate.copies.map(|copy| copy.map(|delay| delay + slow));
        if fate.late {
            self.marks.hit(Mark::MessageLate);
            self.lasts = self.lasts.max(self.now + first.unwrap_or(0));
        }
        let (from, to) = (from as u32, to as u32);
        if let Some(delay) = second {
            self.marks.hit(Mark::MessageTwice);
            self.lasts = self.lasts.max(self.now + delay);
            let message = Box::new(message.clone());
            self.after(delay, Event::Deliver { from, to, message });
        }
        if let Some(delay) = first {
            self.after(
                delay,
                Event::Deliver {
                    from,
                    to,
                    message: Box::new(message),
                },
            );
        }
    }

    fn process_of(&self, host: usize) -> &Process {
        match self.hosts.is_node(host) {
            true => &self.nodes[host].process,
            false => &self.services[host - self.hosts.nodes].process,
        }
    }

    fn process_mut(&mut self, host: usize) -> &mut Process {
        match self.hosts.is_node(host) {
            true => &mut self.nodes[host].process,
            false => &mut self.services[host - self.hosts.nodes].process,
        }
    }

    fn clock_mut(&mut self, host: usize) -> &mut Clock {
        match self.hosts.is_node(host) {
            true => &mut self.nodes[host].clock,
            false => &mut self.services[host - self.hosts.nodes].clock,
        }
    }

    /// The process that runs on a host, if one does.
    fn process(&self, host: usize) -> Option<u32> {
        let process = self.process_of(host);
        process.up.then_some(process.number)
    }

    fn paused(&self, host: usize) -> Option<u64> {
        let until = self.process_of(host).paused_until;
        (until > self.now).then_some(until)
    }
}

/// The keys that clients ask for, the budget that each falls under, and each client's key.
fn keys_of(scenario: &Scenario, hosts: &Hosts) -> (Vec<Key>, Vec<Budget>, Vec<usize>) {
    let budgets = &scenario.budgets;
    let first = budgets
        .first()
        .map(|(_, budget)| budget.key().as_str().to_owned());
    let (mut keys, mut claims, mut of_group): (Vec<Key>, Vec<Budget>, Vec<usize>) =
        Default::default();
    for group in &scenario.clients {
        let text = group
            .key
            .clone()
            .or_else(|| first.clone())
            .unwrap_or_default();
        let Ok(key) = Key::try_from(text.as_str()) else {
            of_group.push(0);
            continue;
        };
        let known = keys.iter().position(|known| known.as_str() == key.as_str());
        of_group.push(known.unwrap_or(keys.len()));
        let exact = budgets
            .iter()
            .find(|(_, budget)| budget.key().as_str() == key.as_str());
        let found = exact.or_else(|| {
            budgets
                .iter()
                .find(|(_, budget)| budget.key().matches(&key))
        });
        if let (None, Some((_, budget))) = (known, found) {
            keys.push(key);
            claims.push(budget.clone());
        }
    }
    let key_of = hosts
        .clients
        .iter()
        .map(|&(group, _)| of_group[group])
        .collect();
    (keys, claims, key_of)
}

/// A host's clocks: as the narrowest rule says, else drawn.
fn clock_of(scenario: &Scenario, hosts: &Hosts, host: usize, seed: u64) -> Clock {
    let mut draw = Draw::of(seed, Of::Clock, host as u64, 0);
    let bound = i64::from(scenario.lease.drift.ppm()) / clock::PPM_STEP;
    let drawn = match draw.range(0, 4) {
        0 => bound,
        1 => -bound,
        _ => draw.range(0, 2 * bound as u64 + 1) as i64 - bound,
    };
    let (mut ppm, mut offset, mut wall) = (drawn * clock::PPM_STEP, draw.range(1, 1_000 * SEC), 0);
    offset = clock::quantised(offset);
    for rule in &scenario.clocks {
        let mut lots = Draw::of(seed, Of::Clock, 1 << 40, 0);
        if hosts.find(&rule.target, None, &mut lots).contains(&host) {
            ppm = rule.ppm.unwrap_or(ppm);
            offset = rule.offset.unwrap_or(offset);
            wall = rule.wall_offset;
        }
    }
    Clock::new(offset, wall, ppm, scenario.lease.monotonic)
}
