//! Gossip with peers: the links to them, and the records that are published or arrive.

use super::context::Context;
use super::inbox::take_some;
use super::round_trips::RoundTrips;
use crate::gossip::{self, Book, Link, LinkSettings};
use aliquot_core::unit::{Incarnation, NodeId, Tick};
use aliquot_wire::Sealed;
use aliquot_wire::gossip::Record;
use rand::RngExt;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::mpsc;

/// The gossip records of this node and of its peers, and one link to each peer.
pub(super) struct Peers {
    book: Book,
    links: BTreeMap<NodeId, Link>,
    round_trips: RoundTrips,
    /// Given to each link, for its events.
    events: mpsc::Sender<gossip::Event>,
    /// Records of peers that were not taken in yet.
    arrived: VecDeque<(NodeId, Sealed<Record>)>,
    last_round: Tick,
}

impl Peers {
    pub(super) fn new(events: mpsc::Sender<gossip::Event>, now: Tick) -> Self {
        Self {
            book: Book::new(Incarnation::default()),
            links: BTreeMap::new(),
            round_trips: RoundTrips::default(),
            events,
            arrived: VecDeque::new(),
            last_round: now,
        }
    }

    /// Returns the latest records of every node.
    pub(super) const fn book(&self) -> &Book {
        &self.book
    }

    /// Returns the number of peers to which a stream is open.
    pub(super) fn links_up(&self) -> usize {
        self.links.values().filter(|link| link.is_up()).count()
    }

    /// Returns the round trips to peers.
    pub(super) const fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// Publishes the records of this node as those of another incarnation.
    pub(super) fn begin_incarnation(&mut self, incarnation: Incarnation) {
        self.book.set_incarnation(incarnation);
    }

    /// Drops the records of an incarnation that is over.
    pub(super) fn forget(&mut self, incarnation: Incarnation) {
        self.book.forget(incarnation);
    }

    /// Publishes a record to all peers.
    pub(super) fn publish(&mut self, record: &Record) {
        match Sealed::seal(record) {
            Ok(sealed) => {
                if let Err(error) = self.book.publish(sealed) {
                    tracing::warn!(%error, "a record was not kept");
                }
            }
            Err(error) => tracing::error!(%error, "a record was not sent: it cannot be decoded"),
        }
    }

    /// Maximum number of events that are handled at once: as many as can be queued.
    pub(super) const QUEUED_MAX: usize = 256;

    /// Handles an event of a link or of a peer's stream, and those that are queued behind it. The peers' new records
    /// wait for [`Peers::next_arrived`], of each only the latest version.
    ///
    /// A report or an answer replaces the earlier ones. If a busy node handled each of them in a turn of its own,
    /// the latest would wait behind a queue that grows, and confirm a lease only when that is over.
    pub(super) fn handle_queued(
        &mut self,
        first: gossip::Event,
        more: &mut mpsc::Receiver<gossip::Event>,
        context: &mut Context,
    ) {
        let mut arrived = std::mem::take(&mut self.arrived);
        let before = arrived.len();
        take_some(first, more, Self::QUEUED_MAX, |event| {
            if let Some((peer, records)) = self.handle(event, context) {
                arrived.extend(records.into_iter().map(|record| (peer, record)));
            }
            !context.slice_is_over()
        });
        context.counts.records += (arrived.len() - before) as u64;
        arrived.retain(|(_, record)| self.book.is_latest(record.value().head));
        self.arrived = arrived;
    }

    /// Removes and returns the record that arrived first, with the peer that sent it.
    pub(super) fn next_arrived(&mut self) -> Option<(NodeId, Sealed<Record>)> {
        self.arrived.pop_front()
    }

    /// Returns true if records wait to be taken in.
    pub(super) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Handles one event. Returns the peer and its new records, if it sent a message.
    fn handle(
        &mut self,
        event: gossip::Event,
        context: &Context,
    ) -> Option<(NodeId, Vec<Sealed<Record>>)> {
        match event {
            gossip::Event::RoundTrip { peer, took } => {
                if let Some(slow) =
                    self.round_trips
                        .measured(peer, took, context.options.round_trip)
                {
                    slow.warn();
                }
            }
            gossip::Event::Up { peer } => self.book.join(peer),
            // The link reconnects by itself, and sends `Up` once it is connected.
            gossip::Event::Down { peer, reason } => {
                tracing::debug!(peer = peer.get(), %reason, "a link ended");
            }
            // A peer that can connect here can most likely be reached. Retry now, so that its records
            // do not wait for our backoff.
            gossip::Event::Called { peer } => self.links.get(&peer).map_or((), Link::retry),
            gossip::Event::Message { peer, message } => {
                return Some((peer, self.book.handle(peer, message)));
            }
        }
        None
    }

    /// Sends peers the records that they lack, and asks at each gossip round for what they have.
    pub(super) fn send(&mut self, now: Tick) {
        let round = now.since(self.last_round) >= gossip::ROUND;
        if round {
            self.last_round = now;
        }
        for (&peer, link) in &self.links {
            if round {
                self.book.tick(peer);
            }
            // If a link is full, nothing is lost: records merge, and a later round lists them again.
            while link.has_room() {
                let Some(message) = self.book.poll(peer) else {
                    break;
                };
                if !link.send(message) {
                    break;
                }
            }
        }
    }

    /// Keeps one link to each other member.
    pub(super) fn follow_members(&mut self, context: &mut Context) {
        let members: BTreeMap<u64, String> = [&context.status.voters, &context.status.learners]
            .into_iter()
            .flatten()
            .map(|(&id, address)| (id, address.clone()))
            .collect();
        let (book, round_trips) = (&mut self.book, &mut self.round_trips);
        self.links.retain(|peer, _| {
            let stays = members.contains_key(&peer.get());
            if !stays {
                book.leave(*peer);
                round_trips.forget(*peer);
            }
            stays
        });
        for (id, address) in members {
            let peer = NodeId::new(id);
            if peer == context.options.node || self.links.contains_key(&peer) {
                continue;
            }
            let settings = LinkSettings {
                cluster: context.options.cluster.clone(),
                node: context.options.node,
                peer,
                address,
                seed: context.rng.random(),
            };
            let connect = context.options.connect.clone();
            let link = Link::open(settings, connect, self.events.clone());
            self.links.insert(peer, link);
        }
    }
}
