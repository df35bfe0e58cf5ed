//! The records that this node knows, and what its peers know of them.

use super::peer::{Name, Peer};
use aliquot_core::message::Heard;
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{Incarnation, NodeId};
use aliquot_wire::Sealed;
use aliquot_wire::gossip::{GossipMessage, Head, Record, Topic};
use aliquot_wire::limits::{DIGEST_MAX, MESSAGE_BYTES_MAX, RECORDS_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// Records merged by version, and the conversation with each peer.
///
/// A record's name is its topic and life; of two records of one name the later
/// version stays. Merging is a maximum, so any message may be lost, doubled or
/// late. A head in a digest always says *what its sender has*: whoever has a
/// later version sends it, and whoever has an earlier one answers with its own
/// head, which asks for the record.
///
/// What goes to a peer, and when:
///
/// - **What this node publishes**, at once, to every peer.
/// - **What it learned of others**, as a head in the second round after, unless
///   the peer has said by then that it has it. Between nodes that all hear each
///   other nobody has to ask, so records travel once and relays cost a head.
/// - A peer that had to ask for a record is sent its later versions at once for
///   50 rounds: it does not hear their origin.
/// - In every 25th round, and when a link begins, a digest lists everything:
///   it finds what was lost. While nothing changes that is all that is sent: one
///   message per peer in 25 rounds, of at most 42 bytes a record.
///
/// A record goes out at most once per message and in its latest version, so a
/// slow peer costs no memory. Kept are at most [`Book::NAMES_MAX`] records in
/// [`Book::BYTES_MAX`] bytes, and per peer a few words for each.
#[derive(Debug)]
pub struct Book {
    life: Incarnation,
    records: BTreeMap<Name, Sealed<Record>>,
    bytes: usize,
    forgotten: BTreeSet<Incarnation>,
    peers: BTreeMap<NodeId, Peer>,
}

/// Why a record was not kept. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotKept {
    /// The same version or a later one is here.
    #[error("version {ours:?} of the record is here, which is no earlier one")]
    NotLater {
        /// The version that is here.
        ours: Heard,
    },
    /// The life that it is about was forgotten.
    #[error("the life that the record is about was forgotten")]
    Forgotten,
    /// There is no room for it.
    #[error(
        "the book is full: at most {} records in {} bytes",
        Book::NAMES_MAX,
        Book::BYTES_MAX
    )]
    Full,
}

impl Book {
    /// The most records: several for each life of a large cluster.
    pub const NAMES_MAX: usize = 16_384;

    /// The most bytes of all records.
    pub const BYTES_MAX: usize = 256 << 20;

    /// The most lives that are remembered as forgotten. The log issues them in
    /// rising order, so beyond that the lowest, the longest gone, are dropped.
    pub const FORGOTTEN_MAX: usize = 4_096;

    /// The most peers that speak before they are joined, and are remembered.
    pub const PEERS_MAX: usize = 64;

    /// An empty book of the node that lives as `life`; 0 before it has one.
    #[must_use]
    pub fn new(life: Incarnation) -> Self {
        Self {
            life,
            records: BTreeMap::new(),
            bytes: 0,
            forgotten: BTreeSet::new(),
            peers: BTreeMap::new(),
        }
    }

    /// The node lives as another now. What it knows stays.
    pub const fn set_life(&mut self, life: Incarnation) {
        self.life = life;
    }

    /// Begins to speak with a peer, or begins anew because the link to it did:
    /// what it was told may be lost, and it is told everything. What it said it
    /// has stays known, and what it was to be asked for is asked.
    pub fn join(&mut self, peer: NodeId) {
        let peer = self.peers.entry(peer).or_default();
        peer.tell_all(self.records.keys().copied());
    }

    /// Stops speaking with a peer that left the cluster. What it said stays.
    pub fn leave(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// The peers that are spoken with.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.peers.keys().copied()
    }

    /// Keeps a record of this node's own, to be sent to every peer at once.
    ///
    /// # Errors
    ///
    /// [`NotKept`]; nothing was changed.
    pub fn publish(&mut self, record: Sealed<Record>) -> Result<(), NotKept> {
        let head = record.value().head;
        self.keep(record)?;
        for peer in self.peers.values_mut() {
            peer.changed((head.topic, head.life), head.version, true);
        }
        Ok(())
    }

    /// Takes what a peer said. Returns the records that are later than what was
    /// here, in the order of the message. A peer that was not joined yet, because
    /// its link was up before ours, is answered once it is.
    pub fn handle(&mut self, peer: NodeId, message: GossipMessage) -> Vec<Sealed<Record>> {
        let is_current = self.meet(peer, message.sender);
        let mut fresh = Vec::new();
        for record in message.records {
            let head = record.value().head;
            let name = (head.topic, head.life);
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

    /// Begins a round with a peer; [`Book::poll`] says what there is to send.
    pub fn tick(&mut self, peer: NodeId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.tick(self.records.keys().copied());
        }
    }

    /// The next message for a peer, if there is something to say. What does not
    /// fit is in the message after it: answers go first, then reports.
    pub fn poll(&mut self, peer: NodeId) -> Option<GossipMessage> {
        let peer = self.peers.get_mut(&peer)?;
        let mut digest = Vec::new();
        for name in peer.take_heads(DIGEST_MAX) {
            let version = version(&self.records, name);
            peer.was_listed(name, version);
            let (topic, life) = name;
            digest.push(Head {
                topic,
                life,
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
            sender: self.life,
            digest,
            records,
        })
    }

    /// Forgets a life that was reclaimed: its records are dropped, and those that
    /// a peer still has are not taken again.
    pub fn forget(&mut self, life: Incarnation) {
        self.forgotten.insert(life);
        while self.forgotten.len() > Self::FORGOTTEN_MAX {
            self.forgotten.pop_first();
        }
        let bytes = &mut self.bytes;
        self.records.retain(|name, record| {
            let stays = name.1 != life;
            if !stays {
                *bytes -= record.bytes().len();
            }
            stays
        });
        for peer in self.peers.values_mut() {
            peer.forget(life);
        }
    }

    /// The record of this name.
    #[must_use]
    pub fn get(&self, topic: Topic, life: Incarnation) -> Option<&Sealed<Record>> {
        self.records.get(&(topic, life))
    }

    /// All records, by topic and life.
    pub fn records(&self) -> impl Iterator<Item = &Sealed<Record>> {
        self.records.values()
    }

    /// Notes who speaks. A peer that lives again knows nothing of what it was
    /// told; what its former life still says of itself is void.
    fn meet(&mut self, peer: NodeId, sender: Incarnation) -> bool {
        if !self.peers.contains_key(&peer) && self.peers.len() >= Self::PEERS_MAX {
            return false;
        }
        let known = self.peers.entry(peer).or_default();
        if sender < known.life {
            return false;
        }
        if sender > known.life && known.life != Incarnation::default() {
            *known = Peer::default();
            known.tell_all(self.records.keys().copied());
        }
        known.life = sender;
        true
    }

    fn keep(&mut self, record: Sealed<Record>) -> Result<(), NotKept> {
        let head = record.value().head;
        let name = (head.topic, head.life);
        if self.forgotten.contains(&head.life) {
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
            let name = (head.topic, head.life);
            let ours = version(&self.records, name);
            let is_new = ours == Heard::default();
            if self.forgotten.contains(&head.life) || (is_new && is_full) {
                continue;
            }
            peer.said(name, head.version, ours);
        }
    }

    fn version(&self, name: Name) -> Heard {
        version(&self.records, name)
    }
}

/// The bytes of a head in a digest, at most: its four counters and its frame.
const HEAD_BYTES: usize = 42;

/// The bytes of a message's sender, or of a record's frame, at most.
const FRAME_BYTES: usize = 11;

/// A full digest leaves room, and the largest record has room without one.
const _: () = assert!(DIGEST_MAX * HEAD_BYTES + FRAME_BYTES < MESSAGE_BYTES_MAX);
const _: () = assert!(aliquot_wire::limits::RECORD_BYTES_MAX + 2 * FRAME_BYTES < MESSAGE_BYTES_MAX);

/// The version that is here; zero, which no record has, for none.
fn version(records: &BTreeMap<Name, Sealed<Record>>, name: Name) -> Heard {
    let record = records.get(&name);
    record.map_or_else(Heard::default, |record| record.value().head.version)
}
