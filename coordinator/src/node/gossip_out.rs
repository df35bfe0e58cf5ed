//! Gossip with peers: the links to them, records that are published, and records that arrive.

use super::actor::Actor;
use crate::gossip::{self, Link, LinkSettings};
use aliquot_core::unit::NodeId;
use aliquot_wire::Sealed;
use aliquot_wire::gossip::{GossipMessage, Record, Topic};
use rand::RngExt;
use std::collections::BTreeMap;

impl Actor {
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

    /// Handles a gossip event: a link opened or closed, or a peer sent a message.
    pub(super) fn handle_gossip(&mut self, event: gossip::Event) {
        match event {
            gossip::Event::Up { peer } => self.book.join(peer),
            // The link reconnects by itself, and sends `Up` once it is connected.
            gossip::Event::Down { peer, reason } => {
                tracing::debug!(peer = peer.get(), %reason, "a link ended");
            }
            // A peer that can connect here can most likely be reached. Retry now, so that its records
            // do not wait for our backoff.
            gossip::Event::Called { peer } => self.links.get(&peer).map_or((), Link::retry),
            gossip::Event::Message { peer, message } => self.handle_gossip_message(peer, message),
        }
    }

    /// Takes in a peer's records: reports if this node leads, and answers to this incarnation.
    fn handle_gossip_message(&mut self, peer: NodeId, message: GossipMessage) {
        for record in self.book.handle(peer, message) {
            self.counts.records += 1;
            let record = record.value();
            let read = match record.head.topic {
                Topic::Report if self.leadership.leads() => record
                    .report()
                    .map(|report| self.lead_report(report.value())),
                Topic::Report => {
                    self.traffic.note(record.head.incarnation, self.now);
                    Ok(())
                }
                Topic::Answer if self.is_mine(record) => record.answer().map(|answer| {
                    if let Some(node) = &mut self.node {
                        let ended = |budget| self.state.has_ended(budget);
                        node.handle_answer_but(answer.value(), self.now, ended);
                    }
                }),
                Topic::Presence => {
                    self.rebalancer.hear(record.head.incarnation, self.now);
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(error) = read {
                tracing::warn!(peer = peer.get(), %error, "a record was ignored: it cannot be decoded");
            }
        }
    }

    fn is_mine(&self, record: &Record) -> bool {
        let incarnation = record.head.incarnation;
        self.node
            .as_ref()
            .is_some_and(|node| node.incarnation() == incarnation)
    }

    /// Sends peers the records that they lack, and asks at each gossip round for what they have.
    pub(super) fn send_gossip(&mut self) {
        let round = self.now.since(self.send_times.last_gossip) >= gossip::ROUND;
        if round {
            self.send_times.last_gossip = self.now;
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
    pub(super) fn follow_members(&mut self) {
        let members: BTreeMap<u64, String> = [&self.status.voters, &self.status.learners]
            .into_iter()
            .flatten()
            .map(|(&id, address)| (id, address.clone()))
            .collect();
        let book = &mut self.book;
        // Drop the channels to addresses that no member has any more. A home node that moved is
        // connected anew.
        self.homes
            .channels
            .retain(|address, _| members.values().any(|known| known == address));
        self.links.retain(|peer, _| {
            let stays = members.contains_key(&peer.get());
            if !stays {
                book.leave(*peer);
            }
            stays
        });
        for (id, address) in members {
            let peer = NodeId::new(id);
            if peer == self.options.node || self.links.contains_key(&peer) {
                continue;
            }
            let settings = LinkSettings {
                cluster: self.options.cluster.clone(),
                node: self.options.node,
                peer,
                address,
                seed: self.rng.random(),
            };
            let link = Link::open(
                settings,
                self.options.connect.clone(),
                self.links_in.clone(),
            );
            self.links.insert(peer, link);
        }
    }
}
