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
//! | `operator` | orders of operators: writes, and changes of the members |
//! | `event_log`, `ingest`, `observe` | a log of what happened in a step, and what is passed from it and from the hosts to the observer |

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
mod operator;
mod packets;
mod pipe;
mod reach;
mod service;

#[cfg(all(not(tokio_unstable), not(doc)))]
compile_error!(
    "the simulator needs `--cfg tokio_unstable`, which .cargo/config.toml sets: a RUSTFLAGS variable in the \
     environment replaces that, so unset it or add the flag to it"
);

use crate::clock::MS;
use crate::faults::{self, Lasting};
use crate::hosts::Hosts;
use crate::mark::Mark;
use crate::observer::{Observer, RunResult};
use crate::plan::Plan;
use crate::trace::Tracer;
use aliquot_core::state::State;
use event_log::{EventLog, NodeDecided};
use fabric::Fabric;
use host::STEP;
pub use host::monotonic;
use node::{Job, NodeHost};
use operator::Order;
use service::{ClientHost, Session};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Interval at which the oracle inspects all hosts.
const LOOK_EVERY: u64 = 50 * MS;

/// A run in progress.
struct Network<'a> {
    plan: Plan,
    hosts: Rc<Hosts>,
    sim: turmoil::Sim<'a>,
    fabric: Arc<Fabric>,
    node_hosts: Vec<Arc<NodeHost>>,
    client_hosts: Vec<Arc<ClientHost>>,
    event_log: EventLog,
    /// Decisions of this step that nodes made after their snapshots.
    decided_late: Vec<NodeDecided>,
    observer: Observer,
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
    /// Orders of operators that are not carried out yet, with the time of the last attempt.
    orders: Vec<(Order, u64)>,
    requests: u64,
    /// The node that led at the last inspection.
    leader: Option<usize>,
    /// The session of each client at the last inspection.
    sessions: Vec<Session>,
}

/// Runs the seed of a plan: the safety phase, then the healing phase. Ends early if an invariant is broken
/// that the scenario does not allow to be broken. Calls `reached` once in each second of true time.
#[must_use]
pub fn live(
    plan: Plan,
    tracer: Option<Box<dyn Tracer>>,
    reached: Option<Box<dyn Fn(u64)>>,
) -> RunResult {
    let mut network = Network::new(plan, tracer);
    if let Some(reached) = reached {
        network.observer.call(reached);
    }
    let result = network.live();
    host::end();
    result
}

impl Network<'_> {
    fn live(mut self) -> RunResult {
        let end = self.plan.scenario.run.duration;
        let heal = self.plan.heal();
        self.run_until(end);
        if heal > 0 && !self.observer.is_stopped() {
            faults::calm(&mut self);
            let from = self.now.max(self.lasting.pauses_end());
            self.run_until(from);
            self.observer.heals(from, self.plan.heals_within());
            self.run_until(from + heal);
        }
        self.look();
        self.finish(end)
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end && !self.observer.is_over() {
            self.run_faults();
            let observes = self.now.is_multiple_of(LOOK_EVERY);
            if observes {
                self.operate();
                self.node_hosts.iter().for_each(|node_host| {
                    node_host.ask(Job::Look);
                });
            }
            if let Err(error) = self.sim.step() {
                self.observer.broke(self.now, || {
                    format!("the simulated software broke: {error}")
                });
            }
            self.ingest();
            if observes {
                self.look();
            }
            self.ingest_late();
            self.now += STEP.as_nanos() as u64;
            host::set_now(self.now);
        }
    }

    fn finish(mut self, end: u64) -> RunResult {
        let entries = self.observer.timeline.traffic.entries;
        self.observer.timeline.traffic = self.fabric.traffic();
        self.observer.timeline.traffic.entries = entries;
        let counts = self.fabric.counts();
        for (count, mark) in [
            (counts.cut, Mark::MessageCut),
            (counts.twice, Mark::MessageDuplicated),
            (counts.late, Mark::MessageDelayed),
            (counts.lost, Mark::MessageLost),
            (counts.reset, Mark::ConnectionReset),
        ] {
            self.observer.marks.hit_times(mark, count);
        }
        let events = self.fabric.pieces.load(Ordering::Relaxed);
        self.observer.finish(end, self.now, events)
    }
}
