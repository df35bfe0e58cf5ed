//! Client sessions: opening them, interning keys, taking reports, and moving clients between nodes.

use super::actor::{Actor, Control};
use super::leadership::entry;
use super::wanted::Wanted;
use crate::session::{Caller, Event, Name, Opening, Refused, ServingNode};
use aliquot_core::budget::Key;
use aliquot_core::command::Command;
use aliquot_core::message::{Report, Verdict};
use aliquot_core::state::State;
use aliquot_core::unit::{BudgetId, Incarnation, Span, Tick};
use aliquot_wire::gossip::{Presence, Topic};
use aliquot_wire::session::{Interned, KeyRefusal, NodeMessage, SessionOpen, SessionOpened};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Work on the keys of sessions that is still to be done.
#[derive(Debug, Default)]
pub(super) struct PendingKeys {
    wanted: Wanted,
    /// Keys that sessions asked about and that were not looked up yet.
    unresolved: VecDeque<(Caller, Vec<Key>)>,
    unresolved_keys: usize,
    pub(super) stale: StaleKeys,
    /// Time until which no session is told of changed names.
    quiet: Tick,
    swept: Tick,
    rebalanced: Tick,
}

impl PendingKeys {
    /// Maximum number of keys that wait to be looked up: about a quarter of a second of work. Above it,
    /// no more session events are read.
    const UNRESOLVED_MAX: usize = 1 << 18;

    /// Returns true if no key waits for a budget or a name.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.stale.is_empty() && self.unresolved.is_empty()
    }

    /// Returns true if there are keys that can be looked up at once.
    pub(super) fn is_behind(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Returns true if sessions may ask about more keys.
    pub(super) const fn has_room(&self) -> bool {
        self.unresolved_keys < Self::UNRESOLVED_MAX
    }

    /// Returns the number of keys whose budgets were requested and do not exist yet.
    pub(super) fn waiting(&self) -> usize {
        self.wanted.len()
    }
}

/// Keys whose names may have changed with the entries that were applied.
#[derive(Debug, Default)]
pub(super) struct StaleKeys {
    keys: BTreeSet<Key>,
    /// Position of the sweep over all keys: after a key, or `Some(None)` at the start.
    sweep: Option<Option<Key>>,
    /// Set if another sweep must follow this one.
    again: bool,
}

impl StaleKeys {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.sweep.is_none()
    }

    /// Marks one key whose name may have changed. When thousands of keys are created at once, this
    /// avoids one sweep over all keys for each of them.
    pub(super) fn key(&mut self, key: &Key) {
        self.keys.insert(key.clone());
    }

    /// Marks all keys. They are swept a part at a time.
    pub(super) fn all(&mut self) {
        match self.sweep {
            Some(Some(_)) => self.again = true,
            Some(None) => {}
            None => self.sweep = Some(None),
        }
    }

    /// Records how far the sweep came. `None` means that it reached the end.
    fn swept(&mut self, last: Option<Key>) {
        self.sweep = match last {
            Some(last) => Some(Some(last)),
            None => std::mem::take(&mut self.again).then_some(None),
        };
    }
}

/// Maximum number of keys that are looked up in one turn of the loop.
const KEYS_A_TURN: usize = 1_024;

/// Time that it takes to tell one session of a name, the transport included. The pause after a refresh
/// is this for each session told: long after many, and unnoticeable after one.
const NAMES: Span = Span::from_nanos(50_000);

/// Maximum time for which a leader that takes new keys is looked for.
const TRY_FOR: Duration = Duration::from_secs(2);

/// Interval at which one part of the sessions is checked for closed ones, and number of parts after
/// which all of them have been checked.
const SWEEP: Span = Span::from_millis(20);
const SWEEP_PARTS: usize = 10;

/// Interval at which sessions are balanced between nodes.
const REBALANCE: Span = Span::from_secs(1);

/// At each tick, a leaving node asks one in this many of its clients to move: all of them within half a
/// second, but never all at once.
const LEAVE_ONE_IN: usize = 8;

/// Returns the budget id of a key, as far as this replica knows.
fn name(state: &State, key: &Key) -> Name {
    let rule = state.rule_of(key);
    match state.budget_of(key) {
        Some(id) if state.budget(id).is_some_and(|of| !of.winding) => Ok(id),
        Some(_) if rule.is_some() => Err(KeyRefusal::NotYet),
        _ => match rule {
            Some((rule, _)) if state.is_full(rule) => Err(KeyRefusal::TooManyInstances),
            Some(_) => Err(KeyRefusal::NotYet),
            None => Err(KeyRefusal::NoRule),
        },
    }
}

impl Actor {
    pub(super) fn handle_session(&mut self, event: Event) {
        match event {
            Event::Opening(opening) => self.open_session(*opening),
            Event::Intern { caller, keys } if self.sessions.is_current(&caller) => {
                self.tell_names(caller, keys);
            }
            Event::Report { caller, report } if self.sessions.is_current(&caller) => {
                self.take_report(caller, &report);
            }
            Event::DecisionRequest { caller, ask } if self.sessions.is_current(&caller) => {
                self.ask(ask)
            }
            Event::Release { release } => self.release(&release),
            Event::Gone { caller } => self.sessions.gone(&caller),
            Event::Intern { .. } | Event::Report { .. } | Event::DecisionRequest { .. } => {}
        }
    }

    fn open_session(&mut self, opening: Opening) {
        let Opening {
            stream,
            open,
            remote,
            outbox,
            reply,
        } = opening;
        let SessionOpen {
            labels,
            keys,
            resume,
            ..
        } = open;
        let caller = |edge| Caller { edge, stream };
        let resumed = resume
            .map(caller)
            .filter(|caller| self.is_open(caller.edge.child))
            .filter(|&caller| self.sessions.resume(caller, outbox.clone(), remote.clone()));
        let caller = match resumed {
            Some(caller) => caller,
            None => match self.begin_session() {
                Ok(edge) => {
                    let caller = caller(edge);
                    self.sessions.open(caller, outbox, remote, labels, self.now);
                    caller
                }
                Err(refused) => {
                    self.counts.refused += 1;
                    // If the stream has ended meanwhile, no answer is needed.
                    let _ = reply.send(Err(refused));
                    return;
                }
            },
        };
        let keys = self.names(caller, keys);
        let _ = reply.send(Ok(SessionOpened {
            edge: caller.edge,
            drift: self.state.drift(),
            report_every: self.options.client_report_every,
            keys,
        }));
    }

    fn begin_session(&mut self) -> Result<aliquot_core::unit::Edge, Refused> {
        let not_serving = |reason: &str| Refused::NotServing {
            reason: reason.to_owned(),
        };
        if self.departs {
            return Err(Refused::Stopping);
        }
        let Some(node) = &mut self.node else {
            let reason = match self.status.formed {
                true => "it has not joined the cluster yet",
                false => "the cluster is not formed yet",
            };
            return Err(not_serving(reason));
        };
        let opened = node.open_session(self.now);
        opened.ok_or_else(|| not_serving("it has no more names for clients; restart it"))
    }

    fn is_open(&self, client: Incarnation) -> bool {
        let node = self.node.as_ref();
        node.is_some_and(|node| node.ledger().child(client).is_some())
    }

    /// Returns the names of keys, and requests the budgets that do not exist yet. Beyond `KEYS_A_TURN`
    /// keys, the rest is looked up in later turns.
    fn names(&mut self, caller: Caller, mut keys: Vec<Key>) -> Vec<Interned> {
        if keys.len() > KEYS_A_TURN {
            let rest = keys.split_off(KEYS_A_TURN);
            self.pending.unresolved_keys += rest.len();
            self.pending.unresolved.push_back((caller, rest));
        }
        let mut names = Vec::with_capacity(keys.len());
        for key in keys {
            let state = &self.state;
            let client = caller.edge.child;
            let Ok(interned) = self.sessions.intern(client, key, |key| name(state, key)) else {
                // The session's edge was closed meanwhile.
                break;
            };
            let waits = interned.budget == Err(KeyRefusal::NotYet);
            if waits && !self.pending.wanted.want(&interned.key) {
                self.counts.keys_shed += 1;
            }
            names.push(interned);
        }
        names
    }

    fn tell_names(&mut self, caller: Caller, keys: Vec<Key>) {
        let names = self.names(caller, keys);
        let names = NodeMessage::Interned(names);
        self.sessions.send(caller.edge.child, names);
    }

    /// Looks up the next keys that sessions asked about.
    pub(super) fn name_more(&mut self) {
        let Some((caller, keys)) = self.pending.unresolved.pop_front() else {
            return;
        };
        self.pending.unresolved_keys -= keys.len();
        if self.sessions.is_current(&caller) {
            self.tell_names(caller, keys);
        }
    }

    /// Requests the budgets that clients wait for, many at once.
    pub(super) fn ask_for_keys(&mut self) {
        let Some(raft) = &self.raft else { return };
        let state = &self.state;
        let waits = |key: &Key| name(state, key) == Err(KeyRefusal::NotYet);
        while let Some(batch) = self.pending.wanted.take(self.now, waits) {
            let number = batch.number;
            let command = Command::Instantiate {
                keys: batch.keys.iter().map(ToString::to_string).collect(),
                creator: self
                    .node
                    .as_ref()
                    .map(aliquot_core::node::Node::incarnation),
            };
            let entry = match entry(command) {
                Ok(entry) => entry,
                Err(error) => {
                    tracing::error!(%error, "new keys were not proposed: the command cannot be decoded");
                    self.pending.wanted.landed(number, self.now, &mut self.rng);
                    continue;
                }
            };
            let proposed = raft.propose_anywhere(entry, TRY_FOR);
            let control = self.control.clone();
            tokio::spawn(async move {
                if let Err(error) = proposed.await {
                    tracing::debug!(%error, "new keys were not taken yet");
                }
                // If the actor is gone, no batch is waited for.
                let _ = control.send(Control::Instantiated { batch: number });
            });
        }
    }

    /// Records that the proposal of a batch of new keys has ended.
    pub(super) fn batch_landed(&mut self, batch: u64) {
        self.pending.wanted.landed(batch, self.now, &mut self.rng);
    }

    /// Tells sessions of names that entries may have changed. After a few, the next refresh follows at
    /// once. After many there is a pause, and changes that come meanwhile are told together.
    pub(super) fn refresh_names(&mut self) {
        let stale = &mut self.pending.stale;
        if stale.is_empty() || self.now < self.pending.quiet {
            return;
        }
        let state = &self.state;
        let keys = std::mem::take(&mut stale.keys);
        let mut told = self
            .sessions
            .refresh_keys(keys.iter(), |key| name(state, key));
        if let Some(after) = stale.sweep.take() {
            let after = after.as_ref();
            let (more, last) = self
                .sessions
                .refresh_after(after, KEYS_A_TURN, |key| name(state, key));
            stale.swept(last);
            told += more;
        }
        let told = u64::try_from(told).unwrap_or(u64::MAX);
        self.pending.quiet = self.now.after(NAMES.times_or_max(told));
    }

    fn take_report(&mut self, caller: Caller, report: &Report) {
        let Some(session) = self.sessions.get(caller.edge.child) else {
            return;
        };
        self.counts.reports += 1;
        // The weight and band follow from the budget's rules, whatever the client claims.
        if let Some(node) = &mut self.node {
            let state = &self.state;
            let rules = |budget| {
                let generation = state.budget(budget)?;
                Some(generation.budget.claim(session.labels()))
            };
            node.handle_report_under(report, self.now, rules, |budget| state.has_ended(budget));
        }
    }

    /// Recomputes the weights and bands of a budget's clients after its rules may have changed. The
    /// demand that they reported stays, because steady clients do not report it again.
    pub(super) fn reweigh(&mut self, budget: BudgetId) {
        let (sessions, generation) = (&self.sessions, self.state.budget(budget));
        if let (Some(node), Some(generation)) = (&mut self.node, generation) {
            node.reweigh(budget, |client| {
                let session = sessions.get(client)?;
                Some(generation.budget.claim(session.labels()))
            });
        }
    }

    /// Passes on an answer of the node's state machine to a client.
    pub(super) fn answer_client(&mut self, answer: aliquot_core::message::Answer) {
        let client = answer.edge.child;
        self.counts.answers += 1;
        let closed = answer.verdict == Verdict::Closed;
        self.sessions.send(client, NodeMessage::Answer(answer));
        if closed {
            self.sessions.remove(client, None);
        }
    }

    /// Drops sessions whose leases have expired, and balances those that are left.
    pub(super) fn keep_sessions(&mut self) {
        if self.now.since(self.pending.swept) >= SWEEP {
            self.pending.swept = self.now;
            if let Some(node) = &self.node {
                let open = |client| node.ledger().child(client).is_some();
                let part = self.sessions.len().div_ceil(SWEEP_PARTS);
                self.sessions.sweep(part, open);
            }
        }
        let due = self.now.since(self.pending.rebalanced) >= REBALANCE;
        if due {
            self.pending.rebalanced = self.now;
        }
        match (self.departs, due) {
            (false, true) => self.rebalance_sessions(),
            (false, false) => {}
            (true, due) => {
                if due {
                    // A client that could not connect to the node that it was sent to is sent to
                    // another one.
                    self.sessions.forget_asked();
                }
                self.redirect_clients();
            }
        }
    }

    fn rebalance_sessions(&mut self) {
        let others = self.serving_nodes();
        let own = self.sessions.staying(self.now);
        for redirect in self.rebalancer.round(own as u64, &others) {
            let count = usize::try_from(redirect.sessions).unwrap_or(usize::MAX);
            let asked = self
                .sessions
                .ask_to_move(count, &redirect.address, self.now);
            self.counts.moved += asked as u64;
            tracing::debug!(asked, to = %redirect.address, "clients were asked to move");
        }
    }

    /// Returns the other nodes that take clients now and were heard from lately. Each is listed in its
    /// latest incarnation only: earlier ones, those of this node too, may not be reclaimed yet.
    fn serving_nodes(&self) -> Vec<ServingNode> {
        let records = self.book.records();
        let presences = records
            .filter(|record| record.value().head.topic == Topic::Presence)
            .filter_map(|record| record.value().presence().ok())
            .map(aliquot_wire::Sealed::into_value);
        let mut latest = BTreeMap::new();
        for presence in presences {
            if let Some(member) = self.state.member(presence.incarnation) {
                let node: &mut Presence = latest.entry(member.node).or_default();
                if presence.incarnation > node.incarnation {
                    *node = presence;
                }
            }
        }
        latest.remove(&self.options.node);
        let nodes = latest.into_values();
        let mut nodes: Vec<ServingNode> = nodes
            .filter(|presence| !presence.address.is_empty())
            .filter(|presence| self.rebalancer.hears(presence.incarnation, self.now))
            .map(|presence| ServingNode {
                incarnation: presence.incarnation,
                address: presence.address,
                sessions: presence.sessions,
            })
            .collect();
        nodes.sort_unstable_by_key(|node| node.incarnation);
        nodes
    }

    /// Asks the clients of this leaving node to move, spread over the other nodes.
    fn redirect_clients(&mut self) {
        let nodes = self.serving_nodes();
        let batch = (self.sessions.connected() / LEAVE_ONE_IN).max(4);
        for node in &nodes {
            let count = batch.div_ceil(nodes.len());
            self.sessions.ask_to_move(count, &node.address, self.now);
        }
    }
}
