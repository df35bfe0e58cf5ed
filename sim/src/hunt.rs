//! Searches for the seed, and the changes to its plan, that leave the least slack under the envelope.
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

/// Parameters of a hunt.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
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
    /// The plan with the least slack, or the first that failed.
    pub plan: Plan,
    /// Tokens left under the envelope in the plan's worst window; negative if the envelope is broken.
    pub slack: f64,
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
/// If no plan of the scenario has an envelope, because it has no rate budget.
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
        best.extend(judged(candidates, how.jobs, runs));
        // Failures first, then by slack. The sort is stable, so the earlier of equals stays ahead.
        best.sort_by(|a, b| {
            let whole = a.failure.is_none().cmp(&b.failure.is_none());
            whole.then(a.slack.total_cmp(&b.slack))
        });
        best.truncate(PARENTS);
        if let Some(best) = best.first() {
            tell(runs, best);
        }
    }
    let first = best.into_iter().next();
    let best =
        first.ok_or_else(|| format!("{} has no envelope: it limits no rate", scenario.name))?;
    Ok(Best { runs, ..best })
}

struct Candidate {
    plan: Plan,
    changes: usize,
}

/// Runs the plans of a generation in any order, and returns the results in the order of the candidates.
fn judged(candidates: Vec<Candidate>, jobs: usize, runs: usize) -> Vec<Best> {
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
        let slack = result.figures.get("slack").copied();
        let failure = result.failures.into_iter().next();
        let failure = failure.filter(|_| result.verdict == Verdict::Fail);
        let slack = slack.or(failure.as_ref().map(|_| 0.0))?;
        Some(Best {
            plan: candidate.plan,
            slack,
            failure,
            changes: candidate.changes,
            runs,
        })
    };
    let pairs = candidates.into_iter().zip(results);
    pairs.filter_map(outcome).collect()
}
