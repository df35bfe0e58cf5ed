//! The plan of a seed: the scenario with all drawn values, and all faults with their times and targets. It is
//! drawn before the simulation starts.

pub mod write;

use crate::draw::{Draw, Of};
use crate::oracle::{Greatest, availability};
use crate::scenario::{
    DamagedPart, Fault, Group, MemberChange, Scenario, Shape, Swarm, Target, Tier, Verb, What,
};
use aliquot_core::budget::{Budget, BudgetDraft, Key};
use aliquot_core::share::Kind;

const SEC: u64 = 1_000_000_000;

/// The plan of a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The scenario with the drawn values in place. Its faults and its swarm have moved to `faults`.
    pub scenario: Scenario,
    /// All occurrences of all faults, by time.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Draws the plan of a seed.
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

    /// Returns true if the healing phase may end as soon as everything has been well for a while.
    ///
    /// It must last to its end if an assertion needs figures of that time.
    #[must_use]
    pub fn may_end_early(&self) -> bool {
        let after = |assert: &crate::scenario::Assert| matches!(assert.what, What::AfterHeal(_));
        !self.scenario.asserts.iter().any(after)
    }

    /// Returns true if a node joins during the run. It does not run before.
    pub(crate) fn joins_later(&self, node: usize) -> bool {
        let joins =
            |fault: &&Fault| fault.kind == "membership" && fault.change == MemberChange::Join;
        let mut joins = self.faults.iter().filter(joins);
        joins.any(|fault| fault.target.contains(&Target::Node(node)))
    }

    /// Returns the greatest limit that each rate budget ever has.
    pub(crate) fn greatest(&self) -> Vec<Greatest> {
        let written = self.faults.iter().filter(|fault| fault.writes_budget());
        let written: Vec<Budget> = written
            .filter_map(|fault| Some(self.scenario.changed(&fault.set).ok()?.1))
            .collect();
        let of = |budget: &Budget| {
            let later = written.iter().filter(|later| later.key() == budget.key());
            Greatest::of(budget, later.chain([budget]).cloned())
        };
        let budgets = self.scenario.budgets.iter();
        budgets.filter_map(|(_, budget)| of(budget)).collect()
    }

    /// Returns the maximum length of the healing phase in nanoseconds.
    #[must_use]
    pub fn heal(&self) -> u64 {
        let usual = match self.faults.is_empty() {
            true => 0,
            false => self.heals_within() + self.converges_within() + 5 * SEC,
        };
        let written = self.scenario.run.heal;
        written.map_or(usual, |heal| match self.faults.is_empty() || heal == 0 {
            true => heal,
            false => heal + self.connections(),
        })
    }

    /// Returns the time after the last fault within which everything must be well: that of invariant 8, and in the
    /// network tier the time in which connections are made anew.
    #[must_use]
    pub fn heals_within(&self) -> u64 {
        let usual = self.scenario.lease.heals_within(self.delay());
        usual + self.connections()
    }

    /// Returns the time that demand and shares take to travel up and down once everything is well.
    #[must_use]
    pub fn converges_within(&self) -> u64 {
        self.scenario.lease.converges_within(self.delay())
    }

    /// Returns the times that invariant 9 needs. `budgets` are those that clients use.
    pub(crate) fn times(&self, budgets: &[Budget]) -> availability::Times {
        let holds = budgets.iter().map(|budget| budget.max_hold().nanos());
        availability::Times {
            reclaims: self.scenario.lease.patience() + holds.max().unwrap_or(0),
            heals: self.heals_within(),
            converges: self.converges_within(),
        }
    }

    /// Returns the longest that a message usually takes one way.
    pub(crate) const fn delay(&self) -> u64 {
        let topology = &self.scenario.topology;
        topology.delay + topology.zone_delay + 2 * topology.spread
    }

    /// Returns the time that the real code may take to notice dead connections and to reconnect: two keep-alives,
    /// one attempt to connect that fails, and the longest pause between two attempts.
    const fn connections(&self) -> u64 {
        match self.scenario.run.tier {
            Tier::Network => (4 + 2 + 2) * SEC,
            Tier::Kernel => 0,
        }
    }
}

/// Adds all occurrences of a fault of the scenario.
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

/// Replaces `one-of:` and `minority` by drawn hosts.
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

/// Returns the single hosts of a target, as targets.
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
        let (within, part) = (to - from, nodes % 1_000);
        scenario.topology.nodes = (from + within * part * part / 1_000_000) as usize;
    }
    if let Some((from, to)) = swarm.groups {
        leave_out_groups(scenario, draw.range(from, to), &mut draw);
    }
    if let Some((from, to)) = swarm.clients {
        // Large numbers are drawn less often than small ones: they cost more and show little more.
        let (within, part) = (to - from, clients % 1_000);
        let clients = (from + within * part.pow(4) / 1_000_000_000_000) as usize;
        let groups = scenario.clients.len().max(1);
        for (index, group) in scenario.clients.iter_mut().enumerate() {
            group.count = ((clients + index) / groups).max(1);
        }
    }
    if swarm.load {
        for (index, group) in scenario.clients.iter_mut().enumerate() {
            let mut draw = Draw::of(seed, Of::Plan, 2, index as u64);
            draw_size(group, &scenario.budgets, &mut draw);
            draw_load(group, scenario.run.duration, &mut draw);
        }
    }
    for group in &mut scenario.clients {
        group.home = group.home.filter(|home| *home < scenario.topology.nodes);
    }
}

/// Removes drawn groups until `most` are left, with the budgets that no other group uses.
fn leave_out_groups(scenario: &mut Scenario, most: u64, draw: &mut Draw) {
    let first = scenario.budgets.first().map(|(draft, _)| draft.key.clone());
    while scenario.clients.len() as u64 > most.max(1) {
        let gone = draw.index(scenario.clients.len());
        scenario.clients.remove(gone);
    }
    for group in &mut scenario.clients {
        group.key = group.key.take().or_else(|| first.clone());
    }
    let groups = scenario.clients.iter();
    let keys = groups.filter_map(|group| group.first_key(group.key.as_deref()?));
    let keys: Vec<Key> = keys.collect();
    scenario
        .budgets
        .retain(|(_, budget)| keys.iter().any(|key| budget.key().matches(key)));
}

/// Scales a group so that all its clients together request from 0.2 to 1.6 times their limit.
fn draw_size(group: &mut Group, budgets: &[(BudgetDraft, Budget)], draw: &mut Draw) {
    let wanted = 0.2 * 8_f64.powf(draw.unit());
    let key = group.key.as_deref().map(|key| group.first_key(key));
    let falls = |budget: &Budget| match &key {
        Some(key) => key.as_ref().is_some_and(|key| budget.key().matches(key)),
        None => true,
    };
    let Some((_, budget)) = budgets.iter().find(|(_, budget)| falls(budget)) else {
        return;
    };
    let grains = budget.scale().grains_per_token() as f64;
    let whole = budget.whole();
    let limit = match budget.kind() {
        Kind::Rate => whole.rate.grains() as f64 / grains,
        Kind::Concurrency => whole.burst.grains() as f64 / grains * 1e9 / group.hold as f64,
        // The rates written for a quota's clients already suit the length of its period.
        Kind::Quota => group.rate * group.count as f64,
    };
    let limit = limit * group.keys.as_ref().map_or(1.0, |keys| keys.count as f64);
    // Rounded to three digits, so that a scenario file holds exactly this value.
    let times = wanted * limit / (group.rate * group.count as f64 * group.cost as f64);
    group.times = (times * 1e3).round() / 1e3;
}

/// Draws another shape of load. If the shape moves to another rate, that rate is 0.2 to 3.2 times the present
/// one.
fn draw_load(group: &mut Group, duration: u64, draw: &mut Draw) {
    let at = draw.range(duration / 6, duration / 2);
    // Rounded to six decimals, so that a scenario file holds exactly this value.
    let to = (group.rate * (0.2 + 3.0 * draw.unit()) * 1e6).round() / 1e6;
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
    // Callers of a closed loop retry again and again. With many clients, retries would dominate the run.
    let (closed, flows) = (draw.chance(0.3), draw.range(1, 4));
    group.flows = (closed && group.count <= 10).then_some(flows);
    if group.flows.is_some() || group.waiting > 0 {
        group.verb = Verb::Acquire;
    }
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
    // The log's quorum counts all nodes that ever joined, so at most one node may leave for good. Below four
    // nodes, none may.
    let mut stays = scenario.topology.nodes < 4;
    if kinds.contains(&"membership") && !stays && classes.chance(0.3) {
        stays = true;
        let joins = classes.range(swarm.from, end / 2);
        faults.push(Fault {
            change: MemberChange::Join,
            ..one(scenario, "membership", joins, 0, &mut classes)
        });
    }
    for count in 0.. {
        let mut draw = Draw::of(seed, Of::Plan, 4, count);
        at += draw.exponential(swarm.every as f64) as u64;
        if at >= end {
            return;
        }
        let kind = kinds[draw.index(kinds.len())];
        if kind == "membership" && std::mem::replace(&mut stays, true) {
            continue;
        }
        let lasts = draw.range(50_000_000, swarm.longest).min(end - at);
        faults.push(one(scenario, kind, at, lasts, &mut draw));
    }
}

/// Draws one fault of a kind, with its targets and amounts.
pub(crate) fn one(
    scenario: &Scenario,
    kind: &'static str,
    at: u64,
    lasts: u64,
    draw: &mut Draw,
) -> Fault {
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
        "partition" | "one_way" | "delay" | "loss" | "message_loss" | "duplicate" | "reorder"
    );
    let target = match kind {
        "leader_transfer" | "store_error" | "slow_disk" | "disk_damage" | "membership" => {
            pick(Target::Nodes, draw)
        }
        "budget_change" | "budget_delete" => Vec::new(),
        "client_churn" | "clone_client" => pick(Target::Clients, draw),
        "reset" => pick(Target::Nodes, draw),
        "partition" if draw.chance(0.3) => resolve(scenario, &[Target::Minority], draw),
        "loss" | "message_loss" | "duplicate" | "reorder" if draw.chance(0.6) => vec![Target::All],
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
    let set = match kind {
        "budget_change" => change(scenario, draw),
        "budget_delete" => picked_key(scenario, draw),
        _ => toml::Table::new(),
    };
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
        change: MemberChange::Leave,
        part: DamagedPart::Entry,
        set,
    }
}

/// Draws a budget that has a key of its own. A template's keys are created by their clients, not by its rule.
fn picked_key(scenario: &Scenario, draw: &mut Draw) -> toml::Table {
    let budgets = scenario.budgets.iter();
    let exact: Vec<&str> = budgets
        .filter(|(_, budget)| !budget.key().is_template())
        .map(|(draft, _)| draft.key.as_str())
        .collect();
    let picked = exact.get(draw.index(exact.len()));
    let key = picked.map(|key| ("key".to_owned(), (*key).into()));
    key.into_iter().collect()
}

/// Draws another limit for one of the budgets, from an eighth of the configured limit to twice that.
fn change(scenario: &Scenario, draw: &mut Draw) -> toml::Table {
    let mut set = toml::Table::new();
    let (picked, eighths) = (draw.index(scenario.budgets.len()), draw.range(1, 17));
    let Some((draft, budget)) = scenario.budgets.get(picked) else {
        return set;
    };
    let scaled = |grains: u64, per: u64| (grains.saturating_mul(eighths) / 8 / per).max(1);
    let (whole, grains) = (budget.whole(), budget.scale().grains_per_token());
    let count = |number: u64| toml::Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    match budget.kind() {
        Kind::Rate => {
            let rate = scaled(whole.rate.grains(), grains);
            set.insert("rate".into(), format!("{rate}/s").into());
            set.insert("burst".into(), count(scaled(whole.burst.grains(), grains)));
        }
        Kind::Concurrency => {
            let permits = scaled(whole.burst.grains(), grains);
            set.insert("concurrency".into(), count(permits));
        }
        // The period must stay the same, or the budget would become another quota.
        Kind::Quota => {
            let number = scaled(whole.tokens.grains(), grains);
            let length = draft.quota.as_ref().map(ToString::to_string);
            let length = length.as_deref().and_then(|text| text.split_once(" per "));
            let length = length.map_or("minute", |(_, length)| length);
            set.insert("quota".into(), format!("{number} per {length}").into());
        }
    }
    set.insert("key".into(), draft.key.clone().into());
    set
}
