//! Sets up a run, before its first step.

use super::Network;
use super::disk::FlushTime;
use super::event_log::EventLog;
use super::fabric::Fabric;
use super::host::{self, Host, STEP};
use super::node::{Inner, NodeHost, NodeSnapshot, Settings};
use super::reach::{Reach, host_name};
use super::service::{self, ClientHost, Session, UsedKey};
use crate::faults::Lasting;
use crate::hosts::Hosts;
use crate::keys::Keys;
use crate::net::Net;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::scenario::{Scenario, cluster};
use crate::trace::Tracer;
use crate::world::begin::clock_of;
use aliquot_coordinator::node::InitialContents;
use aliquot_coordinator::raft;
use aliquot_core::leader::Pace;
use aliquot_core::state::State;
use aliquot_core::unit::Span;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Maximum number of simulated machines among which the clients are divided.
const MACHINES: usize = 2;

impl Network<'_> {
    pub(super) fn new(plan: Plan, tracer: Option<Box<dyn Tracer>>) -> Self {
        host::begin();
        let (seed, scenario) = (plan.seed, plan.scenario.clone());
        let hosts = Rc::new(Hosts::new(&scenario, 0));
        let keys = Keys::new(&scenario);
        let mut observer = Observer::new(&plan, &hosts, keys.clone());
        let traced = tracer.is_some();
        if let Some(tracer) = tracer {
            observer.trace_to(tracer);
        }
        let all = (0..hosts.count()).map(|host| {
            Arc::new(Host::new(
                host,
                seed,
                clock_of(&scenario, &hosts, host, seed),
            ))
        });
        let all: Vec<Arc<Host>> = all.collect();
        let net = Net::new(seed, scenario.topology.clone(), hosts.zones.clone());
        let fabric = Arc::new(Fabric::new(seed, hosts.nodes, all, net, traced));
        let event_log = EventLog::default();
        let lasting = Lasting::new(&keys.budgets);
        let founders = (0..hosts.nodes).filter(|&node| !plan.joins_later(node));
        let founders: Vec<usize> = founders.collect();
        let node_hosts = node_hosts(&scenario, &founders, &fabric, &event_log);
        let client_hosts = client_hosts(&scenario, &hosts, &fabric, &event_log, &keys);
        let sim = simulation(seed, &node_hosts, &client_hosts);
        let mut network = Self {
            observer,
            state: State::new(),
            effects: Vec::new(),
            ready_since: BTreeMap::new(),
            written: (0, 0),
            now: 0,
            next_fault: 0,
            lasting,
            orders: Vec::new(),
            requests: 0,
            leader: None,
            sessions: vec![Session::default(); client_hosts.len()],
            plan,
            hosts,
            sim,
            fabric,
            node_hosts,
            client_hosts,
            event_log,
            decided_late: Vec::new(),
        };
        for node in 0..network.hosts.nodes {
            match founders.contains(&node) {
                true => network.fabric.set_up(node, true),
                // Starts when it joins.
                false => network.sim.crash(host_name(node)),
            }
        }
        network
    }
}

fn node_hosts(
    scenario: &Scenario,
    founders: &[usize],
    fabric: &Arc<Fabric>,
    event_log: &EventLog,
) -> Vec<Arc<NodeHost>> {
    let lease = &scenario.lease;
    let settings = Settings {
        founders: founders.to_vec(),
        old_nodes: scenario.topology.old_nodes,
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
            round: Span::from_nanos(lease.round),
            report: Span::from_nanos(lease.report_every),
            ..Pace::default()
        },
        round_trip: lease
            .round_trip
            .map_or_else(|| cluster::round_trip(&scenario.topology), Span::from_nanos),
        client_report_every: Span::from_nanos(lease.client_report_every),
        // Low enough that every seed takes snapshots and purges its log.
        snapshot_every: 100,
    };
    let flush = Duration::from_nanos(scenario.topology.commit_delay).max(STEP);
    let node_host = |number: usize| {
        Arc::new(NodeHost {
            number,
            settings: settings.clone(),
            fabric: Arc::clone(fabric),
            inner: Mutex::new(Inner {
                snapshot: NodeSnapshot::default(),
                ..Inner::default()
            }),
            event_log: event_log.clone(),
            flush: Arc::new(FlushTime::new(flush)),
        })
    };
    (0..fabric.nodes).map(node_host).collect()
}

fn client_hosts(
    scenario: &Scenario,
    hosts: &Hosts,
    fabric: &Arc<Fabric>,
    event_log: &EventLog,
    keys: &Keys,
) -> Vec<Arc<ClientHost>> {
    let client_host = |client: usize| {
        let (group, number) = hosts.clients[client];
        let used = |index: usize| UsedKey {
            index,
            name: keys.keys[index].to_string(),
            kind: keys.budgets[index].kind(),
        };
        let also = keys.also_of_group[group].map(used);
        let used = keys.of_group[group].iter().map(|&index| used(index));
        let used = used.collect();
        let group = scenario.clients[group].clone();
        Arc::new(ClientHost {
            number: client,
            part: number as f64 / group.count as f64,
            host: Arc::clone(&fabric.hosts[hosts.nodes + client]),
            reach: Reach::new(fabric, hosts.nodes + client),
            nodes: hosts.nodes,
            home: hosts.homes[client],
            seed: fabric.seed,
            keys: used,
            also,
            group,
            event_log: event_log.clone(),
            inner: Mutex::default(),
            session: Mutex::default(),
            done: Mutex::default(),
        })
    };
    (0..hosts.clients.len()).map(client_host).collect()
}

fn simulation(
    seed: u64,
    node_hosts: &[Arc<NodeHost>],
    client_hosts: &[Arc<ClientHost>],
) -> turmoil::Sim<'static> {
    /// The wall time at which a simulation begins, as turmoil returns it to code that asks.
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
    for node_host in node_hosts {
        let node_host = Arc::clone(node_host);
        sim.host(host_name(node_host.number), move || {
            Arc::clone(&node_host).run()
        });
    }
    for machine in 0..MACHINES.min(client_hosts.len()) {
        let here = client_hosts.iter().skip(machine).step_by(MACHINES);
        let here: Vec<Arc<ClientHost>> = here.cloned().collect();
        sim.host(format!("m{}", machine + 1), move || {
            service::machine(here.clone())
        });
    }
    sim
}
