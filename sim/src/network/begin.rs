//! Sets up a run, before its first step.

use super::diary::Diary;
use super::fabric::Fabric;
use super::host::{self, Host};
use super::node::{Inner, Settings, Sight, Site};
use super::reach::Reach;
use super::service::{self, Station};
use super::{Network, STEP};
use crate::course::Course;
use crate::hosts::Hosts;
use crate::mark::Marks;
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::scenario::Scenario;
use crate::world::Witness;
use crate::world::begin::{clock_of, keys_of};
use crate::world::net::Net;
use aliquot_coordinator::node::InitialContents;
use aliquot_coordinator::raft;
use aliquot_core::budget::{Budget, Key};
use aliquot_core::leader::Pace;
use aliquot_core::share::Kind;
use aliquot_core::state::State;
use aliquot_core::unit::Span;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Maximum number of simulated machines among which the clients are divided.
const MACHINES: usize = 2;

impl Network<'_> {
    pub(super) fn new(plan: Plan, witness: Option<Box<dyn Witness>>) -> Self {
        host::begin();
        let (seed, scenario) = (plan.seed, plan.scenario.clone());
        let hosts = Hosts::new(&scenario, 0);
        let (keys, claims, key_of) = keys_of(&scenario, &hosts);
        let named: Vec<(String, Budget)> = keys
            .iter()
            .map(Key::to_string)
            .zip(claims.iter().cloned())
            .collect();
        let all = (0..hosts.count()).map(|host| {
            Arc::new(Host::new(
                host,
                seed,
                clock_of(&scenario, &hosts, host, seed),
            ))
        });
        let all: Vec<Arc<Host>> = all.collect();
        let net = Net::new(seed, scenario.topology.clone(), hosts.zones.clone());
        let fabric = Arc::new(Fabric::new(seed, hosts.nodes, all, net, witness.is_some()));
        let diary = Diary::default();
        let sites = sites(&scenario, &hosts, &fabric, &diary);
        let stations = stations(
            &scenario,
            &hosts,
            &fabric,
            &diary,
            (&keys, &claims, &key_of),
        );
        let sim = simulation(seed, &sites, &stations);
        let network = Self {
            oracle: Oracle::new(scenario.lease.drift),
            course: Course::new(&named, key_of),
            marks: Marks::default(),
            state: State::new(),
            effects: Vec::new(),
            offices: BTreeMap::new(),
            written: (0, 0),
            now: 0,
            next_fault: 0,
            active: BTreeMap::new(),
            lasts: 0,
            asked: Vec::new(),
            requests: 0,
            calmed: false,
            stopped: false,
            healed: false,
            leader: None,
            skew_from: Vec::new(),
            plan,
            hosts,
            sim,
            fabric,
            sites,
            stations,
            diary,
            witness,
        };
        for node in 0..network.hosts.nodes {
            network.fabric.set_up(node, true);
        }
        network
    }
}

fn sites(
    scenario: &Scenario,
    hosts: &Hosts,
    fabric: &Arc<Fabric>,
    diary: &Diary,
) -> Vec<Arc<Site>> {
    let lease = &scenario.lease;
    let settings = Settings {
        nodes: hosts.nodes,
        initial_contents: InitialContents {
            drift: lease.drift,
            lease: Span::from_nanos(lease.lease),
            budgets: scenario
                .budgets
                .iter()
                .map(|(_, budget)| budget.clone())
                .collect(),
        },
        timing: raft::Timing {
            heartbeat: Duration::from_nanos(lease.heartbeat),
            election_min: Duration::from_nanos(lease.election_min),
            election_max: Duration::from_nanos(lease.election_max),
        },
        pace: Pace {
            report: Span::from_nanos(lease.report_every),
            ..Pace::default()
        },
        report_every: Span::from_nanos(lease.report_every),
        client_report_every: Span::from_nanos(lease.client_report_every),
        flush: Duration::from_nanos(scenario.topology.commit_delay).max(STEP),
        // Low enough that every seed takes snapshots and purges its log.
        snapshot_every: 100,
    };
    let site = |number: usize| {
        Arc::new(Site {
            number,
            settings: settings.clone(),
            fabric: Arc::clone(fabric),
            inner: Mutex::new(Inner {
                sight: Sight::default(),
                ..Inner::default()
            }),
            diary: diary.clone(),
        })
    };
    (0..hosts.nodes).map(site).collect()
}

/// The keys, the budget of each, and the index of each client's key.
type Keys<'a> = (&'a [Key], &'a [Budget], &'a [usize]);

fn stations(
    scenario: &Scenario,
    hosts: &Hosts,
    fabric: &Arc<Fabric>,
    diary: &Diary,
    (keys, claims, key_of): Keys<'_>,
) -> Vec<Arc<Station>> {
    let station = |client: usize| {
        let (group, _) = hosts.clients[client];
        let key = key_of[client];
        Arc::new(Station {
            number: client,
            host: Arc::clone(&fabric.hosts[hosts.nodes + client]),
            reach: Reach::new(fabric, hosts.nodes + client),
            nodes: hosts.nodes,
            home: hosts.homes[client],
            seed: fabric.seed,
            key: keys.get(key).map(Key::to_string).unwrap_or_default(),
            kind: claims.get(key).map_or(Kind::Rate, Budget::kind),
            group: scenario.clients[group].clone(),
            diary: diary.clone(),
            inner: Mutex::default(),
            session: Mutex::default(),
            done: Mutex::default(),
        })
    };
    (0..hosts.clients.len()).map(station).collect()
}

fn simulation(seed: u64, sites: &[Arc<Site>], stations: &[Arc<Station>]) -> turmoil::Sim<'static> {
    /// The wall time at which a simulation begins, as turmoil tells it to code that asks.
    const EPOCH: Duration = Duration::from_secs(1_700_000_000);
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .epoch(SystemTime::UNIX_EPOCH + EPOCH)
        .tick_duration(STEP)
        .simulation_duration(Duration::from_secs(86_400))
        .min_message_latency(STEP)
        .max_message_latency(STEP)
        .ephemeral_ports(1024..=65_535)
        .tcp_capacity(1 << 14)
        .enable_random_order()
        .build();
    for site in sites {
        let site = Arc::clone(site);
        sim.host(format!("n{}", site.number + 1), move || {
            Arc::clone(&site).run()
        });
    }
    for machine in 0..MACHINES.min(stations.len()) {
        let here = stations.iter().skip(machine).step_by(MACHINES);
        let here: Vec<Arc<Station>> = here.cloned().collect();
        sim.host(format!("m{}", machine + 1), move || {
            service::machine(here.clone())
        });
    }
    sim
}
