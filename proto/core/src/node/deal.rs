//! Dealing: the node's part among its clients.

use super::Node;
use crate::edge::Vector;
use crate::ledger::{Scarce, WholeView, Wish};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Span, Tick, Tokens};
use alloc::vec::Vec;

/// How much may be dealt now.
///
/// A node that is told more than it can plan must above all go on hearing its
/// clients, or it loses them all: what it spends on plans is bounded, and what
/// is left over waits.
#[derive(Debug, Default)]
pub(super) struct Effort {
    /// Seats that were planned and not yet worked off.
    spent: u64,
    since: Tick,
}

impl Effort {
    /// One claimant is planned in so long. As it takes half a microsecond to one, that
    /// is a tenth to a fifth of a core, whatever the number of clients.
    const SEAT: Span = Span::from_nanos(5_000);

    /// So many may be planned at once by a node that had a rest.
    const SEATS: u64 = 4_000;

    /// Seats that may be planned at `now`; zero if there were too many of late.
    pub(super) fn seats_at(&mut self, now: Tick) -> usize {
        let passed = now.since(self.since).nanos();
        let seats = passed.checked_div(Self::SEAT.nanos()).unwrap_or_default();
        self.spent = self.spent.saturating_sub(seats);
        self.since = self.since.after(Self::SEAT.times_or_max(seats));
        usize::try_from(Self::SEATS.saturating_sub(self.spent)).unwrap_or(usize::MAX)
    }

    /// So many were planned.
    fn spend(&mut self, seats: usize) {
        let seats = u64::try_from(seats).unwrap_or(u64::MAX);
        self.spent = self.spent.saturating_add(seats);
    }
}

impl Node {
    /// A client that has not reported for so long gets nothing more and is
    /// asked for nothing: five reports at the usual 200 ms.
    const SILENCE: Span = Span::from_secs(1);

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
            self.effort.spend(plan.seats);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_planned_is_worked_off_by_time_alone() {
        let at = |micros: u64| Tick::from_nanos(micros.saturating_mul(1_000));
        let mut effort = Effort::default();
        assert_eq!(effort.seats_at(at(1_000_000)), 4_000);
        effort.spend(3_999);
        assert_eq!(effort.seats_at(at(1_000_000)), 1);
        effort.spend(501);
        assert_eq!(effort.seats_at(at(1_002_499)), 0, "one was too large");
        assert_eq!(effort.seats_at(at(1_002_504)), 0);
        assert_eq!(effort.seats_at(at(1_002_505)), 1);
        assert_eq!(effort.seats_at(at(1_002_509)), 1, "no time is lost");
        assert_eq!(effort.seats_at(at(1_002_510)), 2);
        assert_eq!(
            effort.seats_at(at(1_000_000)),
            2,
            "nor gained by going back"
        );
        assert_eq!(effort.seats_at(at(9_000_000)), 4_000);
    }
}
