//! The actor's table of sessions and of the names of their keys.

use super::event::{Caller, Remote, StreamId};
use super::outbox::Outbox;
use super::stream_end::StreamEnd;
use aliquot_core::budget::{Key, Labels};
use aliquot_core::rebalance::{OwnSessions, Rebalancer};
use aliquot_core::unit::{BudgetId, Edge, Incarnation, Span, Tick};
use aliquot_wire::session::{Interned, KeyRefusal, NodeMessage};
use slab::Slab;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Name of a key: the id of its budget's current generation, or the reason that there is none.
pub type Name = Result<BudgetId, KeyRefusal>;

/// The sessions of one incarnation of a node, by the client's incarnation.
///
/// The name of a key is the same for every session of the node. It is stored once, with the sessions
/// that asked for it. When a budget is created, ends or begins another generation,
/// [`Registry::refresh_after`] notifies all of them.
///
/// When a stream ends, its session stays until its edge is closed. It keeps its names and may be
/// resumed. Memory is bounded by the sessions that the node's state machine keeps open, with `keys_max`
/// keys each.
///
/// A session that is removed leaves its keys behind, and [`Registry::forget_keys`] removes it from some of them at a
/// time: one session may have thousands, and the leases of all others are renewed on the same thread.
#[derive(Debug)]
pub struct Registry {
    keys_max: usize,
    sessions: BTreeMap<Incarnation, Session>,
    /// Number of sessions that are connected by a stream.
    connected: usize,
    /// The session at which the last sweep for closed ones ended.
    swept: Incarnation,
    names: Slab<Named>,
    /// The place of each key in `names`.
    places: BTreeMap<Key, Place>,
    /// The place of each generation whose name a session knows.
    budgets: BTreeMap<BudgetId, Place>,
    /// Removed sessions, with the places of the names that still list them.
    removed: Vec<(Incarnation, Vec<Place>)>,
}

/// Place of a name in the table. Sessions list these, since a key would take four times the memory.
type Place = u32;

/// One session.
#[derive(Debug)]
pub struct Session {
    edge: Edge,
    stream: StreamId,
    outbox: Option<Outbox>,
    remote: Remote,
    labels: Labels,
    opened: Tick,
    asked_to_move: Option<Tick>,
    /// True if the members of the cluster are sent to it.
    wants_members: bool,
    /// The keys that the client asked for. [`Named::sessions`] tells if a key is among them.
    keys: Vec<Place>,
}

#[derive(Debug)]
struct Named {
    key: Key,
    name: Name,
    /// Sorted. Most keys have one session, for which a tree takes twelve times the memory.
    sessions: Vec<Incarnation>,
}

impl Named {
    fn add(&mut self, client: Incarnation) {
        if let Err(place) = self.sessions.binary_search(&client) {
            if self.sessions.len() == self.sessions.capacity() {
                let more = self.sessions.len() / 4;
                self.sessions.reserve_exact(more.max(1));
            }
            self.sessions.insert(place, client);
        }
    }

    fn has(&self, client: Incarnation) -> bool {
        self.sessions.binary_search(&client).is_ok()
    }

    fn remove(&mut self, client: Incarnation) {
        if let Ok(place) = self.sessions.binary_search(&client) {
            self.sessions.remove(place);
        }
    }
}

impl Session {
    /// Returns the edge.
    #[must_use]
    pub const fn edge(&self) -> Edge {
        self.edge
    }

    /// Returns the current or last address and identity of the client.
    #[must_use]
    pub const fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Returns the labels that the client gave itself.
    #[must_use]
    pub const fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the time at which the session was opened, on the node's clock.
    #[must_use]
    pub const fn opened(&self) -> Tick {
        self.opened
    }

    /// Returns true if the session is connected by a stream.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.outbox.is_some()
    }

    /// Returns the number of keys that the session asked for.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if the session is connected and was not asked to move within `span`.
    fn stays(&self, now: Tick, span: Span) -> bool {
        let asked = self.asked_to_move;
        self.is_connected() && asked.is_none_or(|at| now.since(at) >= span)
    }

    fn send(&self, message: NodeMessage) {
        if let Some(outbox) = &self.outbox {
            outbox.send(message);
        }
    }

    fn close(&self, end: Option<StreamEnd>) {
        if let Some(outbox) = &self.outbox {
            outbox.close(end);
        }
    }
}

impl Registry {
    /// Time for which a client that was asked to move, and stayed, is not asked again.
    pub const ASK_AGAIN: Span = Rebalancer::ASK_AGAIN;

    /// Time after which a client that was asked to move counts as staying: it could not move.
    pub const GOES_WITHIN: Span = Rebalancer::GOES_WITHIN;

    /// Creates an empty table of sessions with at most `keys_max` keys each.
    #[must_use]
    pub const fn new(keys_max: usize) -> Self {
        Self {
            keys_max,
            sessions: BTreeMap::new(),
            connected: 0,
            swept: Incarnation::new(0),
            names: Slab::new(),
            places: BTreeMap::new(),
            budgets: BTreeMap::new(),
            removed: Vec::new(),
        }
    }

    /// Adds a session that was opened now. It would replace one of the same incarnation, but the node's
    /// state machine issues none twice.
    pub fn open(
        &mut self,
        caller: Caller,
        outbox: Outbox,
        remote: Remote,
        labels: Labels,
        now: Tick,
    ) {
        let client = caller.edge.child;
        self.remove(client, Some(StreamEnd::Replaced));
        let session = Session {
            edge: caller.edge,
            stream: caller.stream,
            outbox: Some(outbox),
            remote,
            labels,
            opened: now,
            asked_to_move: None,
            wants_members: false,
            keys: Vec::new(),
        };
        self.sessions.insert(client, session);
        self.connected += 1;
    }

    /// Connects a session to another stream, and ends the old one if it is still open. Returns `false`,
    /// and changes nothing, if there is no such session.
    pub fn resume(&mut self, caller: Caller, outbox: Outbox, remote: Remote) -> bool {
        let session = self.sessions.get_mut(&caller.edge.child);
        let Some(session) = session.filter(|session| session.edge == caller.edge) else {
            return false;
        };
        session.close(Some(StreamEnd::Replaced));
        self.connected += usize::from(!session.is_connected());
        session.outbox = Some(outbox);
        session.stream = caller.stream;
        session.remote = remote;
        true
    }

    /// Returns true if this stream still carries its session. Messages of other streams are ignored.
    #[must_use]
    pub fn is_current(&self, caller: &Caller) -> bool {
        let session = self.sessions.get(&caller.edge.child);
        session.is_some_and(|session| {
            session.edge == caller.edge && session.stream == caller.stream && session.is_connected()
        })
    }

    /// Notes that a stream has ended. Its session stays, and may have been resumed by another stream.
    pub fn gone(&mut self, caller: &Caller) {
        if self.is_current(caller)
            && let Some(session) = self.sessions.get_mut(&caller.edge.child)
        {
            session.outbox = None;
            self.connected -= 1;
        }
    }

    /// Notes that a session uses a key, and returns the name of the key. `name` is called if no session
    /// uses the key yet, or if its budget did not exist. A session that has its maximum number of keys is
    /// told [`KeyRefusal::SessionFull`] for another one, which is not noted, and goes on with those it has.
    ///
    /// # Errors
    ///
    /// [`StreamEnd::Lapsed`] if there is no such session. Nothing was noted.
    pub fn intern(
        &mut self,
        client: Incarnation,
        key: Key,
        name: impl FnOnce(&Key) -> Name,
    ) -> Result<Interned, StreamEnd> {
        let session = self.sessions.get_mut(&client).ok_or(StreamEnd::Lapsed)?;
        let place = self.places.get(&key).copied();
        let known = place.and_then(|place| self.names.get(place as usize));
        let known = known.is_some_and(|named| named.has(client));
        if session.keys.len() >= self.keys_max && !known {
            let budget = Err(KeyRefusal::SessionFull);
            return Ok(Interned { key, budget });
        }
        let place = place.unwrap_or_else(|| {
            let place = self.names.insert(Named {
                key: key.clone(),
                name: Err(KeyRefusal::NotYet),
                sessions: Vec::new(),
            });
            let place = Place::try_from(place).expect("fewer than 2³² names fit in memory");
            self.places.insert(key.clone(), place);
            place
        });
        if !known {
            session.keys.push(place);
        }
        let named = &mut self.names[place as usize];
        named.add(client);
        let budget = match named.name {
            Ok(budget) => Ok(budget),
            Err(_) => name(&named.key),
        };
        // Sessions that asked before, and were refused, learn of the budget too.
        let mut changes = NameChanges::default();
        changes.look(place, named, budget, &mut self.budgets);
        changes.0.remove(&client);
        changes.send(&self.sessions);
        let key = named.key.clone();
        Ok(Interned { key, budget })
    }

    /// Looks up the names of the next `most` keys after `after`, and sends sessions the names that
    /// changed. Returns the number of notified sessions, and the last of these keys, or `None` if no other
    /// follows.
    pub fn refresh_after(
        &mut self,
        after: Option<&Key>,
        most: usize,
        name: impl Fn(&Key) -> Name,
    ) -> (usize, Option<Key>) {
        let mut changes = NameChanges::default();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        let range = self.places.range::<Key, _>((from, Bound::Unbounded));
        for (count, (key, &place)) in (1..=most).zip(range) {
            let named = &mut self.names[place as usize];
            changes.look(place, named, name(key), &mut self.budgets);
            last = (count == most).then(|| key.clone());
        }
        (changes.send(&self.sessions), last)
    }

    /// Does the same for the given keys only. Returns the number of notified sessions.
    pub fn refresh_keys<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a Key>,
        name: impl Fn(&Key) -> Name,
    ) -> usize {
        let mut changes = NameChanges::default();
        for key in keys {
            if let Some(&place) = self.places.get(key) {
                let named = &mut self.names[place as usize];
                changes.look(place, named, name(key), &mut self.budgets);
            }
        }
        changes.send(&self.sessions)
    }

    /// Returns the key that sessions know by a generation's id.
    #[must_use]
    pub fn key_of(&self, budget: BudgetId) -> Option<&Key> {
        let place = self.budgets.get(&budget)?;
        self.names.get(*place as usize).map(|named| &named.key)
    }

    /// Returns the number of sessions, connected or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns true if there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the keys whose budgets do not exist yet, and which sessions wait for.
    pub fn waiting(&self) -> impl Iterator<Item = &Key> {
        let waiting = |named: &Named| named.name == Err(KeyRefusal::NotYet);
        let names = self.names.iter().map(|(_, named)| named);
        let names = names.filter(move |named| waiting(named));
        names.map(|named| &named.key)
    }

    /// Sends a message to a session, if it exists and is connected.
    pub fn send(&self, client: Incarnation, message: NodeMessage) {
        if let Some(session) = self.sessions.get(&client) {
            session.send(message);
        }
    }

    /// Tells a session the members of the cluster, now and from now on. An empty list is not sent.
    pub fn follow_members(&mut self, client: Incarnation, addresses: &[String]) {
        if let Some(session) = self.sessions.get_mut(&client) {
            session.wants_members = true;
            if !addresses.is_empty() {
                session.send(NodeMessage::Members(addresses.to_vec()));
            }
        }
    }

    /// Tells the members of the cluster to all sessions that follow them.
    pub fn tell_members(&self, addresses: &[String]) {
        let sessions = self.sessions.values();
        for session in sessions.filter(|session| session.wants_members) {
            session.send(NodeMessage::Members(addresses.to_vec()));
        }
    }

    /// Drops a session whose edge is closed. Its stream ends after the messages already sent, with the
    /// reason if there is one. Its keys are forgotten by [`Registry::forget_keys`].
    pub fn remove(&mut self, client: Incarnation, end: Option<StreamEnd>) {
        let Some(session) = self.sessions.remove(&client) else {
            return;
        };
        session.close(end);
        self.connected -= usize::from(session.is_connected());
        if !session.keys.is_empty() {
            self.removed.push((client, session.keys));
        }
    }

    /// Returns true if there are keys of removed sessions to forget.
    #[must_use]
    pub const fn has_keys_to_forget(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Forgets up to `most` keys of removed sessions. A name that no session uses any more is dropped.
    pub fn forget_keys(&mut self, most: usize) {
        let mut left = most;
        while let Some((client, keys)) = self.removed.last_mut().filter(|_| left > 0) {
            let client = *client;
            let some: Vec<Place> = keys.drain(keys.len().saturating_sub(left)..).collect();
            if keys.is_empty() {
                self.removed.pop();
            }
            left -= some.len();
            for place in some {
                self.forget_key(client, place);
            }
        }
    }

    fn forget_key(&mut self, client: Incarnation, place: Place) {
        let Some(named) = self.names.get_mut(place as usize) else {
            return;
        };
        named.remove(client);
        if named.sessions.is_empty() {
            let named = self.names.remove(place as usize);
            if let Ok(budget) = named.name {
                self.budgets.remove(&budget);
            }
            self.places.remove(&named.key);
        }
    }

    /// Checks the next `most` sessions, in turn, and drops those whose edges are closed.
    pub fn sweep(&mut self, most: usize, is_open: impl Fn(Incarnation) -> bool) {
        let after = (Bound::Excluded(self.swept), Bound::Unbounded);
        let incarnations = self.sessions.range(after).map(|(&client, _)| client);
        let looked: Vec<Incarnation> = incarnations.take(most).collect();
        self.swept = match looked.last() {
            Some(&last) if looked.len() == most => last,
            _ => Incarnation::new(0),
        };
        for client in looked.into_iter().filter(|&client| !is_open(client)) {
            self.remove(client, Some(StreamEnd::Lapsed));
        }
    }

    /// Drops all sessions and ends their streams, because the node has a new incarnation or stops.
    pub fn clear(&mut self, end: &StreamEnd) {
        for session in std::mem::take(&mut self.sessions).values() {
            session.close(Some(end.clone()));
        }
        self.connected = 0;
        self.names.clear();
        self.places.clear();
        self.budgets.clear();
        self.removed.clear();
    }

    /// Asks up to `count` clients to move to `address`, those that hold no permits first, and of these the oldest
    /// sessions, so that a client that has just moved stays. Skips clients that were asked less than [`Registry::ASK_AGAIN`] ago.
    /// Returns the number asked.
    pub fn ask_to_move(
        &mut self,
        count: usize,
        address: &str,
        now: Tick,
        holds_permits: impl Fn(Incarnation) -> bool,
    ) -> usize {
        let mut asked = 0;
        for with_permits in [false, true] {
            // Incarnations are issued in ascending order, so the first is the oldest.
            let sessions = self.sessions.iter_mut();
            let chosen = sessions
                .filter(|(_, session)| session.stays(now, Self::ASK_AGAIN))
                .filter(|(client, _)| holds_permits(**client) == with_permits)
                .take(count.saturating_sub(asked));
            for (_, session) in chosen {
                session.asked_to_move = Some(now);
                session.send(NodeMessage::Move(address.to_owned()));
                asked += 1;
            }
        }
        asked
    }

    /// Returns the numbers of sessions by which clients are balanced between nodes.
    #[must_use]
    pub fn own_sessions(
        &self,
        now: Tick,
        holds_permits: impl Fn(Incarnation) -> bool,
    ) -> OwnSessions {
        let sessions = self.sessions.iter();
        let movable = sessions.filter(|(_, session)| session.stays(now, Self::ASK_AGAIN));
        let without_permits = movable.filter(|(client, _)| !holds_permits(**client));
        OwnSessions {
            staying: self.staying(now) as u64,
            without_permits: without_permits.count() as u64,
        }
    }

    /// Allows clients that were asked to move, and are still here, to be asked again.
    pub fn forget_asked(&mut self) {
        for session in self.sessions.values_mut() {
            session.asked_to_move = None;
        }
    }

    /// Returns the number of sessions that are connected and are not about to move.
    #[must_use]
    pub fn staying(&self, now: Tick) -> usize {
        let sessions = self.sessions.values();
        sessions
            .filter(|session| session.stays(now, Self::GOES_WITHIN))
            .count()
    }

    /// Returns a session.
    #[must_use]
    pub fn get(&self, client: Incarnation) -> Option<&Session> {
        self.sessions.get(&client)
    }

    /// Returns all sessions, by incarnation.
    pub fn sessions(&self) -> impl Iterator<Item = (Incarnation, &Session)> {
        self.sessions
            .iter()
            .map(|(&incarnation, session)| (incarnation, session))
    }

    /// Returns the number of sessions that are connected by a stream.
    #[must_use]
    pub const fn connected(&self) -> usize {
        self.connected
    }
}

/// Changed names for each session, sent in one message each.
#[derive(Default)]
struct NameChanges(BTreeMap<Incarnation, Vec<Interned>>);

impl NameChanges {
    /// Records the current name of a key, and notes the sessions to notify if it has changed.
    fn look(
        &mut self,
        place: Place,
        named: &mut Named,
        now: Name,
        budgets: &mut BTreeMap<BudgetId, Place>,
    ) {
        if now == named.name {
            return;
        }
        if let Ok(former) = named.name {
            budgets.remove(&former);
        }
        if let Ok(budget) = now {
            budgets.insert(budget, place);
        }
        named.name = now;
        for &client in &named.sessions {
            self.0.entry(client).or_default().push(Interned {
                key: named.key.clone(),
                budget: now,
            });
        }
    }

    /// Returns the number of notified sessions. Removed ones may still be listed.
    fn send(self, sessions: &BTreeMap<Incarnation, Session>) -> usize {
        let mut count = 0;
        for (client, names) in self.0 {
            if let Some(session) = sessions.get(&client) {
                session.send(NodeMessage::Interned(names));
                count += 1;
            }
        }
        count
    }
}
