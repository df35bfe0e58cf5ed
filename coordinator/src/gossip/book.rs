//! The records that this node has, and what its peers are known to have.

use super::peer::{Name, Peer};
use aliquot_core::message::Heard;
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{Incarnation, NodeId};
use aliquot_wire::Sealed;
use aliquot_wire::gossip::{GossipMessage, Head, Record, Topic};
use aliquot_wire::limits::{DIGEST_MAX, MESSAGE_BYTES_MAX, RECORDS_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// Records merged by version, and the state of the gossip with each peer.
///
/// A record is identified by its topic and incarnation. Of two records with the same name, the later
/// version is kept. Merging takes a maximum, so that any message may be lost, duplicated or late. A
/// head in a digest states *the version that its sender has*. A receiver with a later version sends the
/// record. A receiver with an earlier one answers with its own head, which asks for the record.
///
/// Rules for what is sent to a peer:
///
/// - **Records that this node publishes** are sent to every peer at once.
/// - **Records learned from other nodes** are listed in a digest in the second round after, unless the
///   peer has shown by then that it has them. If all nodes are connected to each other, no node has to
///   ask: records are sent once, and relaying costs only a head.
/// - A peer that had to ask for a record is sent its later versions at once for 50 rounds, because it
///   is not connected to their origin.
/// - In every 25th round, and when a link opens, a digest lists everything, to find records that were
///   lost. While nothing changes, this is all that is sent: one message per peer in 25 rounds, of at
///   most 42 bytes a record.
///
/// A record is sent at most once per message and in its latest version, so that a slow peer costs no
/// memory. The book keeps at most [`Book::NAMES_MAX`] records in [`Book::BYTES_MAX`] bytes, and for
/// each peer a few words per record.
#[derive(Debug)]
pub struct Book {
    incarnation: Incarnation,
    records: BTreeMap<Name, Sealed<Record>>,
    bytes: usize,
    forgotten: BTreeSet<Incarnation>,
    peers: BTreeMap<NodeId, Peer>,
}

/// Reason why a record was not kept. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotKept {
    /// The book has the same version or a later one.
    #[error("version {ours:?} of the record is here, which is no earlier one")]
    NotLater {
        /// The version in the book.
        ours: Heard,
    },
    /// The incarnation that the record is about was forgotten.
    #[error("the incarnation that the record is about was forgotten")]
    Forgotten,
    /// The book is full.
    #[error(
        "the book is full: at most {} records in {} bytes",
        Book::NAMES_MAX,
        Book::BYTES_MAX
    )]
    Full,
}

impl Book {
    /// Maximum number of records: several for each incarnation of a large cluster.
    pub const NAMES_MAX: usize = 16_384;

    /// Maximum number of bytes of all records.
    pub const BYTES_MAX: usize = 256 << 20;

    /// Maximum number of incarnations that are remembered as forgotten. The log issues them in
    /// ascending order, so the lowest, which have been gone longest, are dropped first.
    pub const FORGOTTEN_MAX: usize = 4_096;

    /// Maximum number of peers that are remembered although they send messages before they are joined.
    pub const PEERS_MAX: usize = 64;

    /// Creates an empty book for a node in this incarnation, or 0 before it has one.
    #[must_use]
    pub fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            records: BTreeMap::new(),
            bytes: 0,
            forgotten: BTreeSet::new(),
            peers: BTreeMap::new(),
        }
    }

    /// Changes the incarnation of this node. The records stay.
    pub const fn set_incarnation(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// Starts or restarts the gossip with a peer when a link to it opens. Everything is listed to the
    /// peer again, because earlier messages may be lost. What the peer is known to have stays known,
    /// and records that it was to be asked for are still asked for.
    pub fn join(&mut self, peer: NodeId) {
        let peer = self.peers.entry(peer).or_default();
        peer.tell_all(self.records.keys().copied());
    }

    /// Ends the gossip with a peer that left the cluster. Its records stay.
    pub fn leave(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// Returns the peers that this node gossips with.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.peers.keys().copied()
    }

    /// Adds a record of this node itself, to be sent to every peer at once.
    ///
    /// # Errors
    ///
    /// [`NotKept`] if the record was not added. Nothing was changed then.
    pub fn publish(&mut self, record: Sealed<Record>) -> Result<(), NotKept> {
        let head = record.value().head;
        self.keep(record)?;
        for peer in self.peers.values_mut() {
            peer.changed((head.topic, head.incarnation), head.version, true);
        }
        Ok(())
    }

    /// Takes in a message of a peer. Returns the records that are later than those in the book, in the
    /// order of the message. If the peer's link opens before ours, its message is answered once it is
    /// joined.
    pub fn handle(&mut self, peer: NodeId, message: GossipMessage) -> Vec<Sealed<Record>> {
        let is_current = self.meet(peer, message.sender);
        let mut fresh = Vec::new();
        for record in message.records {
            let head = record.value().head;
            let name = (head.topic, head.incarnation);
            if self.keep(record.clone()).is_ok() {
                fresh.push(record);
                let passes_on = !planted::is(Bug::LearnedNotPassedOn);
                let others = self
                    .peers
                    .iter_mut()
                    .filter(|(id, _)| **id != peer && passes_on);
                for (_, other) in others {
                    other.changed(name, head.version, false);
                }
            }
            let ours = self.version(name);
            if is_current
                && ours != Heard::default()
                && let Some(peer) = self.peers.get_mut(&peer)
            {
                peer.sent(name, head.version, ours);
            }
        }
        if is_current {
            self.read_digest(peer, &message.digest);
        }
        fresh
    }

    /// Begins a round with a peer. Call [`Book::poll`] for the messages to send.
    pub fn tick(&mut self, peer: NodeId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.tick(self.records.keys().copied());
        }
    }

    /// Returns the next message for a peer, if there is anything to send. What does not fit follows in
    /// the next message. Answers go first, then reports.
    pub fn poll(&mut self, peer: NodeId) -> Option<GossipMessage> {
        let peer = self.peers.get_mut(&peer)?;
        let mut digest = Vec::new();
        for name in peer.take_heads(DIGEST_MAX) {
            let version = version(&self.records, name);
            peer.was_listed(name, version);
            let (topic, incarnation) = name;
            digest.push(Head {
                topic,
                incarnation,
                version,
            });
        }
        let mut room = MESSAGE_BYTES_MAX - FRAME_BYTES - digest.len() * HEAD_BYTES;
        let mut records = Vec::new();
        for name in peer.pushes() {
            let Some(record) = self.records.get(&name) else {
                peer.was_pushed(name);
                continue;
            };
            let size = record.bytes().len() + FRAME_BYTES;
            if size > room || records.len() == RECORDS_MAX {
                break;
            }
            room -= size;
            peer.was_pushed(name);
            records.push(record.clone());
        }
        (!digest.is_empty() || !records.is_empty()).then_some(GossipMessage {
            sender: self.incarnation,
            digest,
            records,
        })
    }

    /// Forgets an incarnation that was reclaimed. Its records are dropped, and are not taken again from
    /// peers that still have them.
    pub fn forget(&mut self, incarnation: Incarnation) {
        self.forgotten.insert(incarnation);
        while self.forgotten.len() > Self::FORGOTTEN_MAX {
            self.forgotten.pop_first();
        }
        let bytes = &mut self.bytes;
        self.records.retain(|name, record| {
            let stays = name.1 != incarnation;
            if !stays {
                *bytes -= record.bytes().len();
            }
            stays
        });
        for peer in self.peers.values_mut() {
            peer.forget(incarnation);
        }
    }

    /// Returns the record of this topic and incarnation.
    #[must_use]
    pub fn get(&self, topic: Topic, incarnation: Incarnation) -> Option<&Sealed<Record>> {
        self.records.get(&(topic, incarnation))
    }

    /// Returns true if the book has the record with this head, and no later version.
    #[must_use]
    pub fn is_latest(&self, head: Head) -> bool {
        self.version((head.topic, head.incarnation)) == head.version
    }

    /// Returns all records, by topic and incarnation.
    pub fn records(&self) -> impl Iterator<Item = &Sealed<Record>> {
        self.records.values()
    }

    /// Notes the sender of a message. A peer in a new incarnation has lost all records, so its state is
    /// reset. Returns false if the message is from an earlier incarnation of the peer.
    fn meet(&mut self, peer: NodeId, sender: Incarnation) -> bool {
        if !self.peers.contains_key(&peer) && self.peers.len() >= Self::PEERS_MAX {
            return false;
        }
        let known = self.peers.entry(peer).or_default();
        if sender < known.incarnation {
            return false;
        }
        if sender > known.incarnation && known.incarnation != Incarnation::default() {
            *known = Peer::default();
            known.tell_all(self.records.keys().copied());
        }
        known.incarnation = sender;
        true
    }

    fn keep(&mut self, record: Sealed<Record>) -> Result<(), NotKept> {
        let head = record.value().head;
        let name = (head.topic, head.incarnation);
        if self.forgotten.contains(&head.incarnation) {
            return Err(NotKept::Forgotten);
        }
        let ours = self.version(name);
        if head.version <= ours {
            return Err(NotKept::NotLater { ours });
        }
        let before = self.records.get(&name);
        let freed = before.map_or(0, |before| before.bytes().len());
        let bytes = self.bytes - freed + record.bytes().len();
        let is_full = before.is_none() && self.records.len() >= Self::NAMES_MAX;
        if is_full || bytes > Self::BYTES_MAX {
            return Err(NotKept::Full);
        }
        self.bytes = bytes;
        self.records.insert(name, record);
        Ok(())
    }

    fn read_digest(&mut self, peer: NodeId, digest: &[Head]) {
        let Some(peer) = self.peers.get_mut(&peer) else {
            return;
        };
        let is_full = self.records.len() >= Self::NAMES_MAX;
        for head in digest {
            let name = (head.topic, head.incarnation);
            let ours = version(&self.records, name);
            let is_new = ours == Heard::default();
            if self.forgotten.contains(&head.incarnation) || (is_new && is_full) {
                continue;
            }
            peer.note_version(name, head.version, ours);
        }
    }

    fn version(&self, name: Name) -> Heard {
        version(&self.records, name)
    }
}

/// Maximum number of bytes of a head in a digest: its four counters and its frame.
const HEAD_BYTES: usize = 42;

/// Maximum number of bytes of a message's sender, or of a record's frame.
const FRAME_BYTES: usize = 11;

/// A full digest leaves room for records, and the largest record fits into a message without a digest.
const _: () = assert!(DIGEST_MAX * HEAD_BYTES + FRAME_BYTES < MESSAGE_BYTES_MAX);
const _: () = assert!(aliquot_wire::limits::RECORD_BYTES_MAX + 2 * FRAME_BYTES < MESSAGE_BYTES_MAX);

/// Returns the version in the book, or zero, which no record has.
fn version(records: &BTreeMap<Name, Sealed<Record>>, name: Name) -> Heard {
    let record = records.get(&name);
    record.map_or_else(Heard::default, |record| record.value().head.version)
}

#[cfg(test)]
#[path = "../../tests/unit/gossip/book.rs"]
mod tests;
