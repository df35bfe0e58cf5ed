//! Runs many seeds of a scenario on several threads, and combines their results.

use crate::judge::{SeedResult, Verdict, judge_watched, missed};
use crate::mark::Marks;
use crate::plan::Plan;
use crate::scenario::{Scenario, Tier, What};
use crate::subprocess;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The combined result of a scenario.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Name of the scenario.
    pub name: String,
    /// Title of the scenario.
    pub says: String,
    /// The results of all seeds, in order.
    pub seeds: Vec<SeedResult>,
    /// A message for each mark that an assertion requires and that no seed hit.
    pub missed: Vec<String>,
    /// The marks of all seeds, added up.
    pub marks: Marks,
}

/// Runs seeds on `jobs` threads, and calls `done` with the result of each.
///
/// # Panics
///
/// If a seed of the kernel tier panics, for example because an assertion of the core fails.
#[must_use]
pub fn run(
    scenario: &Scenario,
    seeds: Range<u64>,
    jobs: usize,
    done: &(dyn Fn(&SeedResult) + Sync),
) -> Summary {
    run_watched(
        scenario,
        seeds,
        jobs,
        done,
        &(Arc::new(|_, _| {}) as Reached),
    )
}

/// Is called with a seed and the true time that it has reached, once in each second of it.
pub type Reached = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Does the same, and calls `reached` while seeds run.
///
/// # Panics
///
/// As [`run`].
#[must_use]
pub fn run_watched(
    scenario: &Scenario,
    seeds: Range<u64>,
    jobs: usize,
    done: &(dyn Fn(&SeedResult) + Sync),
    reached: &Reached,
) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicBool::new(false);
    let counts = |assert: &crate::scenario::Assert| {
        matches!(
            assert.what,
            What::Metric("bytes") | What::AfterHeal("bytes")
        )
    };
    let all_bytes = scenario.asserts.iter().any(counts);
    let work = || {
        let (mut results, mut marks) = (Vec::new(), Marks::default());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || failed.load(Ordering::Relaxed) {
                return (results, marks);
            }
            let mut result = match scenario.run.tier {
                Tier::Kernel => {
                    let (plan, reached) = (Plan::draw(scenario, seed), Arc::clone(reached));
                    let reached = Box::new(move |now| reached(seed, now));
                    let bytes = all_bytes || seed == seeds.start;
                    judge_watched(plan, &scenario.asserts, bytes, Some(reached))
                }
                Tier::Network => {
                    subprocess::judge_watched(scenario, seed, &|now| reached(seed, now))
                }
            };
            done(&result);
            // A million seeds must fit in memory, so their marks are added up at once.
            marks.add(&std::mem::take(&mut result.marks));
            results.push(result);
        }
    };
    let (mut results, marks) = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let (mut results, mut marks) = work();
        for thread in threads {
            match thread.join() {
                Ok((more, others)) => {
                    results.extend(more);
                    marks.add(&others);
                }
                Err(panic) => {
                    failed.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(panic);
                }
            }
        }
        (results, marks)
    });
    results.sort_by_key(|result| result.seed);
    Summary {
        name: scenario.name.clone(),
        says: scenario.run.says.clone().unwrap_or_default(),
        missed: missed(scenario, &marks),
        seeds: results,
        marks,
    }
}

impl Summary {
    /// Returns the worst verdict of all seeds. A missed mark counts as a failure.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let worst = self.seeds.iter().map(|seed| seed.verdict).max();
        let worst = worst.unwrap_or(Verdict::Unknown);
        if self.missed.is_empty() {
            worst
        } else {
            Verdict::Fail
        }
    }

    /// Returns the values of a figure over all seeds that have it, sorted.
    fn all(&self, name: &str) -> Vec<f64> {
        let mut all: Vec<f64> = self
            .seeds
            .iter()
            .filter_map(|seed| seed.figures.get(name).copied())
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Returns the median of a figure: of an even number of values, the mean of the two in the middle.
    #[must_use]
    pub fn median(&self, name: &str) -> Option<f64> {
        let all = self.all(name);
        let (below, above) = (
            all.get(all.len().checked_sub(1)? / 2)?,
            all.get(all.len() / 2)?,
        );
        Some(below.midpoint(*above))
    }

    /// Returns the least or the greatest value of a figure, with its first seed.
    #[must_use]
    pub fn worst(&self, name: &str, greatest: bool) -> Option<(f64, u64)> {
        let all = self.seeds.iter();
        let all = all.filter_map(|seed| Some((*seed.figures.get(name)?, seed.seed)));
        all.reduce(|worst, next| match next.0 > worst.0 {
            more if more == greatest && next.0 != worst.0 => next,
            _ => worst,
        })
    }

    /// Returns the least value of a figure.
    #[must_use]
    pub fn least(&self, name: &str) -> Option<f64> {
        self.all(name).first().copied()
    }

    /// Returns the greatest value of a figure.
    #[must_use]
    pub fn most(&self, name: &str) -> Option<f64> {
        self.all(name).last().copied()
    }

    /// Returns the number of events of all seeds.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.seeds.iter().map(|seed| seed.events).sum()
    }
}

#[cfg(test)]
#[path = "../tests/unit/runner.rs"]
mod tests;
