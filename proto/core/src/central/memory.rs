//! What a node remembers of the questions it decided.

use super::{Ask, Outcome, Reason};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Edge, RequestId, Span, Tick, Tokens};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Permits that were given out centrally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Booked {
    /// Of which budget.
    pub budget: BudgetId,
    /// How many.
    pub permits: Tokens,
    /// Until when they stay booked, if they do not come back before.
    pub until: Tick,
}

/// Verdicts of one patience, and the permits that are out.
///
/// State invariant: a question that was decided is either remembered or at
/// most `forgotten` of its edge, so that it is never decided again while the
/// edge is known. Memory is at most [`Memory::VERDICTS_MAX`] verdicts, and one
/// entry per edge that asked within two patiences.
#[derive(Debug, Default, Hash)]
pub struct Memory {
    verdicts: BTreeMap<(Edge, RequestId), Outcome>,
    order: VecDeque<(Tick, Edge, RequestId)>,
    /// Per edge the greatest question that was forgotten, and when.
    forgotten: BTreeMap<Edge, (RequestId, Tick)>,
    booked: BTreeMap<(Edge, RequestId), Booked>,
}

impl Memory {
    /// So many verdicts are remembered: 20,000 questions a second for a
    /// default lease of three. Beyond that a node decides nothing.
    pub const VERDICTS_MAX: usize = 1 << 16;

    /// What was decided before. A question that is older than the memory is void.
    #[must_use]
    pub fn recall(&self, ask: &Ask) -> Option<Outcome> {
        if planted::is(Bug::RepeatDecidedAgain) {
            return None;
        }
        if let Some(&outcome) = self.verdicts.get(&(ask.edge, ask.request)) {
            return Some(outcome);
        }
        let forgotten = self.forgotten.get(&ask.edge);
        forgotten
            .is_some_and(|&(last, _)| ask.request <= last)
            .then_some(Outcome::refused(Reason::Void, None))
    }

    /// Whether another verdict can be remembered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.order.len() < Self::VERDICTS_MAX
    }

    /// Remembers a verdict.
    pub fn remember(&mut self, edge: Edge, request: RequestId, outcome: Outcome, now: Tick) {
        if self.verdicts.insert((edge, request), outcome).is_none() {
            self.order.push_back((now, edge, request));
        }
    }

    /// Books permits under a question.
    pub fn book(&mut self, edge: Edge, request: RequestId, booked: Booked) {
        self.booked.insert((edge, request), booked);
    }

    /// What is booked under a question comes back, once. The question is void
    /// from now on, even if it has not arrived yet.
    pub fn release(&mut self, edge: Edge, request: RequestId, now: Tick) -> Option<Booked> {
        let known = self.verdicts.contains_key(&(edge, request));
        if known || self.has_room() {
            let void = Outcome::refused(Reason::Void, None);
            self.remember(edge, request, void, now);
        }
        if planted::is(Bug::CentralReleasedTwice) {
            return self.booked.get(&(edge, request)).copied();
        }
        self.booked.remove(&(edge, request))
    }

    /// Permits whose time is over: they are booked no longer.
    #[must_use]
    pub fn take_overdue(&mut self, now: Tick) -> Vec<Booked> {
        let over = |booked: &Booked| now >= booked.until;
        let overdue: Vec<Booked> = self.booked.values().copied().filter(over).collect();
        self.booked.retain(|_, booked| !over(booked));
        overdue
    }

    /// All permits that are out, to look at.
    pub fn booked(&self) -> impl Iterator<Item = &Booked> {
        self.booked.values()
    }

    /// Forgets verdicts that are a patience old, and edges that were silent for another.
    pub fn forget(&mut self, now: Tick, patience: Span) {
        while let Some(&(at, edge, request)) = self.order.front()
            && now.since(at) > patience
        {
            self.order.pop_front();
            self.verdicts.remove(&(edge, request));
            let last = self.forgotten.entry(edge).or_insert((request, now));
            *last = (last.0.max(request), now);
        }
        self.forgotten
            .retain(|_, &mut (_, at)| now.since(at) <= patience);
    }
}
