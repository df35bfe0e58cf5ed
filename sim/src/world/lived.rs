//! What came of a seed.

use super::World;
use crate::course::Course;
use crate::mark::{Mark, Marks};
use crate::oracle::Breach;

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
