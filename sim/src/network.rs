//! The network tier: runs a seed with the real coordinator nodes and clients, in a simulated network.
//!
//! Nodes run openraft, tonic, gossip and sessions. Services run the client library. Both are hosts of
//! [turmoil](https://docs.rs/turmoil): one thread runs them all, in steps of a millisecond of true time. Only
//! sockets, clocks, timers, randomness and the disk are replaced. The plan, the oracle, the figures and the
//! verdict are those of the kernel tier.
//!
//! | file | what it is |
//! |---|---|
//! | `host` | clocks, timers and random numbers of a host |
//! | `fabric`, `pipe`, `frames` | the links and their faults, the sockets, and the HTTP/2 frames on them |
//! | `reach`, `disk` | connections to nodes, and the disks of nodes |
//! | `node`, `service` | the software of a host: a coordinator node, or a client with its callers |
//! | `fleet` | hosts and links, as faults affect them |
//! | `event_log`, `ingest`, `observe` | a log of what happened in a step, and what is passed from it and from the hosts to the oracle |

mod begin;
mod disk;
mod event_log;
mod fabric;
mod fleet;
mod frames;
mod host;
mod ingest;
mod node;
mod observe;
mod pipe;
mod reach;
mod service;

#[cfg(all(not(tokio_unstable), not(doc)))]
compile_error!(
    "the simulator needs `--cfg tokio_unstable`, which .cargo/config.toml sets: a RUSTFLAGS variable in the \
     environment replaces that, so unset it or add the flag to it"
);

use crate::faults::{self, Lasting};
use crate::hosts::Hosts;
use crate::mark::{Mark, Marks};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::timeline::Timeline;
use crate::world::{RunResult, TraceEvent, Tracer};
use aliquot_core::state::State;
use event_log::EventLog;
use fabric::Fabric;
pub use host::monotonic;
use node::{Job, NodeHost};
use service::ClientHost;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;

/// True time advances in steps of this length.
const STEP: Duration = Duration::from_millis(1);
const STEP_NANOS: u64 = MS;

/// Interval at which the oracle inspects all hosts.
const LOOK_EVERY: u64 = 50 * MS;

/// Time that the real code may take to notice dead connections and to reconnect: two keep-alives, one attempt
/// to connect that fails, and the longest pause between two attempts.
const CONNECTIONS: u64 = (4 + 2 + 2) * SEC;

/// A run in progress.
struct Network<'a> {
    plan: Plan,
    hosts: Hosts,
    sim: turmoil::Sim<'a>,
    fabric: Arc<Fabric>,
    node_hosts: Vec<Arc<NodeHost>>,
    client_hosts: Vec<Arc<ClientHost>>,
    event_log: EventLog,
    oracle: Oracle,
    marks: Marks,
    timeline: Timeline,
    /// The replicated state after all entries applied so far, by whichever node applied each first.
    state: State,
    /// A digest of each entry's effects, to be compared with its effects on the other nodes.
    effects: Vec<u64>,
    /// Readings of a node's clock at which it applied its first entry of a term, by node and term.
    ready_since: BTreeMap<(usize, u64), u64>,
    /// Term and index of the latest entry that was written, on any node.
    written: (u64, u64),
    now: u64,
    /// Index of the next fault in the plan.
    next_fault: usize,
    /// The faults that last.
    lasting: Lasting,
    /// Commands that operators have submitted and that are not applied yet, with the time of the last
    /// attempt.
    asked: Vec<(aliquot_core::command::Command, u64)>,
    requests: u64,
    stopped: bool,
    /// Set once everything has been well for a while after the last fault.
    healed: bool,
    /// The node that led at the last inspection.
    leader: Option<usize>,
    skew_from: Vec<(u64, i64)>,
    tracer: Option<Box<dyn Tracer>>,
}

/// Runs the seed of a plan: the safety phase, then the healing phase. Ends early if an invariant is broken
/// that the scenario does not allow to be broken.
#[must_use]
pub fn live(plan: Plan, tracer: Option<Box<dyn Tracer>>) -> RunResult {
    let result = Network::new(plan, tracer).live();
    host::end();
    result
}

impl Network<'_> {
    fn live(mut self) -> RunResult {
        let end = self.plan.scenario.run.duration;
        let faults = !self.plan.faults.is_empty();
        let heal = self.plan.heal() + if faults { CONNECTIONS } else { 0 };
        self.run_until(end);
        if heal > 0 && !self.stopped {
            faults::calm(&mut self);
            let from = self.now.max(self.lasting.pauses_end());
            self.run_until(from);
            let usual = self.fabric.with_net(|net| net.usual_delay());
            let within = self.plan.scenario.lease.heals_within(usual) + CONNECTIONS;
            self.oracle.healing.begin(from, within);
            self.run_until(from + heal);
        }
        self.look();
        self.finish(end)
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end && !self.stopped && !self.healed {
            self.run_faults();
            let observes = self.now.is_multiple_of(LOOK_EVERY);
            if observes {
                self.operate();
                self.node_hosts.iter().for_each(|node_host| {
                    node_host.ask(Job::Look);
                });
            }
            if let Err(error) = self.sim.step() {
                self.broke(&error.to_string());
            }
            self.ingest();
            if observes {
                self.look();
            }
            self.now += STEP_NANOS;
            host::set_now(self.now);
        }
    }

    /// Ends the run as a failure, because the software of a host panicked.
    fn broke(&mut self, what: &str) {
        let now = self.now;
        let what = what.to_owned();
        self.oracle
            .commits
            .broke(now, || format!("the simulated software broke: {what}"));
        self.stopped = true;
    }

    fn show(&mut self, kind: &'static str, host: Option<usize>, text: impl FnOnce() -> String) {
        if let Some(tracer) = &mut self.tracer {
            tracer.record(&TraceEvent {
                at: self.now,
                kind,
                host: host.map_or("", |host| self.hosts.label(host)),
                from: "",
                what: &text(),
            });
        }
    }

    fn finish(mut self, end: u64) -> RunResult {
        let breaks = &self.plan.scenario.run.breaks;
        let breaches = self.oracle.found().filter_map(|found| found.breach.clone());
        let (allowed, breaches) = breaches.partition(|breach| breaks.contains(&breach.invariant));
        let recovery = self.oracle.healing.took();
        if recovery.is_some() {
            self.marks.hit(Mark::Recovered);
        }
        let entries = self.timeline.traffic.entries;
        self.timeline.traffic = self.fabric.traffic();
        self.timeline.traffic.entries = entries;
        self.timeline.ends = (end.min(self.now), self.now);
        self.mark_traffic();
        let budgets = self.plan.scenario.budgets.first();
        let grains = budgets.map_or(1, |(_, budget)| budget.scale().grains_per_token());
        let found = self.oracle.found();
        RunResult {
            breaches,
            allowed,
            doubts: found.filter_map(|found| found.doubt.clone()).collect(),
            slack: self.oracle.slack(),
            unleased: self.oracle.degraded.admitted as f64 / grains as f64,
            recovery,
            timeline: self.timeline,
            marks: self.marks,
            events: self
                .fabric
                .pieces
                .load(std::sync::atomic::Ordering::Relaxed),
            simulated: self.now,
        }
    }

    fn mark_traffic(&mut self) {
        let counts = self.fabric.counts();
        for (count, mark) in [
            (counts.cut, Mark::MessageCut),
            (counts.twice, Mark::MessageTwice),
            (counts.late, Mark::MessageLate),
            (counts.reset, Mark::ConnectionReset),
        ] {
            if count > 0 {
                self.marks.hit(mark);
            }
        }
    }
}
