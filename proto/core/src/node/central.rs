//! Central decisions: requests decided here, out of the ungranted part of a budget.

use super::{BudgetState, Node};
use crate::budget::OnLeaseExpiry;
use crate::central::{Booked, DecisionReply, DecisionRequest, Outcome, Reason, Release, Route};
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::state::State;
use crate::unit::{BudgetId, Edge, Incarnation, PeriodId, Span, Tick, Tokens};

/// Action that the shell must take for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestAction {
    /// Send this reply to the client.
    Reply(DecisionReply),
    /// Ask the key's home, and send its reply to the client. If the home cannot be reached, the outcome is
    /// unknown: the client repeats its request.
    Forward {
        /// Incarnation of the home.
        to: Incarnation,
        /// The request, marked as forwarded.
        ask: DecisionRequest,
    },
}

/// Action that the shell must take for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Released {
    /// None: the release was handled here.
    Done,
    /// Pass the release on to the node that booked the permits.
    Forward {
        /// Incarnation of that node.
        to: Incarnation,
        /// The release, marked as forwarded.
        release: Release,
    },
}

impl Node {
    /// Retry delay if only another node or client can help: the time of a leader's round, or of a report that
    /// gives something back.
    const ASK_AGAIN: Span = Span::from_millis(100);

    /// Decides a request that came from a client, or from the client's node.
    ///
    /// `state` is this node's replica, which knows the home of each key.
    pub fn handle_ask(&mut self, ask: &DecisionRequest, state: &State, now: Tick) -> RequestAction {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        if ask.route == Route::Direct && !self.promises(ask.edge, now) {
            let refused = Outcome::refused(Reason::NoLease, Some(Self::ASK_AGAIN));
            return RequestAction::Reply(ask.reply(refused));
        }
        if let Some(outcome) = self.memory.recall(ask) {
            return RequestAction::Reply(ask.reply(outcome));
        }
        let home = state.home_of(ask.budget);
        let cost = match cost_of(ask, state) {
            Ok(cost) => cost,
            Err(reason) => return self.refuse_for_good(ask, reason, (home, state), now),
        };
        if ask.route == Route::Direct && ask.kind == Kind::Rate && !self.is_kept(ask.budget) {
            self.ledger.asked(ask.edge.child, ask.budget, now);
        }
        let held = self.holder.holding(ask.budget).capacity(ask.kind);
        if home != Some(self.incarnation()) && held < cost {
            match (ask.route, home) {
                (Route::Direct, Some(to)) => return forward(ask, to),
                (Route::Forwarded, Some(to)) if planted::is(Bug::ForwardedTwice) => {
                    return forward(ask, to);
                }
                (Route::Forwarded, home) => {
                    return RequestAction::Reply(ask.reply(Outcome::Moved { home }));
                }
                // No node holds a part of the budget yet.
                (Route::Direct, None) => {}
            }
        }
        let outcome = self.decide(ask, cost, now);
        if outcome.is_decided() {
            self.memory.remember(ask.edge, ask.request, outcome, now);
        }
        let known = outcome.is_decided() && !self.recalls(ask, cost, outcome, now);
        let left = known.then(|| self.left(ask.budget, now));
        RequestAction::Reply(DecisionReply {
            left: left.flatten(),
            ..ask.reply(outcome)
        })
    }

    /// Refuses a cost that is never admitted. Where it is more than there ever is, it is a look at what is left: the
    /// home reports that; nothing can be taken, and no part moves.
    fn refuse_for_good(
        &self,
        ask: &DecisionRequest,
        reason: Reason,
        (home, state): (Option<Incarnation>, &State),
        now: Tick,
    ) -> RequestAction {
        let looks = matches!(reason, Reason::ExceedsBurst(_));
        match home.filter(|home| looks && *home != self.incarnation()) {
            Some(to) if ask.route == Route::Direct => forward(ask, to),
            _ => RequestAction::Reply(DecisionReply {
                left: looks.then(|| self.left_of(ask, state, now)).flatten(),
                ..ask.reply(Outcome::refused(reason, None))
            }),
        }
    }

    /// Returns the whole tokens, or permits, that are ungranted here or at the leader. Of a rate the leader's level is
    /// not known here.
    fn left_of(&self, ask: &DecisionRequest, state: &State, now: Tick) -> Option<u64> {
        let here = self.left(ask.budget, now);
        let generation = state.budget(ask.budget)?;
        let free = generation.account.free();
        let ungranted = match ask.kind {
            Kind::Rate => return here,
            Kind::Quota => free.tokens,
            Kind::Concurrency => free.burst,
        };
        let ungranted = generation.budget.scale().whole(ungranted);
        Some(here.unwrap_or(0).saturating_add(ungranted))
    }

    /// Returns true if a request was refused because others hold what it lacks: sessions of this node, or other nodes.
    /// It may come back within a moment, so the tokens that are ungranted here are not all that is left.
    fn recalls(&self, ask: &DecisionRequest, cost: Tokens, outcome: Outcome, now: Tick) -> bool {
        let Outcome::Refused {
            reason: Reason::Spent,
            retry_after: Some(retry),
        } = outcome
        else {
            return false;
        };
        let pool = || self.budgets.get(&ask.budget)?.pool.as_ref();
        match ask.kind {
            Kind::Rate => pool().is_none_or(|pool| pool.share_at(now).burst < cost),
            Kind::Quota => retry == Self::ASK_AGAIN,
            Kind::Concurrency => false,
        }
    }

    /// Returns the whole tokens, or permits, of a budget that are ungranted here.
    fn left(&self, budget: BudgetId, now: Tick) -> Option<u64> {
        let budget_state = self.budgets.get(&budget)?;
        let free = budget_state.account.free();
        let left = match budget_state.terms.kind {
            Kind::Rate => budget_state.pool.as_ref()?.share_at(now).tokens,
            Kind::Quota => free.tokens,
            Kind::Concurrency => free.burst,
        };
        Some(budget_state.terms.scale.whole(left))
    }

    /// Returns true if clients go on with their parts after their leases. Then even small parts are theirs: a
    /// client could go on with nothing of a part that stays here.
    fn is_kept(&self, budget: BudgetId) -> bool {
        let found = self.budgets.get(&budget);
        found.is_some_and(|found| found.terms.on_lease_expiry == OnLeaseExpiry::Keep)
    }

    /// Returns true if this node gave the session a lease that is not over.
    fn promises(&self, edge: Edge, now: Tick) -> bool {
        if planted::is(Bug::LapsedSessionServed) {
            return true;
        }
        let session = self.sessions.get(&edge.child);
        edge.parent == self.incarnation()
            && session
                .is_some_and(|session| session.last_confirmed.is_some() && now < session.promised)
    }

    /// Decides a request out of the ungranted part. The cost of an admitted request is taken at once.
    fn decide(&mut self, ask: &DecisionRequest, cost: Tokens, now: Tick) -> Outcome {
        if !self.is_leased(now) {
            return Outcome::refused(Reason::NoLease, Some(Self::ASK_AGAIN));
        }
        if !self.memory.has_room() {
            return Outcome::refused(Reason::Busy, Some(Self::ASK_AGAIN));
        }
        let (incarnation, patience) = (self.incarnation(), self.patience());
        let retry = self.quota_retry(ask.budget, now);
        let Some(budget_state) = self.budgets.get_mut(&ask.budget) else {
            return Outcome::refused(Reason::Spent, Some(Self::ASK_AGAIN));
        };
        let hold = match ask.kind {
            Kind::Concurrency => budget_state.terms.max_hold,
            Kind::Rate | Kind::Quota => Span::ZERO,
        };
        let taken = match ask.kind {
            Kind::Rate => budget_state.take(ask, cost, now),
            Kind::Quota => budget_state.account.spend_free(cost).map_err(|_| retry),
            Kind::Concurrency => budget_state
                .account
                .book_central(cost)
                .map(|()| budget_state.account.period())
                .map_err(|_| Self::ASK_AGAIN),
        };
        let period = match taken {
            Ok(period) => period,
            Err(retry) => return Outcome::refused(Reason::Spent, Some(retry)),
        };
        if ask.kind == Kind::Concurrency {
            let booked = Booked {
                budget: ask.budget,
                permits: cost,
                until: now.after(patience.plus_or_max(hold)),
            };
            self.memory.book(ask.edge, ask.request, booked);
        }
        if ask.kind == Kind::Quota {
            // The node has that much less to deal, so the budget is planned again.
            self.ledger.touch(ask.budget);
            self.spent.insert(ask.budget);
        }
        Outcome::Admitted {
            by: incarnation,
            period,
            hold,
        }
    }

    /// Returns the retry delay of a quota of which there is too little here: the rest of its period if nothing more
    /// comes before, from the leader or from a session.
    fn quota_retry(&self, budget: BudgetId, now: Tick) -> Span {
        let returning = self.budgets.get(&budget).is_some_and(|of| of.returning);
        let end = self.holder.period_end(budget);
        let rest = end.filter(|end| end.exhausted && !returning && now < end.at);
        rest.map_or(Self::ASK_AGAIN, |end| end.at.since(now))
    }

    /// Takes permits back, or cancels a request that may not have arrived yet. Idempotent.
    pub fn handle_release(&mut self, release: &Release, now: Tick) -> Released {
        if release.by != self.incarnation() {
            return match release.route {
                Route::Direct => Released::Forward {
                    to: release.by,
                    release: Release {
                        route: Route::Forwarded,
                        ..*release
                    },
                },
                // That incarnation is over, and its permits with it.
                Route::Forwarded => Released::Done,
            };
        }
        let booked = self.memory.release(release.edge, release.request, now);
        if let Some(booked) = booked {
            self.free_permits(booked, now);
        }
        Released::Done
    }

    fn free_permits(&mut self, booked: Booked, now: Tick) {
        let Some(budget_state) = self.budgets.get_mut(&booked.budget) else {
            return;
        };
        budget_state.account.release_central(booked.permits);
        self.refit(booked.budget, now);
        let owed = match self.is_leased(now) {
            true => self.holder.owed(booked.budget),
            // A node whose lease has lapsed returns everything that it can.
            false => self.holder.holding(booked.budget),
        };
        self.give_back(booked.budget, owed, now);
        self.ledger.touch(booked.budget);
    }

    /// Frees permits whose maximum hold is over, and forgets old decisions.
    pub(super) fn expire_central(&mut self, now: Tick) {
        for booked in self.memory.take_overdue(now) {
            self.free_permits(booked, now);
        }
        self.memory.forget(now, self.patience());
    }

    /// Returns the permits of a budget that are given out in central mode.
    #[must_use]
    pub fn central_permits(&self, budget: BudgetId) -> Tokens {
        let booked = self.memory.booked().filter(|of| of.budget == budget);
        let sum = booked.fold(0_u64, |sum, of| sum.saturating_add(of.permits.grains()));
        Tokens::from_grains(sum)
    }
}

impl BudgetState {
    /// Takes tokens of a rate budget, unless they are left for another session.
    ///
    /// # Errors
    ///
    /// The retry delay, if the tokens cannot be taken now.
    fn take(&mut self, ask: &DecisionRequest, cost: Tokens, now: Tick) -> Result<PeriodId, Span> {
        let period = self.account.period();
        let pool = self.pool.as_mut().ok_or(Node::ASK_AGAIN)?;
        let queue = self.queue.get_or_insert_default();
        queue.take(pool, ask, cost, now).map(|()| period)
    }
}

/// Returns the cost in grains, or the reason why it can never be admitted.
fn cost_of(ask: &DecisionRequest, state: &State) -> Result<Tokens, Reason> {
    let generation = state.budget(ask.budget).ok_or(Reason::NoBudget)?;
    if generation.budget.kind() != ask.kind {
        return Err(Reason::OtherKind);
    }
    let scale = generation.budget.scale();
    let largest = state.largest_cost(ask.budget).unwrap_or(Tokens::ZERO);
    match scale.tokens(ask.cost.get()) {
        Ok(cost) if cost <= largest => Ok(cost),
        _ => Err(Reason::ExceedsBurst(scale.whole(largest))),
    }
}

fn forward(ask: &DecisionRequest, to: Incarnation) -> RequestAction {
    let route = Route::Forwarded;
    let ask = DecisionRequest { route, ..*ask };
    RequestAction::Forward { to, ask }
}
