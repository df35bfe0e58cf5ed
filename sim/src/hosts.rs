//! The hosts of a simulation, numbered: nodes first, then clients, then clones of clients.

use crate::draw::{Draw, Of};
use crate::scenario::{Scenario, Target};

/// A set of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostSet(Vec<u64>);

impl HostSet {
    pub(crate) fn of(hosts: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::default();
        hosts.into_iter().for_each(|host| set.add(host));
        set
    }

    pub(crate) fn add(&mut self, host: usize) {
        let word = host / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (host % 64);
    }

    pub(crate) fn has(&self, host: usize) -> bool {
        self.0
            .get(host / 64)
            .is_some_and(|word| word & (1 << (host % 64)) != 0)
    }
}

/// The hosts' names, zones and groups.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    pub(crate) nodes: usize,
    /// The group of each client, and its number within the group.
    pub(crate) clients: Vec<(usize, usize)>,
    names: Vec<String>,
    /// The name of every host, clones included.
    labels: Vec<String>,
    zone_names: Vec<String>,
    /// The zone of each host, clones included.
    pub(crate) zones: Vec<u16>,
    /// The node that each client connects to first.
    pub(crate) homes: Vec<usize>,
}

impl Hosts {
    pub(crate) fn new(scenario: &Scenario, clones: usize) -> Self {
        let nodes = scenario.topology.nodes;
        let zone_names = scenario.topology.zones.clone();
        let zone_of = |name: &str| zone_names.iter().position(|zone| zone == name).unwrap_or(0);
        let dealt = |index: usize| (index % zone_names.len()) as u16;
        let mut zones: Vec<u16> = (0..nodes).map(dealt).collect();
        let (mut clients, mut homes) = (Vec::new(), Vec::new());
        for (group, of) in scenario.clients.iter().enumerate() {
            for number in 0..of.count {
                let zone = of.zone.as_deref().map(|name| zone_of(name) as u16);
                let zone = zone.unwrap_or_else(|| dealt(clients.len()));
                let near: Vec<usize> = (0..nodes).filter(|&node| zones[node] == zone).collect();
                let home = of.home.unwrap_or_else(|| match near.is_empty() {
                    true => clients.len() % nodes,
                    false if zone_names.len() == 1 => clients.len() % nodes,
                    false => near[clients.len() / zone_names.len() % near.len()],
                });
                homes.push(home.min(nodes - 1));
                clients.push((group, number));
                zones.push(zone);
            }
        }
        zones.extend(std::iter::repeat_n(0, clones));
        let names: Vec<String> = scenario
            .clients
            .iter()
            .map(|group| group.name.clone())
            .collect();
        let labels = (1..=nodes)
            .map(|node| format!("n{node}"))
            .chain(
                clients
                    .iter()
                    .map(|(group, number)| format!("{}-{}", names[*group], number + 1)),
            )
            .chain((1..=clones).map(|clone| format!("clone-{clone}")))
            .collect();
        Self {
            nodes,
            clients,
            names,
            labels,
            zone_names,
            zones,
            homes,
        }
    }

    /// Returns the number of all hosts, clones included.
    pub(crate) fn count(&self) -> usize {
        self.zones.len()
    }

    pub(crate) fn is_node(&self, host: usize) -> bool {
        host < self.nodes
    }

    /// Returns a host's name, as scenario files write it.
    pub(crate) fn label(&self, host: usize) -> &str {
        &self.labels[host]
    }

    /// Returns the same name as an owned string.
    pub(crate) fn name(&self, host: usize) -> String {
        self.labels[host].clone()
    }

    /// Returns the hosts that a target denotes. `leader` is the node that leads, if any.
    pub(crate) fn find(
        &self,
        target: &Target,
        leader: Option<usize>,
        draw: &mut Draw,
    ) -> Vec<usize> {
        let last = self.nodes + self.clients.len();
        let in_group = |name: &str| {
            let name = name.to_owned();
            let clients = self.clients.iter().enumerate();
            clients
                .filter(move |(_, (group, _))| self.names[*group] == name)
                .map(|(client, _)| self.nodes + client)
                .collect::<Vec<usize>>()
        };
        match target {
            Target::All => (0..last).collect(),
            Target::Nodes => (0..self.nodes).collect(),
            Target::Clients => (self.nodes..last).collect(),
            Target::Node(node) => (*node < self.nodes).then_some(*node).into_iter().collect(),
            Target::Group(name) => in_group(name),
            Target::Client(name, number) => {
                in_group(name).get(*number).copied().into_iter().collect()
            }
            Target::Zone(zone) => {
                let zone = self.zone_names.iter().position(|name| name == zone);
                (0..last)
                    .filter(|&host| Some(usize::from(self.zones[host])) == zone)
                    .collect()
            }
            Target::OneOf(of) => {
                let all = self.find(of, leader, draw);
                let picked = draw.next();
                let index = picked as usize % all.len().max(1);
                all.get(index).copied().into_iter().collect()
            }
            Target::Minority => {
                let mut all: Vec<usize> = (0..self.nodes).collect();
                let most = (self.nodes - 1) / 2;
                (0..most)
                    .map(|_| all.remove(draw.index(all.len())))
                    .collect()
            }
            Target::Leader => leader.into_iter().collect(),
            Target::Follower => {
                let others: Vec<usize> = (0..self.nodes)
                    .filter(|&node| Some(node) != leader)
                    .collect();
                let index = draw.index(others.len());
                others.get(index).copied().into_iter().collect()
            }
        }
    }
}

/// Returns the hosts of a zone as targets.
pub(crate) fn zone_members(scenario: &Scenario, zone: &str) -> Vec<Target> {
    let hosts = Hosts::new(scenario, 0);
    let mut lots = Draw::of(0, Of::Plan, 0, 0);
    let found = hosts.find(&Target::Zone(zone.to_owned()), None, &mut lots);
    let target = |host: usize| match host.checked_sub(hosts.nodes) {
        None => Target::Node(host),
        Some(client) => {
            let (group, number) = hosts.clients[client];
            Target::Client(scenario.clients[group].name.clone(), number)
        }
    };
    found.into_iter().map(target).collect()
}
