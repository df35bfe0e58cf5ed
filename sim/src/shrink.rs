//! Shrinks a failing seed: removes faults, clients and time while the same failure remains.

use crate::judge::{SeedResult, judge_plan};
use crate::plan::{Plan, write};
use crate::scenario::{Assert, Scenario};

/// The result of shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// Text of a scenario that fails by itself.
    pub text: String,
    /// The failure.
    pub failure: String,
    /// Number of faults before and after.
    pub faults: (usize, usize),
    /// Number of clients before and after.
    pub clients: (usize, usize),
    /// Duration of the safety phase in nanoseconds, before and after.
    pub duration: (u64, u64),
    /// Number of runs that were needed.
    pub runs: usize,
}

/// A shrinking run in progress.
struct Shrinker<'a> {
    asserts: &'a [Assert],
    /// The first part of the original failure's message, which identifies the kind of failure.
    failure: String,
    runs: usize,
}

/// Returns the kind of failure, without the numbers that differ between runs.
fn kind(result: &SeedResult) -> Option<String> {
    let failure = result.failures.first()?;
    let until = failure.find(" at ").or_else(|| failure.find(" within "));
    let until = until.or_else(|| failure.find(':')).unwrap_or(failure.len());
    Some(failure[..until].to_owned())
}

/// Shrinks a failing seed. Calls `tell` after each step.
///
/// # Errors
///
/// Returns a message if the seed does not fail, or if the shrunk scenario no longer fails once it is written
/// and read again.
pub fn shrink(
    scenario: &Scenario,
    seed: u64,
    tell: &mut dyn FnMut(&str),
) -> Result<Shrunk, String> {
    let first = Plan::draw(scenario, seed);
    let result = judge_plan(first.clone(), &scenario.asserts, false);
    let failure = kind(&result)
        .ok_or_else(|| format!("seed {seed} does not fail: there is nothing to shrink"))?;
    tell(&format!("seed {seed} fails: {}", result.failures[0]));
    // Invariants are always judged, so assertions are needed only if one of them failed.
    let by_assert = !failure.starts_with("invariant");
    let mut shrinker = Shrinker {
        asserts: if by_assert { &scenario.asserts } else { &[] },
        failure,
        runs: 1,
    };
    let mut plan = first.clone();
    if !by_assert {
        plan = shrinker.less_time(plan, &result);
    }
    plan = shrinker.fewer_faults(plan, tell);
    plan = shrinker.fewer_clients(plan, tell);
    plan = shrinker.fewer_faults(plan, tell);
    let text = write::plan(scenario, &plan, by_assert);
    let again = Scenario::parse(&scenario.name, &text, None);
    let again =
        again.map_err(|problems| format!("what was left cannot be written down: {problems}"))?;
    let again = judge_plan(Plan::draw(&again, seed), &again.asserts, false);
    if kind(&again).as_ref() != Some(&shrinker.failure) {
        return Err(format!(
            "what was left does not fail as before once it is written down: {:?}",
            again.failures
        ));
    }
    Ok(Shrunk {
        text,
        failure: again.failures[0].clone(),
        faults: (first.faults.len(), plan.faults.len()),
        clients: (
            first.scenario.clients_count(),
            plan.scenario.clients_count(),
        ),
        duration: (first.scenario.run.duration, plan.scenario.run.duration),
        runs: shrinker.runs,
    })
}

impl Shrinker<'_> {
    fn fails(&mut self, plan: &Plan) -> bool {
        self.runs += 1;
        let result = judge_plan(plan.clone(), self.asserts, false);
        kind(&result).as_ref() == Some(&self.failure)
    }

    /// Cuts off the time after the breach, if the seed still fails without it.
    fn less_time(&mut self, plan: Plan, result: &SeedResult) -> Plan {
        const MORE: u64 = 200_000_000;
        let mut less = plan.clone();
        if result.simulated >= plan.scenario.run.duration {
            return plan;
        }
        less.scenario.run.duration = result.simulated + MORE;
        less.scenario.run.heal = Some(0);
        let end = less.scenario.run.duration;
        less.faults.retain(|fault| fault.at < end);
        if self.fails(&less) { less } else { plan }
    }

    /// Removes ever smaller parts of the faults while the seed still fails without them.
    fn fewer_faults(&mut self, mut plan: Plan, tell: &mut dyn FnMut(&str)) -> Plan {
        plan.scenario.run.heal = Some(plan.heal());
        let mut part = plan.faults.len().div_ceil(2).max(1);
        loop {
            let mut from = 0;
            while from < plan.faults.len() {
                let to = (from + part).min(plan.faults.len());
                let mut less = plan.clone();
                less.faults.drain(from..to);
                if self.fails(&less) {
                    plan = less;
                } else {
                    from = to;
                }
            }
            tell(&format!(
                "{} faults left after {} runs",
                plan.faults.len(),
                self.runs
            ));
            if part == 1 {
                return plan;
            }
            part = part.div_ceil(2);
        }
    }

    /// Removes clients from each group, half of them first, then fewer at a time, while the seed still fails.
    fn fewer_clients(&mut self, mut plan: Plan, tell: &mut dyn FnMut(&str)) -> Plan {
        for index in 0..plan.scenario.clients.len() {
            let mut step = plan.scenario.clients[index].count.div_ceil(2);
            while step > 0 {
                let mut less = plan.clone();
                let count = &mut less.scenario.clients[index].count;
                if *count <= step {
                    step = if step == 1 { 0 } else { step.div_ceil(2) };
                    continue;
                }
                *count -= step;
                // A fault whose target names a removed client would be rejected when the scenario is read
                // again.
                if self.fails(&less) && is_whole(&less) {
                    plan = less;
                } else {
                    step = if step == 1 { 0 } else { step.div_ceil(2) };
                }
            }
        }
        tell(&format!(
            "{} clients left after {} runs",
            plan.scenario.clients_count(),
            self.runs
        ));
        plan
    }
}

/// Returns true if all hosts that faults name exist.
fn is_whole(plan: &Plan) -> bool {
    let groups = plan.scenario.groups();
    let there = |target: &crate::scenario::Target| {
        let name = target.to_string();
        crate::scenario::Target::parse(
            &name,
            plan.scenario.topology.nodes,
            &plan.scenario.topology.zones,
            &groups,
        )
        .is_ok()
    };
    plan.faults
        .iter()
        .all(|fault| fault.target.iter().chain(&fault.to).all(there))
}
