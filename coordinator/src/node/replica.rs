//! The replica: applies committed entries, and carries their effects to sessions, records and state
//! machines.

use super::actor::Actor;
use crate::config::SkipEntry;
use crate::raft::{Committed, Halt, MachineError, Outcome, checksum};
use crate::session::{Rebalancer, Refused};
use aliquot_core::command::Command;
use aliquot_core::message::{Answer, Heard, Verdict};
use aliquot_core::node::Node;
use aliquot_core::planted::{self, Bug};
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Incarnation, Seq, Span, Term};
use aliquot_wire::Wire;
use aliquot_wire::log::LogEntry;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Entries that are being applied, a slice of the actor's time at once.
pub(super) struct Applying {
    entries: std::vec::IntoIter<Committed>,
    outcomes: Vec<Outcome>,
    reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
}

impl Applying {
    pub(super) fn new(
        entries: Vec<Committed>,
        reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
    ) -> Self {
        Self {
            outcomes: Vec::with_capacity(entries.len()),
            entries: entries.into_iter(),
            reply,
        }
    }
}

impl Actor {
    /// Applies entries in order, as many as fit into a slice. The reply follows the last entry.
    ///
    /// An entry that this version cannot read stops the node. To skip it would make this replica differ
    /// from the others.
    pub(super) fn apply_on(&mut self) {
        let Some(mut applying) = self.applying.take() else {
            return;
        };
        for entry in applying.entries.by_ref() {
            match self.apply(entry) {
                Ok(outcome) => applying.outcomes.push(outcome),
                Err(error) => {
                    let _ = applying.reply.send(Err(error));
                    return;
                }
            }
            if self.slice_is_over() {
                break;
            }
        }
        self.end_own_incarnation();
        self.warm_up();
        match applying.entries.len() {
            0 => {
                let _ = applying.reply.send(Ok(applying.outcomes));
            }
            _ => self.applying = Some(applying),
        }
    }

    fn apply(&mut self, entry: Committed) -> Result<Outcome, MachineError> {
        let command = match entry.command {
            Some(bytes) => read(entry.index, bytes)?,
            None => None,
        };
        let effects = self.state.apply(entry.index, command.as_ref());
        let term = Term::new(entry.term);
        let machine = self.leadership.machine_mut();
        machine.applied(term, command.as_ref(), &effects, &self.state, self.now);
        self.leadership.log_when_ready(self.now);
        for effect in &effects {
            self.follow(effect);
            if let Some(budget) = effect.ended() {
                self.forget(budget);
            }
        }
        self.counts.applied += 1;
        self.tell_writers(command.as_ref(), &effects);
        Ok(Arc::new(effects))
    }

    /// Replaces the state by that of a snapshot, and returns the former state.
    pub(super) fn restore(&mut self, state: Box<State>) -> Box<State> {
        let mut former = state;
        if self.state.applied() == 0 || !planted::is(Bug::SnapshotUnread) {
            std::mem::swap(&mut self.state, &mut former);
        }
        // A snapshot has no effects to follow, so everything derived from the state is computed again.
        self.adopt_settings();
        self.end_own_incarnation();
        self.pending.stale.all();
        if let Some(node) = &mut self.node {
            node.sweep(|budget| self.state.has_ended(budget));
        }
        let budgets: Vec<_> = self.state.budgets().map(|(budget, _)| budget).collect();
        for budget in budgets {
            self.reweigh(budget);
        }
        former
    }

    fn adopt_settings(&mut self) {
        if let Some(node) = &mut self.node {
            node.set_drift(self.state.drift());
            node.set_lease(self.state.lease());
        }
    }

    /// Goes on as another incarnation, which holds nothing yet.
    fn joined(&mut self, incarnation: Incarnation) {
        tracing::info!(incarnation = incarnation.get(), "joined");
        let mut machine = Node::new(incarnation, self.state.drift());
        machine.set_lease(self.state.lease());
        self.book.set_incarnation(incarnation);
        self.node = Some(machine);
        self.send_times.begin_incarnation(self.now);
        self.rebalancer = Rebalancer::new(incarnation);
        self.sessions.clear(&Refused::Lapsed);
    }

    fn follow(&mut self, effect: &Effect) {
        if let Some(incarnation) = self.join.follow(effect, &mut self.rng) {
            self.joined(incarnation);
        }
        match effect {
            Effect::Leaving(incarnation)
                if self
                    .node
                    .as_ref()
                    .is_some_and(|it| it.incarnation() == *incarnation) =>
            {
                tracing::info!("removed: this node hands back what it has");
                self.depart();
            }
            Effect::Configured => self.adopt_settings(),
            Effect::RuleChanged(_) => self.pending.stale.all(),
            // The key of a generation that ended has no budget any more, but sessions may still have
            // its name.
            Effect::Ended(budget) => {
                if let Some(key) = self.sessions.key_of(*budget) {
                    self.pending.stale.key(key);
                }
            }
            Effect::Created { budget, .. } | Effect::Restarted { budget, .. } => {
                self.renamed(*budget);
            }
            Effect::Changed(budget) => {
                self.renamed(*budget);
                self.reweigh(*budget);
            }
            Effect::Reclaimed(incarnation) => self.book.forget(*incarnation),
            _ => {}
        }
    }

    /// Drops everything about a generation that has ended.
    fn forget(&mut self, budget: BudgetId) {
        self.traffic.forget(budget);
        if let Some(node) = &mut self.node {
            node.forget(budget);
        }
    }

    /// Takes no new clients from now on, and begins to hand back all tokens.
    pub(super) fn depart(&mut self) {
        if let Some(node) = &mut self.node {
            node.leave(self.now);
        }
        self.departs = true;
        // A client that was asked to move before, and stayed, is asked again.
        self.sessions.forget_asked();
    }

    /// Marks a generation's key as one whose name may have changed.
    fn renamed(&mut self, budget: BudgetId) {
        if let Some(generation) = self.state.budget(budget) {
            self.pending.stale.key(&generation.key);
        }
    }

    /// Closes this node's incarnation if the log has ended it. Its reports would be stored by no node,
    /// so that no leader could tell it.
    fn end_own_incarnation(&mut self) {
        let Some(node) = &mut self.node else { return };
        let incarnation = node.incarnation();
        if self.state.member(incarnation).is_none() && self.state.has_issued(incarnation) {
            let over = Answer {
                edge: node.holder().edge(),
                number: Heard::default(),
                answers: Seq::new(0),
                taken: Seq::new(0),
                lease: Span::ZERO,
                verdict: Verdict::Closed,
                lines: Vec::new(),
            };
            node.handle_answer(&over, self.now);
        }
    }
}

fn read(index: u64, bytes: Bytes) -> Result<Option<Command>, MachineError> {
    match LogEntry::from_bytes(bytes.clone()) {
        Ok(entry) => Ok(entry.command),
        Err(error) => Err(MachineError::Halted(Halt::Entry {
            entry: SkipEntry {
                index,
                checksum: checksum(&bytes),
            },
            reason: error.to_string(),
        })),
    }
}
