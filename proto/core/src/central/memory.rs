//! A node's memory of its central decisions.

use super::{DecisionRequest, Outcome, Reason};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Edge, RequestId, Span, Tick, Tokens};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Permits given out by a central decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Booked {
    /// The budget.
    pub budget: BudgetId,
    /// The number of permits.
    pub permits: Tokens,
    /// Time until which they stay booked if they are not released before.
    pub until: Tick,
}

/// Replies of one patience, and the permits that are given out.
///
/// State invariant: the number of a decided request is either remembered or at most `forgotten` of its edge.
/// So it is never decided again while the edge is known. Memory is at most [`Memory::VERDICTS_MAX`] replies,
/// and one entry for each edge with a request within two patiences.
#[derive(Debug, Default, Hash)]
pub struct Memory {
    verdicts: BTreeMap<(Edge, RequestId), Outcome>,
    order: VecDeque<(Tick, Edge, RequestId)>,
    /// For each edge the greatest request that was forgotten, and the time of that.
    forgotten: BTreeMap<Edge, (RequestId, Tick)>,
    booked: BTreeMap<(Edge, RequestId), Booked>,
}

impl Memory {
    /// Maximum number of remembered replies: 20,000 requests a second for a default lease of three seconds.
    /// At the maximum, a node decides nothing more.
    pub const VERDICTS_MAX: usize = 1 << 16;

    /// Returns the earlier reply to a request. A request that is older than the memory is void.
    #[must_use]
    pub fn recall(&self, ask: &DecisionRequest) -> Option<Outcome> {
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

    /// Returns true if another reply can be remembered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.order.len() < Self::VERDICTS_MAX
    }

    /// Remembers a reply.
    pub fn remember(&mut self, edge: Edge, request: RequestId, outcome: Outcome, now: Tick) {
        if self.verdicts.insert((edge, request), outcome).is_none() {
            self.order.push_back((now, edge, request));
        }
    }

    /// Books permits under a request.
    pub fn book(&mut self, edge: Edge, request: RequestId, booked: Booked) {
        self.booked.insert((edge, request), booked);
    }

    /// Removes and returns the permits booked under a request, once. The request is void from now on, even if
    /// it has not arrived yet.
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

    /// Removes and returns the permits whose time is over.
    #[must_use]
    pub fn take_overdue(&mut self, now: Tick) -> Vec<Booked> {
        let over = |booked: &Booked| now >= booked.until;
        let overdue: Vec<Booked> = self.booked.values().copied().filter(over).collect();
        self.booked.retain(|_, booked| !over(booked));
        overdue
    }

    /// Returns all permits that are given out.
    pub fn booked(&self) -> impl Iterator<Item = &Booked> {
        self.booked.values()
    }

    /// Forgets replies that are one patience old, and edges without a new one for another patience.
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
