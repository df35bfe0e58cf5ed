//! Books that exchange messages over a network that loses, duplicates, delays and partitions.

use aliquot_coordinator::gossip::Book;
use aliquot_core::message::Heard;
use aliquot_core::unit::{Incarnation, NodeId, Number, Term};
use aliquot_wire::gossip::{GossipMessage, Head, Record, Topic};
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::{Sealed, Wire};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

/// A step is ten milliseconds. This is the number of steps in a round of 200 ms.
pub(crate) const ROUND_STEPS: u64 = 20;

/// Returns a record with a payload of `bytes` bytes.
pub(crate) fn record(topic: Topic, incarnation: u64, number: u64, bytes: usize) -> Sealed<Record> {
    let head = Head {
        topic,
        incarnation: Incarnation::new(incarnation),
        version: Heard {
            term: Term::new(0),
            number: Number::new(number),
        },
    };
    let payload = vec![7; bytes].into();
    Sealed::seal(&Record { head, payload }).unwrap()
}

/// Number of messages and records sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) heads: u64,
    /// Records sent by their own node, and by other nodes.
    pub(crate) own: u64,
    pub(crate) relayed: u64,
}

/// The network. Node `i` has the incarnation `i + 1`.
pub(crate) struct Mesh {
    pub(crate) books: Vec<Book>,
    pub(crate) cost: Cost,
    pub(crate) now: u64,
    /// Pairs of nodes that are disconnected, both ways.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    /// Number of messages in a hundred that are lost, and that are duplicated.
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
    /// Maximum number of steps that a message takes.
    pub(crate) delay: u64,
    flight: BTreeMap<(u64, u64), (usize, usize, GossipMessage)>,
    sent: u64,
    rng: StdRng,
    /// Versions that each node has, which never go back.
    seen: Vec<BTreeMap<(Topic, Incarnation), Heard>>,
}

impl Mesh {
    pub(crate) fn new(nodes: usize, seed: u64) -> Self {
        let incarnations = 1..=nodes as u64;
        let mut mesh = Self {
            books: incarnations
                .map(|incarnation| Book::new(Incarnation::new(incarnation)))
                .collect(),
            cost: Cost::default(),
            now: 0,
            cuts: BTreeSet::new(),
            lost: 0,
            doubled: 0,
            delay: 1,
            flight: BTreeMap::new(),
            sent: 0,
            rng: StdRng::seed_from_u64(seed),
            seen: vec![BTreeMap::new(); nodes],
        };
        for (a, b) in mesh.pairs() {
            mesh.books[a].join(NodeId::new(b as u64));
        }
        mesh
    }

    /// Returns all ordered pairs of nodes.
    pub(crate) fn pairs(&self) -> Vec<(usize, usize)> {
        let n = self.books.len();
        let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
        pairs.filter(|(a, b)| a != b).collect()
    }

    pub(crate) fn steps(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
    }

    pub(crate) fn step(&mut self) {
        self.now += 1;
        while let Some(first) = self.flight.first_entry()
            && first.key().0 <= self.now
        {
            let (from, to, message) = first.remove();
            self.books[to].handle(NodeId::new(from as u64), message);
            self.versions_never_go_back(to);
        }
        for (from, to) in self.pairs() {
            let peer = NodeId::new(to as u64);
            if (self.now + 7 * from as u64).is_multiple_of(ROUND_STEPS) {
                self.books[from].tick(peer);
            }
            while let Some(message) = self.books[from].poll(peer) {
                self.send(from, to, message);
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, message: GossipMessage) {
        let bytes = message.to_bytes().len();
        assert!(bytes <= MESSAGE_BYTES_MAX, "{bytes} bytes");
        let own = message.records.iter().filter(|record| {
            let head = record.value().head;
            // Answers come from the leader, which is node 0.
            let by = if head.topic == Topic::Answer {
                1
            } else {
                head.incarnation.get()
            };
            by == from as u64 + 1
        });
        let own = own.count() as u64;
        self.cost.messages += 1;
        self.cost.bytes += bytes as u64;
        self.cost.heads += message.digest.len() as u64;
        self.cost.own += own;
        self.cost.relayed += message.records.len() as u64 - own;
        if self.cuts.contains(&(from.min(to), from.max(to))) {
            return;
        }
        let copies = if self.chance(self.lost) {
            0
        } else {
            1 + u64::from(self.chance(self.doubled))
        };
        for _ in 0..copies {
            let due = self.now + self.rng.random_range(1..=self.delay);
            self.sent += 1;
            self.flight
                .insert((due, self.sent), (from, to, message.clone()));
        }
    }

    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.rng.random_range(0..most)
    }

    pub(crate) fn number(&self, node: usize, topic: Topic, incarnation: u64) -> u64 {
        let record = self.books[node].get(topic, Incarnation::new(incarnation));
        record.map_or(0, |record| record.value().head.version.number.get())
    }

    /// Returns the versions that a node has, by name.
    pub(crate) fn known(&self, node: usize) -> BTreeMap<(Topic, Incarnation), Heard> {
        let heads = self.books[node].records().map(|record| record.value().head);
        heads
            .map(|head| ((head.topic, head.incarnation), head.version))
            .collect()
    }

    fn versions_never_go_back(&mut self, node: usize) {
        let known = self.known(node);
        for (name, before) in &self.seen[node] {
            assert!(known.get(name).is_some_and(|now| now >= before), "{name:?}");
        }
        self.seen[node] = known;
    }
}
