//! The result of a run.

use super::World;
use crate::mark::{Mark, Marks};
use crate::oracle::Breach;
use crate::timeline::Timeline;

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// Breaches of invariants that must hold: the first of each.
    pub breaches: Vec<Breach>,
    /// Breaches that the scenario allows by `breaks`.
    pub allowed: Vec<Breach>,
    /// Reasons for which something could not be judged.
    pub doubts: Vec<String>,
    /// The least slack under any envelope, in tokens; negative if an envelope is broken.
    pub slack: Option<f64>,
    /// Tokens admitted without a lease, by policy.
    pub unleased: f64,
    /// Time from the last fault until everything was well for good, in nanoseconds.
    pub recovery: Option<u64>,
    /// The recording of demand, admissions and traffic.
    pub timeline: Timeline,
    /// The marks that were hit.
    pub marks: Marks,
    /// Number of events: inputs handled by a state machine of the core, or in the network tier pieces of data
    /// read.
    pub events: u64,
    /// True time simulated, in nanoseconds.
    pub simulated: u64,
}

impl World {
    pub(super) fn finish(mut self, end: u64) -> RunResult {
        let breaks = &self.plan.scenario.run.breaks;
        let breaches = self.oracle.found().filter_map(|found| found.breach.clone());
        let (allowed, breaches) = breaches.partition(|breach| breaks.contains(&breach.invariant));
        let recovery = self.oracle.healing.took();
        if recovery.is_some() {
            self.marks.hit(Mark::Recovered);
        }
        let tight = self.oracle.slack().is_some_and(|slack| slack < 1.0);
        self.marks.hit_if(tight, Mark::EnvelopeTight);
        let ahead = self.timeline.keys.iter().any(|key| key.ahead > 0);
        self.marks.hit_if(ahead, Mark::AheadOfIdeal);
        self.timeline.ends = (end.min(self.now), self.now);
        let grains = self
            .claims
            .first()
            .map_or(1, |budget| budget.scale().grains_per_token());
        RunResult {
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
            timeline: self.timeline,
            marks: self.marks,
            events: self.events,
            simulated: self.now,
        }
    }
}
