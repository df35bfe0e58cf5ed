//! The kernel tier: runs a seed deterministically, on the core's state machines.
//!
//! Every event has a true time, and every host sees only its own clocks. The simulation has one thread and
//! reads no real clock. Random numbers are drawn by name ([`crate::draw`]). Therefore the same seed gives the
//! same events in the same order.
//!
//! | file | contents |
//! |---|---|
//! | `begin` | the setup of a run |
//! | `event`, `queue` | messages, timers and other events, and the queue of those to come |
//! | `log`, `votes` | the replicated log with its elections |
//! | `host` | the types of hosts: processes, nodes, services and callers |
//! | `coordinator`, `leadership`, `sessions` | a node: its shell, its work as leader, and its clients |
//! | `relay` | reports and answers that nodes send to all others, and relay |
//! | `balance` | nodes that send clients to nodes with fewer |
//! | `service`, `dial`, `asks` | a service instance: its session, its connection, and its requests for central decisions |
//! | `callers`, `load` | the callers of a service, and how much they request |
//! | `fetch` | reads the memory of hosts before their events are handled |
//! | `fleet` | hosts and links, as faults affect them |
//! | `operator` | submits budgets and configuration |
//! | `observe`, `tracer` | passes what happens and the state of hosts to the observer, and to a tracer |
//! | `marking`, `lease_diff` | counts the marks of this tier |

mod asks;
mod balance;
pub(crate) mod begin;
mod callers;
mod coordinator;
mod dial;
mod event;
mod fetch;
mod fleet;
pub(crate) mod host;
mod leadership;
mod lease_diff;
mod load;
mod log;
mod marking;
mod observe;
mod operator;
mod queue;
mod relay;
mod service;
mod sessions;
mod tracer;
mod votes;

use crate::clock::{self, MS};
use crate::faults::{self, Lasting};
use crate::hosts::Hosts;
use crate::keys::Keys;
use crate::mark::Mark;
use crate::net::Net;
use crate::observer::{Observer, RunResult};
use crate::plan::Plan;
use crate::trace::Tracer;
use aliquot_core::command::Command;
use aliquot_core::unit::{Incarnation, RequestId};
use event::{Due, Event, Message, Timer};
use host::{Coordinator, Process, Service};
use queue::Queue;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Numbers of requests, shared by joining nodes and operators.
#[derive(Debug, Default)]
struct Requests(u64);

impl Requests {
    const fn next(&mut self) -> RequestId {
        self.0 += 1;
        RequestId::new(self.0)
    }
}

/// Commands that are not applied yet.
#[derive(Debug, Default)]
struct Operator {
    asked: Vec<Command>,
    /// Nodes to remove from the log once they have left.
    removes: Vec<usize>,
    began: bool,
}

impl Operator {
    fn submit(&mut self, command: Command) {
        self.asked.push(command);
    }

    fn done(&mut self, command: Option<&Command>) {
        if let (Some(command), false) = (command, self.asked.is_empty()) {
            self.asked.retain(|asked| asked != command);
        }
    }
}

/// A simulation in progress.
pub struct World {
    plan: Plan,
    seed: u64,
    now: u64,
    next: u64,
    queue: Queue,
    hosts: Rc<Hosts>,
    net: Net,
    nodes: Vec<Coordinator>,
    services: Vec<Service>,
    /// The keys that clients use.
    keys: Keys,
    observer: Observer,
    operator: Operator,
    requests: Requests,
    /// The node of each incarnation.
    incarnations: BTreeMap<Incarnation, usize>,
    /// Set if the last attempt sent its request to a node instead of refusing it.
    just_asked: bool,
    /// True after a refusal if the caller may wait for what is moved here, though it asks only once.
    may_come: bool,
    retry_after: u64,
    /// The faults that last.
    lasting: Lasting,
    /// True time until which messages are under way that faults hold up or repeat.
    lasts: u64,
    clones: usize,
    events: u64,
    /// Boxes of messages that have arrived.
    #[expect(clippy::vec_box, reason = "the next messages are put into the boxes")]
    emptied: Vec<Box<Message>>,
    /// Number of events until memory is fetched again.
    fetched: usize,
    measures_bytes: bool,
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
    /// Interval at which all hosts are inspected.
    const INSPECT_EVERY: u64 = 50 * MS;

    /// Counts the bytes of messages as well. This costs time and changes nothing else.
    #[must_use]
    pub const fn measuring_bytes(mut self) -> Self {
        self.measures_bytes = true;
        self
    }

    /// Passes everything that happens to a tracer.
    #[must_use]
    pub fn traced_by(mut self, tracer: Box<dyn Tracer>) -> Self {
        self.observer.trace_to(tracer);
        self
    }

    /// Calls this once in each second of true time.
    #[must_use]
    pub fn calling(mut self, reached: Box<dyn Fn(u64)>) -> Self {
        self.observer.call(reached);
        self
    }

    /// Runs the safety phase, then the healing phase. Ends early if an invariant is broken that the scenario
    /// does not allow to be broken.
    #[must_use]
    pub fn live(mut self) -> RunResult {
        let (end, heal) = (self.plan.scenario.run.duration, self.plan.heal());
        self.run_until(end);
        if heal > 0 && !self.observer.is_stopped() {
            faults::calm(&mut self);
            let from = self.now.max(self.lasts).max(self.lasting.pauses_end());
            self.run_until(from);
            self.observer.heals(from, self.plan.heals_within());
            self.run_until(from + heal);
        }
        self.look();
        self.observer.finish(end, self.now, self.events)
    }

    fn run_until(&mut self, end: u64) {
        while !self.observer.is_over()
            && let Some(due) = self.queue.pop_by(end)
        {
            self.now = due.at;
            self.handle(due.event);
            self.fetch_ahead();
        }
        if !self.observer.is_over() {
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
                    let message = self.unpack(message);
                    self.deliver(from as usize, to as usize, message);
                }
            }
            Event::Timer {
                host,
                process,
                timer,
            } => self.ring(host as usize, process, timer),
            Event::Inject(index) => faults::inject(self, index as usize),
            Event::Strobe(index, count) => self.strobe(index as usize, count),
            Event::Recover(index) => faults::recover(self, index as usize),
            Event::Operate => {
                self.operate();
                self.after(100 * MS, Event::Operate);
            }
            Event::Look => {
                self.look();
                self.after(Self::INSPECT_EVERY, Event::Look);
            }
        }
    }

    /// Postpones an event of a paused process until the pause ends.
    fn wait_for(&mut self, host: usize, event: Event) {
        let until = self.paused(host).unwrap_or(self.now);
        let message = matches!(event, Event::Deliver { .. });
        self.observer.marks.hit_if(message, Mark::MessageWaited);
        self.at(until, event);
    }

    fn ring(&mut self, host: usize, process: u32, timer: Timer) {
        if self.process(host) != Some(process) {
            if let (0, false, None) = (process, self.hosts.is_node(host), self.process(host)) {
                // The first start of a process that starts late.
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
            Timer::Retry(key) => self.retry(of, key as usize),
            Timer::Done => self.release_permits(of),
            Timer::NodeTick | Timer::LogTick | Timer::Apply => {}
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) {
        if self.observer.is_traced() {
            self.show_message(from, to, &message);
        }
        if self.hosts.is_node(to) {
            self.node_receives(from, to, message);
        } else {
            self.service_receives(from, to - self.hosts.nodes, message);
        }
        if self.observer.is_traced() {
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

    /// Sets a timer of the process that runs on `host` now.
    fn set(&mut self, host: usize, span: u64, timer: Timer) {
        if let Some(process) = self.process(host) {
            let slow = if self.net.slow.is_empty() {
                0
            } else {
                self.net.slowness(host)
            };
            self.observer.marks.hit_if(slow > 0, Mark::HostSlow);
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
        // A clone has its original's memory, but no network.
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
        self.observer.marks.hit_if(fate.cut, Mark::MessageCut);
        self.observer.marks.hit_if(fate.lost, Mark::MessageLost);
        self.observer
            .marks
            .hit_if(fate.overtaken, Mark::MessageOvertaken);
        let [first, second] = fate.copies.map(|copy| copy.map(|delay| delay + slow));
        if fate.late {
            self.observer.marks.hit(Mark::MessageDelayed);
            self.lasts = self.lasts.max(self.now + first.unwrap_or(0));
        }
        let (from, to) = (from as u32, to as u32);
        if let Some(delay) = second {
            self.observer.marks.hit(Mark::MessageDuplicated);
            self.lasts = self.lasts.max(self.now + delay);
            let message = self.pack(message.clone());
            self.after(delay, Event::Deliver { from, to, message });
        }
        if let Some(delay) = first {
            let message = self.pack(message);
            self.after(delay, Event::Deliver { from, to, message });
        }
    }

    /// Puts a message into the box that was emptied last, which is in the processor's cache.
    fn pack(&mut self, message: Message) -> Box<Message> {
        match self.emptied.pop() {
            Some(mut packed) => {
                *packed = message;
                packed
            }
            None => Box::new(message),
        }
    }

    /// Takes a message out of its box.
    fn unpack(&mut self, mut packed: Box<Message>) -> Message {
        let message = std::mem::replace(&mut *packed, Message::Reset);
        self.emptied.push(packed);
        message
    }

    fn process_of(&self, host: usize) -> &Process {
        match self.hosts.is_node(host) {
            true => &self.nodes[host].process,
            false => &self.services[host - self.hosts.nodes].process,
        }
    }

    /// Returns the number of the process that runs on a host, if one does.
    fn process(&self, host: usize) -> Option<u32> {
        let process = self.process_of(host);
        process.up.then_some(process.number)
    }

    fn paused(&self, host: usize) -> Option<u64> {
        let until = self.process_of(host).paused_until;
        (until > self.now).then_some(until)
    }
}
