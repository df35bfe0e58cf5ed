//! A seed, lived through by the real code: coordinator nodes and clients as they are,
//! in a simulated network.
//!
//! Nodes run openraft, tonic, gossip and sessions; services run the client. They are
//! hosts of [turmoil](https://docs.rs/turmoil): one thread runs them all, in steps of a
//! millisecond of true time. What is not real stands in few places: sockets, clocks and
//! waits, randomness, and the disk. The plan of a seed, the oracle, the figures and the
//! verdict are those of the kernel tier.
//!
//! | file | what it is |
//! |---|---|
//! | `host` | clocks, waits and chance of a host |
//! | `fabric`, `pipe`, `frames` | links and what goes wrong on them, sockets, and what passes on these |
//! | `reach`, `disk` | how nodes are reached, and what they write on |
//! | `node`, `service` | the software of hosts: the real code, and who calls it |
//! | `strike` | what goes wrong with hosts, and how it ends |
//! | `diary`, `hear`, `looks` | what happened, and what the oracle is told of it |

mod begin;
mod diary;
mod disk;
mod fabric;
mod frames;
mod hear;
mod host;
mod looks;
mod node;
mod pipe;
mod reach;
mod service;
mod strike;

#[cfg(all(not(tokio_unstable), not(doc)))]
compile_error!(
    "the simulator needs `--cfg tokio_unstable`, which .cargo/config.toml sets: a RUSTFLAGS variable in the \
     environment replaces that, so unset it or add the flag to it"
);

use crate::course::Course;
use crate::hosts::Hosts;
use crate::mark::{Mark, Marks};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::world::{Lived, Sight, Witness};
use aliquot_core::state::State;
use aliquot_core::unit::RequestId;
use diary::Diary;
use fabric::Fabric;
pub use host::monotonic;
use node::{Job, Site};
use service::Station;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;

/// True time moves by so much at once.
const STEP: Duration = Duration::from_millis(1);
const STEP_NANOS: u64 = MS;

/// How often the oracle looks at all hosts.
const LOOK_EVERY: u64 = 50 * MS;

/// What the real code may take to notice dead connections and to come back after: two
/// keep-alives, a connection that does not open, and the longest pause between two tries.
const CONNECTIONS: u64 = (4 + 2 + 2) * SEC;

/// A seed being lived through.
struct Network<'a> {
    plan: Plan,
    hosts: Hosts,
    sim: turmoil::Sim<'a>,
    fabric: Arc<Fabric>,
    sites: Vec<Arc<Site>>,
    stations: Vec<Arc<Station>>,
    diary: Diary,
    oracle: Oracle,
    marks: Marks,
    course: Course,
    /// All that was ever applied, by whoever was first.
    state: State,
    /// What each entry did, in short, to be compared with what it does elsewhere.
    effects: Vec<u64>,
    /// Since when a node has been in office, by its own clock, in a term.
    offices: BTreeMap<(usize, u64), u64>,
    /// The last entry that anybody has written first.
    written: (u64, u64),
    now: u64,
    /// The next fault of the plan.
    next_fault: usize,
    /// What ends when, and the hosts that it struck.
    active: BTreeMap<usize, (u64, Vec<usize>)>,
    lasts: u64,
    /// What operators ask for, until it is done, and when it was asked for last.
    asked: Vec<(aliquot_core::command::Command, u64)>,
    requests: u64,
    calmed: bool,
    stopped: bool,
    /// All has been well for a while after the last fault.
    healed: bool,
    /// Who was in office at the last look.
    leader: Option<usize>,
    skew_from: Vec<(u64, i64)>,
    witness: Option<Box<dyn Witness>>,
}

/// Lives the seed of a plan through: the safety phase, then the healing phase. It
/// ends early at a breach of something that must hold.
#[must_use]
pub fn live(plan: Plan, witness: Option<Box<dyn Witness>>) -> Lived {
    let lived = Network::new(plan, witness).live();
    host::end();
    lived
}

impl Network<'_> {
    fn live(mut self) -> Lived {
        let end = self.plan.scenario.run.duration;
        let faults = !self.plan.faults.is_empty();
        let heal = self.plan.heal() + if faults { CONNECTIONS } else { 0 };
        self.run_until(end);
        if heal > 0 && !self.stopped {
            self.calm();
            let from = self.now.max(self.lasts);
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
            self.befall_due();
            let looks = self.now.is_multiple_of(LOOK_EVERY);
            if looks {
                self.operate();
                self.sites.iter().for_each(|site| {
                    site.ask(Job::Look);
                });
            }
            if let Err(error) = self.sim.step() {
                self.broke(&error.to_string());
            }
            self.hear();
            if looks {
                self.look();
            }
            self.now += STEP_NANOS;
            host::set_now(self.now);
        }
    }

    /// A host's software panicked: the seed is over, and that is what it is told for.
    fn broke(&mut self, what: &str) {
        let now = self.now;
        let what = what.to_owned();
        self.oracle
            .commits
            .broke(now, || format!("the simulated software broke: {what}"));
        self.stopped = true;
    }

    fn show(&mut self, kind: &'static str, host: Option<usize>, text: impl FnOnce() -> String) {
        if let Some(witness) = &mut self.witness {
            witness.saw(&Sight {
                at: self.now,
                kind,
                host: host.map_or("", |host| self.hosts.label(host)),
                from: "",
                what: &text(),
            });
        }
    }

    const fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::new(self.requests)
    }

    fn finish(mut self, end: u64) -> Lived {
        let breaks = &self.plan.scenario.run.breaks;
        let breaches = self.oracle.found().filter_map(|found| found.breach.clone());
        let (allowed, breaches) = breaches.partition(|breach| breaks.contains(&breach.invariant));
        let recovery = self.oracle.healing.took();
        if recovery.is_some() {
            self.marks.hit(Mark::Recovered);
        }
        let entries = self.course.traffic.entries;
        self.course.traffic = self.fabric.traffic();
        self.course.traffic.entries = entries;
        self.course.ends = (end.min(self.now), self.now);
        self.mark_traffic();
        let budgets = self.plan.scenario.budgets.first();
        let grains = budgets.map_or(1, |(_, budget)| budget.scale().grains_per_token());
        let found = self.oracle.found();
        Lived {
            breaches,
            allowed,
            doubts: found.filter_map(|found| found.doubt.clone()).collect(),
            slack: self.oracle.slack(),
            unleased: self.oracle.degraded.admitted as f64 / grains as f64,
            recovery,
            course: self.course,
            marks: self.marks,
            events: self
                .fabric
                .pieces
                .load(std::sync::atomic::Ordering::Relaxed),
            lived: self.now,
        }
    }

    fn mark_traffic(&mut self) {
        let seen = self.fabric.seen();
        for (count, mark) in [
            (seen.cut, Mark::MessageCut),
            (seen.twice, Mark::MessageTwice),
            (seen.late, Mark::MessageLate),
            (seen.reset, Mark::ConnectionReset),
        ] {
            if count > 0 {
                self.marks.hit(mark);
            }
        }
    }
}
