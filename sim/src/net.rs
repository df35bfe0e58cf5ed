//! The network: which hosts reach each other, with which delays, losses and duplicates.

use crate::clock::quantised;
use crate::draw::{Draw, Of};
use crate::hosts::HostSet;
use crate::scenario::{Spread, Topology};
use std::collections::BTreeMap;

/// A fault of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Harm {
    /// Loses everything.
    Cut,
    /// Loses this fraction of messages. The transport may send them again.
    Loss(f64),
    /// Loses this fraction of messages for good, whatever the transport.
    MessageLoss(f64),
    /// Delivers this fraction of messages twice.
    Duplicate(f64),
    /// Delays a fraction of messages by a fixed time.
    Delay(f64, u64),
    /// Delays a fraction of messages, each by its own random time up to this one.
    Reorder(f64, u64),
}

/// An active link fault, with the hosts at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Harmed {
    pub(crate) harm: Harm,
    pub(crate) from: HostSet,
    pub(crate) to: HostSet,
    /// If true, the fault affects both directions.
    pub(crate) both: bool,
}

impl Harmed {
    fn meets(&self, from: usize, to: usize) -> bool {
        (self.from.has(from) && self.to.has(to))
            || (self.both && self.from.has(to) && self.to.has(from))
    }
}

/// The fate of a message: the delay of each copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fate {
    pub(crate) copies: [Option<u64>; 2],
    pub(crate) cut: bool,
    pub(crate) lost: bool,
    /// If set, the message is lost for good, even where the transport sends lost data again.
    pub(crate) gone: bool,
    pub(crate) late: bool,
    pub(crate) overtaken: bool,
}

/// The messages of a link in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Number of messages, which names their random numbers.
    count: u64,
    /// Arrival of the latest message.
    last: u64,
}

#[derive(Debug)]
pub(crate) struct Net {
    seed: u64,
    usual: Topology,
    zones: Vec<u16>,
    /// Active faults by their number, in that order.
    harms: Vec<(u64, Harmed)>,
    /// All links.
    links: Vec<Link>,
    pub(crate) slow: BTreeMap<u64, (HostSet, u64)>,
}

impl Net {
    pub(crate) fn new(seed: u64, usual: Topology, zones: Vec<u16>) -> Self {
        // Clients talk only to nodes.
        let links = vec![Link::default(); 2 * usual.nodes * zones.len()];
        Self {
            seed,
            usual,
            zones,
            harms: Vec::new(),
            links,
            slow: BTreeMap::new(),
        }
    }

    pub(crate) fn harm(&mut self, id: u64, harmed: Harmed) {
        self.harms.retain(|(of, _)| *of != id);
        let place = self.harms.partition_point(|(of, _)| *of < id);
        self.harms.insert(place, (id, harmed));
    }

    pub(crate) fn recover(&mut self, id: u64) {
        self.harms.retain(|(of, _)| *of != id);
        self.slow.remove(&id);
    }

    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        let mut meets = self.meeting(from, to);
        !meets.any(|harmed| harmed.harm == Harm::Cut)
    }

    /// Returns true if every message from one host arrives at the other, because the link has no faults.
    pub(crate) fn is_faultless(&self, from: usize, to: usize) -> bool {
        self.usual.loss == 0.0 && self.meeting(from, to).next().is_none()
    }

    /// Iterates over the faults of a link.
    fn meeting(&self, from: usize, to: usize) -> impl Iterator<Item = &Harmed> {
        let all = self.harms.iter().map(|(_, harmed)| harmed);
        all.filter(move |harmed| harmed.meets(from, to))
    }

    /// Returns the delay of everything that a slow host does.
    pub(crate) fn slowness(&self, host: usize) -> u64 {
        let slow = self.slow.values().filter(|(hosts, _)| hosts.has(host));
        slow.map(|(_, by)| *by).sum()
    }

    /// Returns the index of a link. Links between two hosts that are not nodes share entries.
    fn link(&self, from: usize, to: usize) -> usize {
        let (nodes, hosts) = (self.usual.nodes, self.zones.len());
        let index = match to < nodes {
            true => from * nodes + to,
            false => nodes * hosts + from * hosts + to,
        };
        index % self.links.len().max(1)
    }

    /// Returns true if any link fault is active.
    pub(crate) fn is_harmed(&self) -> bool {
        !self.harms.is_empty()
    }

    /// Decides the fate of a message that is sent now.
    pub(crate) fn send(&mut self, now: u64, from: usize, to: usize) -> Fate {
        if from == to {
            let copies = [Some(crate::clock::QUANTUM), None];
            return Fate {
                copies,
                ..Fate::default()
            };
        }
        let index = self.link(from, to);
        self.links[index].count += 1;
        let owner = (from as u64) << 32 | to as u64;
        let mut draw = Draw::of(self.seed, Of::Message, owner, self.links[index].count);
        let mut lost = draw.chance(self.usual.loss);
        let mut twice = draw.chance(self.usual.duplicate);
        let mut fate = Fate::default();
        let mut more = [0; 2];
        for harmed in self.meeting(from, to) {
            match harmed.harm {
                Harm::Cut => (lost, fate.cut) = (true, true),
                Harm::Loss(part) => lost |= draw.chance(part),
                Harm::MessageLoss(part) => fate.gone |= draw.chance(part),
                Harm::Duplicate(part) => twice |= draw.chance(part),
                Harm::Delay(part, by) => {
                    if draw.chance(part) {
                        more = more.map(|more| more + by);
                    }
                }
                Harm::Reorder(part, by) => {
                    for more in &mut more {
                        if draw.chance(part) {
                            *more += draw.range(0, by);
                        }
                    }
                }
            }
        }
        if lost || fate.gone {
            fate.lost = !fate.cut;
            return fate;
        }
        fate.late = more[0] > 0;
        let takes = self.delay(from, to, &mut draw) + quantised(more[0]);
        fate.copies[0] = Some(takes);
        let last = &mut self.links[index].last;
        fate.overtaken = now + takes < *last;
        *last = (*last).max(now + takes);
        if twice {
            fate.copies[1] = Some(self.delay(from, to, &mut draw) + quantised(more[1]));
        }
        fate
    }

    /// Draws the delay of a copy. Copies are delayed independently, so they may overtake each other.
    fn delay(&self, from: usize, to: usize, draw: &mut Draw) -> u64 {
        let spread = self.usual.spread as f64;
        let drawn = match self.usual.shape {
            Spread::Uniform => draw.unit() * spread,
            Spread::Exponential => draw.exponential(spread),
            Spread::Pareto => draw.pareto(spread.max(1.0), 2.5),
        };
        let across = self.zones[from] != self.zones[to];
        let zone = if across { self.usual.zone_delay } else { 0 };
        quantised(self.usual.delay + zone + drawn as u64)
    }
}
