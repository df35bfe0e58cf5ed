//! Dealing: the node's part among its clients.

use super::Node;
use crate::edge::Vector;
use crate::ledger::{Scarce, WholeView, Wish};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Span, Tick, Tokens};
use alloc::vec::Vec;

impl Node {
    /// A client that has not reported for so long gets nothing more and is
    /// asked for nothing: five reports at the usual 200 ms.
    const SILENCE: Span = Span::from_secs(1);

    /// A small difference between what a client has and what it should have waits for so long: for
    /// the next report, which may say otherwise.
    pub const HELD_BACK: Span = Span::from_millis(200);

    /// Deals budgets in which something changed. A grant is booked before
    /// anybody is told of it.
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
            self.told.extend(plan.recalled);
            for wish in plan.wishes {
                self.grant(budget, wish, now);
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
            // Floors come only out of what the node's own edge has as floor.
            floors: Share {
                rate: holding.floor_rate,
                burst: holding.floor_burst,
                tokens: Tokens::ZERO,
            },
            silence: Self::SILENCE,
            held_back: Self::HELD_BACK,
            scarce: Scarce::Kept,
            gathered: desk.terms.gathered,
        })
    }

    fn grant(&mut self, budget: BudgetId, wish: Wish, now: Tick) {
        let Some(desk) = self.desks.get_mut(&budget) else {
            return;
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
            self.told.insert(wish.child);
            self.ledger.tell_child(wish.child, budget);
        }
        self.refit(budget, now);
    }
}
