//! Searches for the seed, and the changes to its plan, with the worst figure: the least slack under the envelope, the
//! most that is lost without faults, or the longest recovery.
//!
//! The search starts with seeds as they are drawn. Then it changes the best of them, a fault or a load at a
//! time, and keeps the changed plans that come closest to the envelope. Random numbers are drawn by name, and
//! a generation is judged as a whole before the next one is made. Therefore a hunt gives the same result with
//! any number of threads.

mod change;

use crate::draw::{Draw, Of};
use crate::judge::{SeedResult, Verdict, judge_plan};
use crate::plan::Plan;
use crate::scenario::Scenario;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The figure that a hunt makes as bad as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The part of what one limiter would have used that was lost in some window without faults.
    Lost,
    /// The time from the last fault until everything was well.
    Recovery,
    /// The tokens left under the envelope.
    Slack,
}

impl Objective {
    /// Returns the figure of a seed; the greater it is, the worse, except for slack.
    #[must_use]
    pub fn of(self, result: &SeedResult) -> Option<f64> {
        let figure = |name: &str| result.figures.get(name).copied();
        match self {
            Self::Lost => figure("availability").map(|part| 1.0 - part),
            Self::Recovery => figure("recovery"),
            Self::Slack => figure("slack"),
        }
    }

    /// Returns the figure in words.
    #[must_use]
    pub fn format_value(self, value: f64) -> String {
        match self {
            Self::Lost => format!("greatest loss without faults: {:.2} %", 100.0 * value),
            Self::Recovery => format!("longest recovery: {value:.3} s"),
            Self::Slack => format!("least slack under the envelope: {value:.6} tokens"),
        }
    }

    /// Orders values: the worst comes first.
    fn order(self, one: f64, other: f64) -> std::cmp::Ordering {
        match self {
            Self::Slack => one.total_cmp(&other),
            Self::Lost | Self::Recovery => other.total_cmp(&one),
        }
    }
}

/// Parameters of a hunt.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// The figure that decides which plan is best.
    pub objective: Objective,
    /// Names the random numbers of the hunt itself.
    pub seed: u64,
    /// Maximum number of plans to run.
    pub runs: usize,
    /// Number of threads; it does not change the result.
    pub jobs: usize,
}

/// The best plan that a hunt has found.
#[derive(Clone, Debug)]
pub struct Best {
    /// The plan with the worst figure, or the first that failed.
    pub plan: Plan,
    /// The figure, see [`Objective::of`].
    pub value: f64,
    /// The failure, if the plan failed.
    pub failure: Option<String>,
    /// Number of changes that lead to this plan from a seed as it was drawn.
    pub changes: usize,
    /// Number of plans run so far.
    pub runs: usize,
}

/// Number of plans in a generation. They are derived from the same parents and judged together.
const GENERATION: usize = 16;

/// Number of best plans that are changed further.
const PARENTS: usize = 4;

/// Runs a hunt. Calls `tell` after each generation with the number of plans run and the best so far.
///
/// # Errors
///
/// If no plan of the scenario has the figure, such as slack if no budget is a rate.
pub fn hunt(scenario: &Scenario, how: Hunt, tell: &dyn Fn(usize, &Best)) -> Result<Best, String> {
    let mut best: Vec<Best> = Vec::new();
    let mut runs = 0;
    for generation in 0.. {
        let count = GENERATION.min(how.runs.saturating_sub(runs));
        let found = best.first().is_some_and(|best| best.failure.is_some());
        if count == 0 || found {
            break;
        }
        // Every plan is drawn afresh until a third of the runs are done.
        let fresh = best.is_empty() || 3 * runs < how.runs;
        let candidate = |index: usize| {
            let number = (runs + index) as u64;
            let mut draw = Draw::of(how.seed, Of::Hunt, generation, index as u64);
            match best.get(draw.index(best.len())).filter(|_| !fresh) {
                Some(parent) => Candidate {
                    plan: change::changed(&parent.plan, &mut draw),
                    changes: parent.changes + 1,
                },
                None => Candidate {
                    plan: Plan::draw(scenario, how.seed.wrapping_add(number)),
                    changes: 0,
                },
            }
        };
        let candidates: Vec<Candidate> = (0..count).map(candidate).collect();
        runs += count;
        best.extend(judged(candidates, how, runs));
        // Failures first, then by the figure. The sort is stable, so the earlier of equals stays ahead.
        best.sort_by(|a, b| {
            let whole = a.failure.is_none().cmp(&b.failure.is_none());
            whole.then(how.objective.order(a.value, b.value))
        });
        best.truncate(PARENTS);
        if let Some(best) = best.first() {
            tell(runs, best);
        }
    }
    let first = best.into_iter().next();
    let best = first.ok_or_else(|| match how.objective {
        Objective::Slack => format!(
            "{} has no envelope, because it has no rate budget",
            scenario.name
        ),
        _ => format!(
            "{} has no such figure: no time after a fault was long enough",
            scenario.name
        ),
    })?;
    Ok(Best { runs, ..best })
}

struct Candidate {
    plan: Plan,
    changes: usize,
}

/// Runs the plans of a generation in any order, and returns the results in the order of the candidates.
fn judged(candidates: Vec<Candidate>, how: Hunt, runs: usize) -> Vec<Best> {
    let jobs = how.jobs;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done: Vec<(usize, SeedResult)> = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(candidate) = candidates.get(index) else {
                return done;
            };
            done.push((index, judge_plan(candidate.plan.clone(), &[], false)));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let mut results = work();
        for thread in threads {
            match thread.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    let outcome = |(candidate, (_, result)): (Candidate, (usize, SeedResult))| {
        let value = how.objective.of(&result);
        let failure = result.failures.into_iter().next();
        let failure = failure.filter(|_| result.verdict == Verdict::Fail);
        let value = value.or(failure.as_ref().map(|_| 0.0))?;
        Some(Best {
            plan: candidate.plan,
            value,
            failure,
            changes: candidate.changes,
            runs,
        })
    };
    let pairs = candidates.into_iter().zip(results);
    pairs.filter_map(outcome).collect()
}
