//! Looking for trouble: the seed, and the change of what it drew, that leaves
//! the least slack under the envelope.
//!
//! First seeds are lived through as they are. Then the best of them are changed,
//! a fault or a load at a time, and what comes closer to the envelope is changed
//! further. All chance is drawn by name, and a generation is judged as a whole
//! before the next is made, so the same hunt finds the same whatever the number
//! of threads.

mod change;

use crate::draw::{Draw, Of};
use crate::judge::{SeedResult, Verdict, judge_plan};
use crate::plan::Plan;
use crate::scenario::Scenario;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a hunt goes about it.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// What the hunt's own draws are named by.
    pub seed: u64,
    /// How many worlds it may live through.
    pub runs: usize,
    /// Threads; it finds the same with any number.
    pub jobs: usize,
}

/// What a hunt brought home.
#[derive(Clone, Debug)]
pub struct Quarry {
    /// The plan with the least slack, or the first that failed.
    pub plan: Plan,
    /// Tokens under the envelope in its worst window; negative if it is broken.
    pub slack: f64,
    /// What did not hold, if anything.
    pub failure: Option<String>,
    /// How many changes lead to it from the seed as it was drawn.
    pub changes: usize,
    /// Worlds that were lived through.
    pub runs: usize,
}

/// Judged together, from the same parents.
const GENERATION: usize = 16;

/// So many of the best are changed further.
const PARENTS: usize = 4;

/// Hunts. `tell` hears of each generation: worlds lived through, and the best so far.
///
/// # Errors
///
/// That no world of the scenario has an envelope to come close to.
pub fn hunt(
    scenario: &Scenario,
    how: Hunt,
    tell: &dyn Fn(usize, &Quarry),
) -> Result<Quarry, String> {
    let mut best: Vec<Quarry> = Vec::new();
    let mut runs = 0;
    for generation in 0.. {
        let count = GENERATION.min(how.runs.saturating_sub(runs));
        let found = best.first().is_some_and(|best| best.failure.is_some());
        if count == 0 || found {
            break;
        }
        // A third of the worlds are seeds as they are drawn.
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
        // Failures first, then the least slack; the earlier of equals stays.
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
    let quarry =
        first.ok_or_else(|| format!("{} has no envelope: it limits no rate", scenario.name))?;
    Ok(Quarry { runs, ..quarry })
}

struct Candidate {
    plan: Plan,
    changes: usize,
}

/// Lives all of a generation through, in any order, and returns them in theirs.
fn judged(candidates: Vec<Candidate>, jobs: usize, runs: usize) -> Vec<Quarry> {
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
    let quarry = |(candidate, (_, result)): (Candidate, (usize, SeedResult))| {
        let slack = result.figures.get("slack").copied();
        let failure = result.failures.into_iter().next();
        let failure = failure.filter(|_| result.verdict == Verdict::Fail);
        let slack = slack.or(failure.as_ref().map(|_| 0.0))?;
        Some(Quarry {
            plan: candidate.plan,
            slack,
            failure,
            changes: candidate.changes,
            runs,
        })
    };
    let pairs = candidates.into_iter().zip(results);
    pairs.filter_map(quarry).collect()
}
