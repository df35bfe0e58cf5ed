//! The network: which hosts reach each other, with which delays, losses and duplicates.

use crate::clock::quantised;
use crate::draw::{Draw, Of};
use crate::hosts::HostSet;
use crate::scenario::{Spread, Topology};
use std::collections::BTreeMap;
use std::hint::black_box;

/// A fault of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Harm {
    /// Loses everything.
    Cut,
    /// Loses this fraction of messages, or of a connection's packets, which TCP sends again.
    Loss(f64),
    /// Loses this fraction of messages for good, whatever the transport.
    MessageLoss(f64),
    /// Delivers this fraction of messages twice.
    Duplicate(f64),
    /// Delays a fraction of messages or packets by a fixed time.
    Delay(f64, u64),
    /// Delays a fraction of messages or packets, each by its own random time up to this one.
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

/// The fate of a message that travels by itself: the delay of each copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fate {
    pub(crate) copies: [Option<u64>; 2],
    pub(crate) cut: bool,
    pub(crate) lost: bool,
    pub(crate) late: bool,
    pub(crate) overtaken: bool,
}

/// The fate of a packet of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    Arrives { delay: u64, late: bool },
    Lost,
    Cut,
}

/// The fate of a message on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    Once,
    /// A second copy follows after this delay.
    Twice(u64),
    Gone,
}

/// Effects of all faults of a link on something that is sent on it.
#[derive(Clone, Copy, Debug, Default)]
struct Drawn {
    cut: bool,
    lost: bool,
    gone: bool,
    twice: bool,
    /// Additional delay of each copy.
    more: [u64; 2],
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

    /// Reads the memory of a link, for the kernel tier, which reads that of several events side by side.
    pub(crate) fn fetch(&self, from: usize, to: usize) {
        let link = self.links.get(self.link(from, to));
        black_box(link.map(|link| link.count));
    }

    /// Returns true if any link fault is active.
    pub(crate) fn is_harmed(&self) -> bool {
        !self.harms.is_empty()
    }

    /// Decides the fate of a message that is sent now, and travels by itself.
    pub(crate) fn send(&mut self, now: u64, from: usize, to: usize) -> Fate {
        if from == to {
            let copies = [Some(crate::clock::QUANTUM), None];
            return Fate {
                copies,
                ..Fate::default()
            };
        }
        let mut draw = self.draw(from, to);
        let drawn = self.drawn(from, to, &mut draw);
        let mut fate = Fate::default();
        if drawn.lost || drawn.cut || drawn.gone {
            (fate.cut, fate.lost) = (drawn.cut, !drawn.cut);
            return fate;
        }
        fate.late = drawn.more[0] > 0;
        let takes = self.delay(from, to, &mut draw) + quantised(drawn.more[0]);
        fate.copies[0] = Some(takes);
        let index = self.link(from, to);
        let last = &mut self.links[index].last;
        fate.overtaken = now + takes < *last;
        *last = (*last).max(now + takes);
        if drawn.twice {
            fate.copies[1] = Some(self.delay(from, to, &mut draw) + quantised(drawn.more[1]));
        }
        fate
    }

    /// Decides the fate of a packet of a connection: when it arrives, unless it is lost.
    pub(crate) fn packet(&mut self, from: usize, to: usize) -> Packet {
        let mut draw = self.draw(from, to);
        let drawn = self.drawn(from, to, &mut draw);
        if drawn.cut {
            return Packet::Cut;
        }
        if drawn.lost {
            return Packet::Lost;
        }
        Packet::Arrives {
            delay: self.delay(from, to, &mut draw) + quantised(drawn.more[0]),
            late: drawn.more[0] > 0,
        }
    }

    /// Decides the fate of a message whose packets arrive: the faults that affect whole messages, whatever the transport.
    pub(crate) fn message(&mut self, from: usize, to: usize) -> Message {
        let mut draw = self.draw(from, to);
        let drawn = self.drawn(from, to, &mut draw);
        match drawn {
            Drawn { gone: true, .. } => Message::Gone,
            Drawn { twice: true, .. } => {
                Message::Twice(self.delay(from, to, &mut draw) + quantised(drawn.more[1]))
            }
            _ => Message::Once,
        }
    }

    /// Returns the random numbers of what is sent on a link next.
    fn draw(&mut self, from: usize, to: usize) -> Draw {
        let index = self.link(from, to);
        self.links[index].count += 1;
        let owner = (from as u64) << 32 | to as u64;
        Draw::of(self.seed, Of::Message, owner, self.links[index].count)
    }

    /// Draws what each fault of a link does to something that is sent on it.
    fn drawn(&self, from: usize, to: usize, draw: &mut Draw) -> Drawn {
        let mut drawn = Drawn {
            lost: draw.chance(self.usual.loss),
            twice: draw.chance(self.usual.duplicate),
            ..Drawn::default()
        };
        for harmed in self.meeting(from, to) {
            match harmed.harm {
                Harm::Cut => drawn.cut = true,
                Harm::Loss(part) => drawn.lost |= draw.chance(part),
                Harm::MessageLoss(part) => drawn.gone |= draw.chance(part),
                Harm::Duplicate(part) => drawn.twice |= draw.chance(part),
                Harm::Delay(part, by) => {
                    if draw.chance(part) {
                        drawn.more = drawn.more.map(|more| more + by);
                    }
                }
                Harm::Reorder(part, by) => {
                    for more in &mut drawn.more {
                        if draw.chance(part) {
                            *more += draw.range(0, by);
                        }
                    }
                }
            }
        }
        drawn
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

#[cfg(test)]
#[path = "../tests/unit/net.rs"]
mod tests;
