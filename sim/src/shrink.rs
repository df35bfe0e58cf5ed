//! Making a failing seed small: fewer faults, fewer clients, less time, as
//! long as the same thing fails.

use crate::judge::{SeedResult, judge_plan};
use crate::plan::Plan;
use crate::scenario::{Assert, Scenario, write};

/// What came of it.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// A scenario that fails by itself.
    pub text: String,
    /// What fails.
    pub failure: String,
    /// Faults before and after.
    pub faults: (usize, usize),
    /// Clients before and after.
    pub clients: (usize, usize),
    /// Nanoseconds of the safety phase before and after.
    pub duration: (u64, u64),
    /// How many runs it took.
    pub runs: usize,
}

/// What is being made small.
struct Shrinker<'a> {
    asserts: &'a [Assert],
    /// What failed at first, by its first words.
    failure: String,
    runs: usize,
}

/// What failed, without the figures that differ from run to run.
fn kind(result: &SeedResult) -> Option<String> {
    let failure = result.failures.first()?;
    let until = failure.find(" at ").or_else(|| failure.find(" within "));
    let until = until.or_else(|| failure.find(':')).unwrap_or(failure.len());
    Some(failure[..until].to_owned())
}

/// Shrinks a seed that fails. `tell` hears of each step.
///
/// # Errors
///
/// That the seed does not fail, or that what is left does not fail any more
/// once it is written down: then nothing is to be trusted.
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
    // An invariant is judged by itself; only what an assertion says needs the assertions.
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

    /// What came after the breach played no part.
    fn less_time(&mut self, plan: Plan, result: &SeedResult) -> Plan {
        const MORE: u64 = 200_000_000;
        let mut less = plan.clone();
        if result.lived >= plan.scenario.run.duration {
            return plan;
        }
        less.scenario.run.duration = result.lived + MORE;
        less.scenario.run.heal = Some(0);
        let end = less.scenario.run.duration;
        less.faults.retain(|fault| fault.at < end);
        if self.fails(&less) { less } else { plan }
    }

    /// Takes away ever smaller parts of the faults, as long as it fails without them.
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

    /// Halves every group as long as it fails, then takes clients one by one.
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
                // Faults of clients that are gone strike nobody.
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

/// Whether every host that a fault names is there.
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
