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
//! | `looks`, `marking` | what the oracle is shown; what is marked of it |
//! | `seen` | what an answer changed, for marks |
//! | `queue` | what is to happen |
//! | `relay` | what nodes tell all others |

mod asks;
pub(crate) mod begin;
pub(crate) mod callers;
pub(crate) mod clock;
mod coordinator;
mod desk;
mod dial;
mod event;
mod links;
mod lived;
mod load;
mod log;
mod looks;
mod marking;
mod mend;
pub(crate) mod net;
mod office;
mod operator;
mod queue;
mod relay;
mod seen;
mod service;
mod strike;
mod votes;
mod witness;

pub use lived::Lived;
pub use witness::{Seen, Sight, Witness};

use crate::course::Course;
use crate::hosts::Hosts;
use crate::mark::{Mark, Marks};
use crate::oracle::Oracle;
use crate::plan::Plan;
use aliquot_core::budget::{Budget, Key};
use aliquot_core::unit::Incarnation;
use clock::{Clock, MS};
use coordinator::Coordinator;
use event::{Due, Event, Message, Timer};
use net::Net;
use operator::{Operator, Requests};
use queue::Queue;
use service::Service;
use std::collections::BTreeMap;

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

/// A seed being lived through.
pub struct World {
    plan: Plan,
    seed: u64,
    now: u64,
    next: u64,
    queue: Queue,
    hosts: Hosts,
    net: Net,
    nodes: Vec<Coordinator>,
    services: Vec<Service>,
    /// The keys that clients ask for, with the budget that each falls under.
    keys: Vec<Key>,
    claims: Vec<Budget>,
    /// What operators wrote last of each key's limit.
    limits: Vec<aliquot_core::share::Share>,
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
    /// All has been well for a while after the last fault.
    healed: bool,
    measures_bytes: bool,
    skew_from: Vec<(u64, i64)>,
    /// Since when nobody is in office, as far as anybody has looked.
    vacant: Option<u64>,
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

    fn run_until(&mut self, end: u64) {
        while !self.stopped
            && !self.healed
            && let Some(due) = self.queue.pop_by(end)
        {
            self.now = due.at;
            self.handle(due.event);
        }
        if !self.stopped && !self.healed {
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
        let message = matches!(event, Event::Deliver { .. });
        self.marks.hit_if(message, Mark::MessageWaited);
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
        if self.hosts.is_node(host) {
            self.events += 1;
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
            self.marks.hit_if(slow > 0, Mark::HostSlow);
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
        let fate = self.net.send(self.now, from, to);
        let slow = if self.net.slow.is_empty() {
            0
        } else {
            self.net.slowness(to)
        };
        self.marks.hit_if(fate.cut, Mark::MessageCut);
        self.marks.hit_if(fate.lost, Mark::MessageLost);
        self.marks.hit_if(fate.overtaken, Mark::MessageOvertaken);
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
