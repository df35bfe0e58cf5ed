//! What a seed is: the scenario as it is for this seed, and every fault that
//! will strike, with its time and its hosts, all drawn before it begins.

use crate::draw::{Draw, Of};
use crate::scenario::{Fault, Group, Scenario, Shape, Swarm, Target};

/// A seed's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The scenario with what was drawn in place; its own faults and its swarm are in `faults`.
    pub scenario: Scenario,
    /// Every fault, once each, in the order of their times.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Draws a seed's plan.
    #[must_use]
    pub fn draw(scenario: &Scenario, seed: u64) -> Self {
        let mut scenario = scenario.clone();
        let swarm = scenario.swarm.take();
        if let Some(swarm) = &swarm {
            draw_sizes(&mut scenario, swarm, seed);
        }
        let mut faults = Vec::new();
        for (index, fault) in std::mem::take(&mut scenario.faults).into_iter().enumerate() {
            repeat(&scenario, &fault, index as u64, seed, &mut faults);
        }
        if let Some(swarm) = &swarm {
            draw_faults(&scenario, swarm, seed, &mut faults);
        }
        faults.sort_by_key(|fault| fault.at);
        Self {
            seed,
            scenario,
            faults,
        }
    }

    /// How long the healing phase lasts, in nanoseconds.
    #[must_use]
    pub fn heal(&self) -> u64 {
        let delay = self.scenario.topology.delay
            + self.scenario.topology.zone_delay
            + 2 * self.scenario.topology.spread;
        let usual = match self.faults.is_empty() {
            true => 0,
            false => self.scenario.lease.heals_within(delay) + 5_000_000_000,
        };
        self.scenario.run.heal.unwrap_or(usual)
    }
}

/// All occurrences of a fault that is written down.
fn repeat(scenario: &Scenario, fault: &Fault, index: u64, seed: u64, faults: &mut Vec<Fault>) {
    let mut at = fault.at;
    for time in 0..fault.times {
        if at >= scenario.run.duration && time > 0 {
            return;
        }
        let mut draw = Draw::of(seed, Of::Fault, index, time);
        faults.push(Fault {
            at,
            every: None,
            target: resolve(scenario, &fault.target, &mut draw),
            to: resolve(scenario, &fault.to, &mut draw),
            ..fault.clone()
        });
        match fault.every {
            Some(every) => at += every,
            None => return,
        }
    }
}

/// Puts hosts in the place of `one-of:` and `minority`.
fn resolve(scenario: &Scenario, targets: &[Target], draw: &mut Draw) -> Vec<Target> {
    let nodes = scenario.topology.nodes;
    let resolved = targets.iter().flat_map(|target| match target {
        Target::Minority => {
            let mut all: Vec<usize> = (0..nodes).collect();
            let most = (nodes - 1) / 2;
            (0..most)
                .map(|_| Target::Node(all.remove(draw.index(all.len()))))
                .collect()
        }
        Target::OneOf(of) => {
            let all = members(scenario, of);
            let picked = all.get(draw.index(all.len())).cloned();
            picked.into_iter().collect()
        }
        other => vec![other.clone()],
    });
    resolved.collect()
}

/// The single hosts of a target, as targets.
fn members(scenario: &Scenario, target: &Target) -> Vec<Target> {
    let nodes = || (0..scenario.topology.nodes).map(Target::Node);
    let of_group = |group: &Group| {
        let name = group.name.clone();
        (0..group.count).map(move |number| Target::Client(name.clone(), number))
    };
    let clients = || scenario.clients.iter().flat_map(of_group);
    match target {
        Target::All => nodes().chain(clients()).collect(),
        Target::Nodes | Target::Minority => nodes().collect(),
        Target::Clients => clients().collect(),
        Target::Group(name) => {
            let group = scenario.clients.iter().filter(|group| group.name == *name);
            group.flat_map(of_group).collect()
        }
        Target::Zone(zone) => {
            let hosts = crate::hosts::zone_members(scenario, zone);
            hosts.into_iter().collect()
        }
        Target::OneOf(of) => members(scenario, of),
        one => vec![one.clone()],
    }
}

fn draw_sizes(scenario: &mut Scenario, swarm: &Swarm, seed: u64) {
    let mut draw = Draw::of(seed, Of::Plan, 1, 0);
    let nodes = draw.next();
    let clients = draw.next();
    if let Some((from, to)) = swarm.nodes {
        scenario.topology.nodes = (from + nodes % (to - from)) as usize;
    }
    if let (Some((from, to)), Some(group)) = (swarm.clients, scenario.clients.first_mut()) {
        group.count = (from + clients % (to - from)) as usize;
    }
    if swarm.load {
        for (index, group) in scenario.clients.iter_mut().enumerate() {
            draw_load(
                group,
                scenario.run.duration,
                &mut Draw::of(seed, Of::Plan, 2, index as u64),
            );
        }
    }
    for group in &mut scenario.clients {
        group.home = group.home.filter(|home| *home < scenario.topology.nodes);
    }
}

/// Another shape of about the same size, now and then a much smaller or greater one.
fn draw_load(group: &mut Group, duration: u64, draw: &mut Draw) {
    const SEC: u64 = 1_000_000_000;
    let at = draw.range(duration / 6, duration / 2);
    let to = group.rate * (0.2 + 3.0 * draw.unit());
    group.shape = match draw.range(0, 9) {
        0 => Shape::Ramp {
            to,
            at,
            over: draw.range(SEC, 20 * SEC),
        },
        1 => Shape::Step { to, at },
        2 => Shape::Spike {
            to,
            at,
            over: draw.range(SEC, 10 * SEC),
        },
        3 => Shape::Sine {
            swing: draw.unit(),
            over: draw.range(2 * SEC, 20 * SEC),
        },
        4 => Shape::OnOff {
            on: draw.range(SEC / 10, 3 * SEC),
            off: draw.range(SEC / 10, 3 * SEC),
            at: 0,
        },
        5 => Shape::FlashCrowd {
            to,
            at,
            over: draw.range(SEC, 10 * SEC),
        },
        6 => Shape::Pareto {
            alpha: 1.2 + draw.unit(),
        },
        7 => Shape::Walk {
            swing: draw.unit() / 2.0,
            over: draw.range(SEC, 10 * SEC),
        },
        _ => Shape::Constant,
    };
    group.in_step = draw.chance(0.3);
    group.waiting = if draw.chance(0.3) { 8 } else { 0 };
    group.flows = draw.chance(0.2).then(|| draw.range(1, 4));
}

fn draw_faults(scenario: &Scenario, swarm: &Swarm, seed: u64, faults: &mut Vec<Fault>) {
    let mut classes = Draw::of(seed, Of::Plan, 3, 0);
    let mut kinds: Vec<&'static str> = Vec::new();
    for kind in &swarm.kinds {
        if !classes.chance(swarm.omit) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        return;
    }
    let end = scenario.run.duration;
    let mut at = swarm.from;
    for count in 0.. {
        let mut draw = Draw::of(seed, Of::Plan, 4, count);
        at += draw.exponential(swarm.every as f64) as u64;
        if at >= end {
            return;
        }
        let kind = kinds[draw.index(kinds.len())];
        let lasts = draw.range(50_000_000, swarm.longest).min(end - at);
        faults.push(one(scenario, kind, at, lasts, &mut draw));
    }
}

/// One fault of a class, with hosts and amounts drawn.
fn one(scenario: &Scenario, kind: &'static str, at: u64, lasts: u64, draw: &mut Draw) -> Fault {
    const MS: i64 = 1_000_000;
    let pick =
        |of: Target, draw: &mut Draw| resolve(scenario, &[Target::OneOf(Box::new(of))], draw);
    let whose = draw.range(0, 10);
    let nodes_or_clients = match whose {
        0 => vec![Target::Leader],
        1..=4 => pick(Target::Nodes, draw),
        _ => pick(Target::Clients, draw),
    };
    let on_links = matches!(
        kind,
        "partition" | "one_way" | "delay" | "loss" | "duplicate" | "reorder"
    );
    let target = match kind {
        "leader_transfer" | "store_error" => pick(Target::Nodes, draw),
        "client_churn" | "clone_client" => pick(Target::Clients, draw),
        "reset" => pick(Target::Nodes, draw),
        "partition" if draw.chance(0.3) => resolve(scenario, &[Target::Minority], draw),
        "loss" | "duplicate" | "reorder" if draw.chance(0.6) => vec![Target::All],
        _ => nodes_or_clients,
    };
    let to = match on_links && draw.chance(0.5) {
        true => pick(Target::Nodes, draw),
        false => Vec::new(),
    };
    let steps = [-3_600_000, -3_000, -200, 150, 900, 3_000, 60_000];
    let by = match kind {
        "clock_step" => steps[draw.index(steps.len())] * MS,
        "strobe" => draw.range(50, 800) as i64 * MS,
        "slow" => draw.range(1, 100) as i64 * MS,
        _ => draw.range(20, 2_500) as i64 * MS,
    };
    let bound = i64::from(scenario.lease.drift.ppm()) / 100;
    let ppm = draw.range(0, 2 * bound as u64 + 1) as i64 - bound;
    Fault {
        kind,
        at,
        every: None,
        times: 1,
        lasts,
        target,
        to,
        with_clients: draw.chance(0.5),
        amount: 0.05 + 0.35 * draw.unit(),
        by,
        ppm: ppm * 100,
        period: draw.range(20, 300) * 1_000_000,
        wall: true,
        joins: false,
        set: toml::Table::new(),
    }
}
