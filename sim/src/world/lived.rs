//! The result of a run.

use super::World;
use crate::course::Course;
use crate::mark::{Mark, Marks};
use crate::oracle::Breach;

/// The result of a run ("lived").
#[derive(Debug)]
pub struct Lived {
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
    pub course: Course,
    /// The marks that were hit.
    pub marks: Marks,
    /// Number of events: inputs handled by a state machine of the core, or in the network tier pieces of data
    /// read.
    pub events: u64,
    /// True time simulated, in nanoseconds.
    pub lived: u64,
}

impl World {
    pub(super) fn finish(mut self, end: u64) -> Lived {
        let breaks = &self.plan.scenario.run.breaks;
        let breaches = self.oracle.found().filter_map(|found| found.breach.clone());
        let (allowed, breaches) = breaches.partition(|breach| breaks.contains(&breach.invariant));
        let recovery = self.oracle.healing.took();
        if recovery.is_some() {
            self.marks.hit(Mark::Recovered);
        }
        let tight = self.oracle.slack().is_some_and(|slack| slack < 1.0);
        self.marks.hit_if(tight, Mark::EnvelopeTight);
        let ahead = self.course.keys.iter().any(|key| key.ahead > 0);
        self.marks.hit_if(ahead, Mark::AheadOfIdeal);
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
}
