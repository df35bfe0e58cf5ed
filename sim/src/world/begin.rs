//! Sets up a simulation, before its first event.

use super::event::{Event, Timer};
use super::host::{Callers, Coordinator, Service};
use super::log::Log;
use super::queue::Queue;
use super::{Operator, Requests, World};
use crate::clock::{self, Clock, SEC};
use crate::draw::{Draw, Of};
use crate::faults::Lasting;
use crate::hosts::Hosts;
use crate::keys::Keys;
use crate::net::Net;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::scenario::Scenario;
use aliquot_core::leader::Pace;
use std::collections::BTreeMap;
use std::rc::Rc;

impl World {
    /// Sets up a simulation of a plan, before its first event.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let (seed, scenario) = (plan.seed, plan.scenario.clone());
        let clones = plan
            .faults
            .iter()
            .filter(|fault| fault.kind == "clone_client")
            .count();
        let hosts = Rc::new(Hosts::new(&scenario, clones));
        let keys = Keys::new(&scenario);
        let observer = Observer::new(&plan, &hosts, keys.clone());
        let (nodes, services) = (
            nodes_of(&scenario, &hosts, seed),
            services_of(&scenario, &hosts, &keys, seed),
        );
        let net = Net::new(seed, scenario.topology.clone(), hosts.zones.clone());
        let mut world = Self {
            seed,
            now: 0,
            next: 0,
            queue: Queue::new(),
            net,
            nodes,
            services,
            lasting: Lasting::new(&keys.budgets),
            keys,
            observer,
            operator: Operator::default(),
            requests: Requests::default(),
            incarnations: BTreeMap::new(),
            just_asked: false,
            may_come: false,
            retry_after: 0,
            lasts: 0,
            clones,
            events: 0,
            emptied: Vec::new(),
            fetched: 0,
            measures_bytes: false,
            hosts,
            plan,
        };
        world.begin();
        world
    }

    pub(super) fn begin(&mut self) {
        self.configure();
        for node in 0..self.hosts.nodes {
            if !self.plan.joins_later(node) {
                self.start_node(node);
            }
        }
        for of in 0..self.hosts.clients.len() {
            let start = self.plan.scenario.clients[self.services[of].group].start;
            match start {
                0 => self.start_service(of),
                // A late start is not a fault, so no recovery starts the process. A timer of process 0 starts
                // it instead.
                at => self.at(
                    at,
                    Event::Timer {
                        host: (self.hosts.nodes + of) as u32,
                        process: 0,
                        timer: Timer::Look,
                    },
                ),
            }
        }
        for index in 0..self.plan.faults.len() {
            self.at(self.plan.faults[index].at, Event::Inject(index as u32));
        }
        self.at(0, Event::Operate);
        self.at(SEC, Event::Look);
    }
}

/// Returns a host's clocks: as the narrowest rule says, otherwise drawn.
pub(crate) fn clock_of(scenario: &Scenario, hosts: &Hosts, host: usize, seed: u64) -> Clock {
    let mut draw = Draw::of(seed, Of::Clock, host as u64, 0);
    let bound = i64::from(scenario.lease.drift.ppm()) / clock::PPM_STEP;
    let drawn = match draw.range(0, 4) {
        0 => bound,
        1 => -bound,
        _ => draw.range(0, 2 * bound as u64 + 1) as i64 - bound,
    };
    let (mut ppm, mut offset, mut wall) = (drawn * clock::PPM_STEP, draw.range(1, 1_000 * SEC), 0);
    offset = clock::quantised(offset);
    for rule in &scenario.clocks {
        let mut lots = Draw::of(seed, Of::Clock, 1 << 40, 0);
        if hosts.find(&rule.target, None, &mut lots).contains(&host) {
            ppm = rule.ppm.unwrap_or(ppm);
            offset = rule.offset.unwrap_or(offset);
            wall = rule.wall_offset;
        }
    }
    Clock::new(offset, wall, ppm, scenario.lease.monotonic)
}

fn nodes_of(scenario: &Scenario, hosts: &Hosts, seed: u64) -> Vec<Coordinator> {
    let node = |me| {
        let log = Log::new(me, hosts.nodes, scenario.lease.election_max);
        Coordinator::new(clock_of(scenario, hosts, me, seed), log, Pace::default())
    };
    (0..hosts.nodes).map(node).collect()
}

/// Returns the services, followed by placeholders for the clones that the plan may create.
fn services_of(scenario: &Scenario, hosts: &Hosts, keys: &Keys, seed: u64) -> Vec<Service> {
    let service = |of: usize| {
        let group = hosts.clients.get(of).map_or(0, |&(group, _)| group);
        let key = keys.only_key(group);
        let clock = clock_of(scenario, hosts, hosts.nodes + of, seed);
        Service::new(clock, group, key, &scenario.lease, Callers::default())
    };
    (0..hosts.count() - hosts.nodes).map(service).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/world/begin.rs"]
mod tests;
