//! Dealing: divides the node's part of a budget among its clients.

use super::Node;
use crate::edge::Vector;
use crate::ledger::{CentralPlacement, Dealing, GrantRequest, WholeView};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Edge, Incarnation, Rate, Span, Tick, Tokens};
use alloc::vec::Vec;

impl Node {
    /// Time without a report after which a client is granted nothing more and asked for nothing: five reports
    /// at the usual 200 ms.
    const SILENCE: Span = Span::from_secs(1);

    /// Time for which a small difference between a client's part and its planned part is left alone: until
    /// the next report, which may remove the difference.
    pub const HELD_BACK: Span = Span::from_millis(200);

    /// Plans the given budgets and books the grants. A grant is booked before it is sent to its client.
    ///
    /// An answer that no report asked for costs as much as one that was asked for. So clients are told at
    /// once only of urgent changes, and of small ones with the answer to their next report.
    pub(super) fn distribute(&mut self, budgets: Vec<BudgetId>, now: Tick) {
        for budget in budgets {
            let Some(view) = self.view(budget) else {
                continue;
            };
            let Some(budget_state) = self.budgets.get(&budget) else {
                continue;
            };
            let plan = self.ledger.plan(budget, &budget_state.account, &view, now);
            self.planning.spend(plan.candidates);
            let urgent = |child: &Incarnation| plan.urgent.binary_search(child).is_ok();
            self.notify_set
                .extend(plan.recalled.into_iter().filter(urgent));
            self.order(budget, plan.central, now);
            for request in plan.grant_requests {
                let child = request.child;
                if self.grant(budget, request, now) && urgent(&child) {
                    self.notify_set.insert(child);
                }
            }
            self.follow_exhaustion(budget, plan.returning);
        }
    }

    /// Tells all claimants of a quota when everything of its period is given away, by the leader and by this node,
    /// and when that has changed. It is judged after a plan and its grants, so that a part that comes back and is
    /// granted at once changes nothing.
    fn follow_exhaustion(&mut self, budget: BudgetId, returning: bool) {
        let end = self.holder.period_end(budget);
        let Some(budget_state) = self.budgets.get_mut(&budget) else {
            return;
        };
        if budget_state.terms.kind != Kind::Quota {
            return;
        }
        budget_state.returning = returning;
        let above = end.is_some_and(|end| end.exhausted);
        let exhausted = above && !returning && budget_state.account.free().tokens.is_zero();
        if exhausted != budget_state.exhausted {
            budget_state.exhausted = exhausted;
            self.ledger.tell(budget);
        }
    }

    /// Sets the parts of the sessions that are decided for centrally.
    fn order(&mut self, budget: BudgetId, parts: Vec<(Incarnation, Rate)>, now: Tick) {
        let parent = self.incarnation();
        let Some(budget_state) = self.budgets.get_mut(&budget) else {
            return;
        };
        if parts.is_empty() && budget_state.queue.is_none() {
            return;
        }
        let edge = |(child, rate)| (Edge { parent, child }, rate);
        let queue = budget_state.queue.get_or_insert_default();
        queue.set_parts(parts.into_iter().map(edge).collect());
        if queue.is_idle(now) {
            budget_state.queue = None;
        }
    }

    fn view(&self, budget: BudgetId) -> Option<WholeView> {
        let budget_state = self.budgets.get(&budget)?;
        let holding = self.holder.holding(budget);
        Some(WholeView {
            terms: budget_state.terms.dividing,
            scale: budget_state.terms.scale,
            owed: self.holder.owed(budget),
            ceiling: budget_state.terms.ceiling,
            // Floors are granted only out of the floor that the node's own edge has.
            floors: Share {
                rate: holding.floor_rate,
                burst: holding.floor_burst,
                tokens: Tokens::ZERO,
            },
            silence: Self::SILENCE,
            held_back: Self::HELD_BACK,
            placement: CentralPlacement::Here,
            // Returns at the end of a period are requested by the leader, not planned here.
            rest: None,
            dealing: Dealing::Whole,
            central_mode: budget_state.terms.central_mode,
        })
    }

    /// Books a planned grant. Returns true if it was booked.
    fn grant(&mut self, budget: BudgetId, request: GrantRequest, now: Tick) -> bool {
        let Some(budget_state) = self.budgets.get_mut(&budget) else {
            return false;
        };
        let mut more = request.more;
        if budget_state.terms.kind == Kind::Rate
            && let Some(pool) = &mut budget_state.pool
        {
            more = Vector {
                floor_rate: more.floor_rate,
                floor_burst: more.floor_burst,
                ..Vector::of(pool.draw(more.rate, more.burst, now))
            };
        }
        let before = budget_state.account.counters(request.child).given;
        let (kind, period) = (budget_state.account.kind(), budget_state.account.period());
        let granted = before.plus(more).and_then(|given| {
            budget_state
                .account
                .grant(request.child, period, given)
                .ok()
        });
        if granted.is_some() {
            let is_first = self.ledger.note_given(request.child, budget);
            if let Some(session) = self.sessions.get_mut(&request.child) {
                session.given = session.given.saturating_add(usize::from(is_first));
                session.was_given_permits |= kind == Kind::Concurrency;
            }
            self.ledger.tell_child(request.child, budget);
        }
        self.refit(budget, now);
        granted.is_some()
    }
}
