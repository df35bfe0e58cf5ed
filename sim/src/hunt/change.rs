//! Small random changes to a plan.

use crate::draw::Draw;
use crate::plan::{self, Plan};
use crate::scenario::Fault;
use crate::scenario::kinds::{FAULTS, FaultKind};

const MS: u64 = 1_000_000;

/// Returns the plan with one to three changes.
pub(super) fn changed(plan: &Plan, draw: &mut Draw) -> Plan {
    let mut plan = plan.clone();
    for _ in 0..draw.range(1, 4) {
        let faults = plan.faults.len();
        match draw.range(0, 8) {
            0 | 1 => add(&mut plan, draw),
            2 if faults > 0 => drop(plan.faults.remove(draw.index(faults))),
            3 | 4 if faults > 0 => shift(&mut plan, draw),
            5 if faults > 0 => stretch(&mut plan, draw),
            6 => load(&mut plan, draw),
            _ => arrivals(&mut plan, draw),
        }
    }
    plan.faults.sort_by_key(|fault| fault.at);
    plan
}

fn add(plan: &mut Plan, draw: &mut Draw) {
    let end = plan.scenario.run.duration;
    // Only kinds under which Aliquot's guarantees hold.
    let within = FAULTS
        .iter()
        .filter(|kind| FaultKind::named(kind).is_some_and(|row| !row.beyond));
    let kinds: Vec<&'static str> = within.copied().collect();
    let kind = kinds[draw.index(kinds.len())];
    let at = draw.range(2_000 * MS, end.max(2_001 * MS));
    let lasts = draw.range(50 * MS, 6_000 * MS).min(end.saturating_sub(at));
    let fault = plan::one(&plan.scenario, kind, at, lasts, draw);
    plan.faults.push(fault);
}

fn picked<'a>(plan: &'a mut Plan, draw: &mut Draw) -> &'a mut Fault {
    let index = draw.index(plan.faults.len());
    &mut plan.faults[index]
}

/// Moves a fault by up to two seconds, earlier or later.
fn shift(plan: &mut Plan, draw: &mut Draw) {
    let end = plan.scenario.run.duration;
    let by = draw.range(0, 4_000 * MS);
    let fault = picked(plan, draw);
    fault.at = (fault.at + by).saturating_sub(2_000 * MS);
    fault.at = fault.at.min(end.saturating_sub(MS));
    fault.lasts = fault.lasts.min(end.saturating_sub(fault.at));
}

/// Makes a fault last between half and twice as long.
fn stretch(plan: &mut Plan, draw: &mut Draw) {
    let end = plan.scenario.run.duration;
    let part = draw.range(50, 201);
    let fault = picked(plan, draw);
    let longest = end.saturating_sub(fault.at);
    fault.lasts = (fault.lasts / 100 * part).min(longest);
}

/// Scales a group's load by a factor from a half to two.
fn load(plan: &mut Plan, draw: &mut Draw) {
    let groups = &mut plan.scenario.clients;
    let index = draw.index(groups.len());
    if let Some(group) = groups.get_mut(index) {
        group.times = (group.times * (0.5 + 1.5 * draw.unit())).clamp(0.1, 20.0);
    }
}

/// Switches a group's arrivals between regular and random.
fn arrivals(plan: &mut Plan, draw: &mut Draw) {
    let groups = &mut plan.scenario.clients;
    let index = draw.index(groups.len());
    if let Some(group) = groups.get_mut(index) {
        group.in_step = !group.in_step;
    }
}
