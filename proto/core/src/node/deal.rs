//! Dealing: divides the node's part of a budget among its clients.

use super::Node;
use crate::edge::Vector;
use crate::ledger::{Scarce, WholeView, Wish};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Incarnation, Span, Tick, Tokens};
use alloc::vec::Vec;

impl Node {
    /// Time without a report after which a client is granted nothing more and asked for nothing: five reports
    /// at the usual 200 ms.
    const SILENCE: Span = Span::from_secs(1);

    /// Time for which a small difference between a client's part and its planned part is left alone: until
    /// the next report, which may remove the difference.
    pub const HELD_BACK: Span = Span::from_millis(200);

    /// Plans the given budgets and books the grants. A grant is booked before its client is told.
    ///
    /// An answer that no report asked for costs as much as one that was asked for. So clients are told at
    /// once only of urgent changes, and of small ones with the answer to their next report.
    pub(super) fn deal(&mut self, budgets: Vec<BudgetId>, now: Tick) {
        for budget in budgets {
            let Some(view) = self.view(budget) else {
                continue;
            };
            let Some(desk) = self.desks.get(&budget) else {
                continue;
            };
            let plan = self.ledger.plan(budget, &desk.account, &view, now);
            self.planning.spend(plan.seats);
            let hurried = |child: &Incarnation| plan.hurried.binary_search(child).is_ok();
            self.told.extend(plan.recalled.into_iter().filter(hurried));
            for wish in plan.wishes {
                let child = wish.child;
                if self.grant(budget, wish, now) && hurried(&child) {
                    self.told.insert(child);
                }
            }
        }
    }

    fn view(&self, budget: BudgetId) -> Option<WholeView> {
        let desk = self.desks.get(&budget)?;
        let holding = self.holder.holding(budget);
        Some(WholeView {
            terms: desk.terms.dividing,
            scale: desk.terms.scale,
            owed: self.holder.owed(budget),
            ceiling: desk.terms.ceiling,
            // Floors are granted only out of the floor that the node's own edge has.
            floors: Share {
                rate: holding.floor_rate,
                burst: holding.floor_burst,
                tokens: Tokens::ZERO,
            },
            silence: Self::SILENCE,
            held_back: Self::HELD_BACK,
            scarce: Scarce::Kept,
            // Returns at the end of a period are requested by the leader, not planned here.
            rest: None,
            gathered: desk.terms.gathered,
        })
    }

    /// Books a planned grant. Returns true if it was booked.
    fn grant(&mut self, budget: BudgetId, wish: Wish, now: Tick) -> bool {
        let Some(desk) = self.desks.get_mut(&budget) else {
            return false;
        };
        let mut more = wish.more;
        if desk.terms.kind == Kind::Rate
            && let Some(pool) = &mut desk.pool
        {
            more = Vector {
                floor_rate: more.floor_rate,
                floor_burst: more.floor_burst,
                ..Vector::of(pool.draw(more.rate, more.burst, now))
            };
        }
        let before = desk.account.counters(wish.child).given;
        let period = desk.account.period();
        let granted = before
            .plus(more)
            .and_then(|given| desk.account.grant(wish.child, period, given).ok());
        if granted.is_some() {
            if let Some(session) = self.sessions.get_mut(&wish.child) {
                session.given.insert(budget);
            }
            self.ledger.tell_child(wish.child, budget);
        }
        self.refit(budget, now);
        granted.is_some()
    }
}
