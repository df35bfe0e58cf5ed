//! Client sessions: opening them, taking their reports, and sending them what the core decides.
//!
//! ```text
//!  stream ── Event ──► Sessions ── reports, requests ──► core ── Answer ──► Sessions ──► Outbox
//! ```

use super::balance::Balance;
use super::context::Context;
use super::key_names::KeyNames;
use super::member_addresses::MemberAddresses;
use super::report_coalescer::ReportCoalescer;
use crate::gossip::Book;
use crate::session::{Caller, Opening, Registry, StreamEnd};
use aliquot_core::budget::Key;
use aliquot_core::message::{Answer, Report, Verdict};
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::{BudgetId, Edge, Incarnation, Span, Tick};
use aliquot_wire::session::{NodeMessage, SessionOpen, SessionOpened};

/// The sessions of this node, the names of their keys, and their balance with other nodes.
#[derive(Debug)]
pub(super) struct Sessions {
    registry: Registry,
    pub(super) names: KeyNames,
    pub(super) balance: Balance,
    members: MemberAddresses,
    coalescer: ReportCoalescer,
    swept: Tick,
}

/// Interval at which one part of the sessions is checked for closed ones, and number of parts after
/// which all of them have been checked.
const SWEEP: Span = Span::from_millis(20);
const SWEEP_PARTS: usize = 10;

/// Maximum number of keys of removed sessions that are forgotten in one turn of the loop. Forgetting one takes one to
/// five microseconds.
const FORGOTTEN_A_TURN: usize = 512;

impl Sessions {
    pub(super) fn new(keys_max: usize, now: Tick) -> Self {
        Self {
            registry: Registry::new(keys_max),
            names: KeyNames::default(),
            balance: Balance::new(),
            members: MemberAddresses::default(),
            coalescer: ReportCoalescer::new(now),
            swept: Tick::ZERO,
        }
    }

    /// Returns the table of sessions.
    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns true if events of streams are read now.
    pub(super) fn listens(&self, now: Tick) -> bool {
        now >= self.coalescer.next() && self.names.has_room()
    }

    /// Returns the time at which sessions have work even if no event arrives: keys that wait to be looked
    /// up or forgotten, or the end of the pause in which reports are collected.
    pub(super) fn due(&self, now: Tick) -> Option<Tick> {
        let reports = Some(self.coalescer.next()).filter(|&at| at > now);
        let behind = self.names.is_behind() || self.registry.has_keys_to_forget();
        let names = behind.then_some(now);
        [reports, names].into_iter().flatten().min()
    }

    /// Counts reports that were handled together, and all of their lines.
    pub(super) fn note_reports(&mut self, reports: u64, lines: u64, now: Tick) {
        self.coalescer.note(reports, lines, now);
    }

    /// Returns true if this stream still carries its session. Messages of other streams are ignored.
    pub(super) fn is_current(&self, caller: &Caller) -> bool {
        self.registry.is_current(caller)
    }

    /// Opens or resumes a session, and replies to its stream. A leaving node opens none.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        mut node: Option<&mut Node>,
        leaving: bool,
        state: &State,
        context: &mut Context,
    ) {
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
            wants_members,
            age,
            ..
        } = open;
        let caller = |edge| Caller { edge, stream };
        let is_open = |client| {
            let node = node.as_deref();
            node.is_some_and(|node| node.ledger().child(client).is_some())
        };
        let resumed = resume
            .map(caller)
            .filter(|caller| is_open(caller.edge.child))
            .filter(|&caller| self.registry.resume(caller, outbox.clone(), remote.clone()));
        let caller = match resumed {
            Some(caller) => caller,
            None => match begin(node.as_deref_mut(), leaving, age, context) {
                Ok(edge) => {
                    let caller = caller(edge);
                    self.registry
                        .open(caller, outbox, remote, labels, context.now);
                    caller
                }
                Err(end) => {
                    context.counts.refused += 1;
                    // If the stream has ended meanwhile, no answer is needed.
                    let _ = reply.send(Err(end));
                    return;
                }
            },
        };
        let registry = &mut self.registry;
        if wants_members {
            registry.follow_members(caller.edge.child, self.members.list());
        }
        let keys = self
            .names
            .names(caller, keys, registry, state, &mut context.counts);
        self.note_keys(caller, node, context);
        let _ = reply.send(Ok(SessionOpened {
            edge: caller.edge,
            drift: state.drift(),
            report_every: context.options.client_report_every,
            keys,
        }));
    }

    /// Tells a session the names of keys.
    pub(super) fn intern(
        &mut self,
        caller: Caller,
        keys: Vec<Key>,
        node: Option<&mut Node>,
        state: &State,
        context: &mut Context,
    ) {
        let registry = &mut self.registry;
        self.names
            .tell(caller, keys, registry, state, &mut context.counts);
        self.note_keys(caller, node, context);
    }

    /// Tells the state machine how many keys a session has asked for.
    fn note_keys(&self, caller: Caller, node: Option<&mut Node>, context: &Context) {
        let client = caller.edge.child;
        if let (Some(node), Some(session)) = (node, self.registry.get(client)) {
            node.note_keys(client, session.key_count(), context.now);
        }
    }

    /// Takes in a session's report.
    pub(super) fn report(
        &self,
        caller: Caller,
        report: &Report,
        node: Option<&mut Node>,
        state: &State,
        context: &mut Context,
    ) {
        let Some(session) = self.registry.get(caller.edge.child) else {
            return;
        };
        context.counts.reports += 1;
        // The weight and band follow from the budget's rules, whatever the client claims.
        if let Some(node) = node {
            let rules = |budget| {
                let generation = state.budget(budget)?;
                Some(generation.budget.claim(session.labels()))
            };
            let ended = |budget| state.has_ended(budget);
            node.handle_report_under(report, context.now, rules, ended);
        }
    }

    /// Notes that a stream has ended.
    pub(super) fn gone(&mut self, caller: &Caller) {
        self.registry.gone(caller);
    }

    /// Passes on an answer of the node's state machine to a client.
    pub(super) fn answer(&mut self, answer: Answer, context: &mut Context) {
        let client = answer.edge.child;
        context.counts.answers += 1;
        let closed = answer.verdict == Verdict::Closed;
        self.registry.send(client, NodeMessage::Answer(answer));
        if closed {
            self.registry.remove(client, None);
        }
    }

    /// Sends a message to a client, if its session is connected.
    pub(super) fn send(&self, client: Incarnation, message: NodeMessage) {
        self.registry.send(client, message);
    }

    /// Recomputes the weights and bands of a budget's clients after its rules may have changed. The
    /// demand that they reported stays, because steady clients do not report it again.
    pub(super) fn reweigh(&self, budget: BudgetId, node: Option<&mut Node>, state: &State) {
        if let (Some(node), Some(generation)) = (node, state.budget(budget)) {
            node.reweigh(budget, |client| {
                let session = self.registry.get(client)?;
                Some(generation.budget.claim(session.labels()))
            });
        }
    }

    /// Tells sessions the names that they wait for, and requests the budgets that do not exist yet.
    /// `own` is the incarnation of this node. Names that no session uses any more are forgotten.
    pub(super) fn settle(
        &mut self,
        own: Option<Incarnation>,
        state: &State,
        context: &mut Context,
    ) {
        let registry = &mut self.registry;
        registry.forget_keys(FORGOTTEN_A_TURN);
        self.names.tell_more(registry, state, &mut context.counts);
        self.names.refresh(registry, state, context.now);
        self.names.request_budgets(own, state, context);
    }

    /// Drops sessions whose leases have expired, and balances those that are left. Tells them which members
    /// the cluster has, if these changed.
    pub(super) fn keep(
        &mut self,
        node: Option<&Node>,
        leaving: bool,
        book: &Book,
        state: &State,
        context: &mut Context,
    ) {
        if context.now.since(self.swept) >= SWEEP {
            self.swept = context.now;
            if let Some(node) = node {
                let open = |client| node.ledger().child(client).is_some();
                let part = self.registry.len().div_ceil(SWEEP_PARTS);
                self.registry.sweep(part, open);
            }
        }
        let registry = &mut self.registry;
        if self.members.refresh(book, state, context) {
            registry.tell_members(self.members.list());
        }
        self.balance
            .keep((node, leaving), registry, book, state, context);
    }

    /// Marks the key by which sessions know a budget that has ended.
    pub(super) fn budget_ended(&mut self, budget: BudgetId) {
        if let Some(key) = self.registry.key_of(budget) {
            self.names.changed(key);
        }
    }

    /// Begins to move clients away. A client that was asked to move before, and stayed, is asked again.
    pub(super) fn depart(&mut self) {
        self.registry.forget_asked();
    }

    /// Starts anew for another incarnation of this node. All sessions end.
    pub(super) fn begin_incarnation(&mut self, incarnation: Incarnation) {
        self.balance.begin_incarnation(incarnation);
        self.clear(&StreamEnd::Lapsed);
    }

    /// Ends all sessions.
    pub(super) fn clear(&mut self, end: &StreamEnd) {
        self.registry.clear(end);
    }
}

fn begin(
    node: Option<&mut Node>,
    leaving: bool,
    age: Option<Span>,
    context: &Context,
) -> Result<Edge, StreamEnd> {
    let not_serving = |reason: &str| StreamEnd::NotServing {
        reason: reason.to_owned(),
    };
    if leaving {
        return Err(StreamEnd::Stopping);
    }
    let Some(node) = node else {
        let reason = match context.status.formed {
            true => "it has not joined the cluster yet",
            false => "the cluster is not formed yet",
        };
        return Err(not_serving(reason));
    };
    let opened = match age {
        Some(age) => node.open_session_aged(age, context.now),
        None => node.open_session(context.now),
    };
    opened.ok_or_else(|| not_serving("it has no more names for clients; restart it"))
}

#[cfg(test)]
#[path = "../../tests/unit/node/sessions.rs"]
mod tests;
