//! The part of claims that the parent reports to its own parent: sums of demand, and returned parts.

use super::planning_queue::{PlanningQueue, SumScope};
use super::{Child, Claim, Ledger};
use crate::edge::{Counters, Vector};
use crate::unit::{BudgetId, Incarnation, PeriodId};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Bound;

/// The total that a child has returned of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Returned {
    /// The child.
    pub child: Incarnation,
    /// The budget.
    pub budget: BudgetId,
    /// The period of its tokens.
    pub period: PeriodId,
    /// The total so far.
    pub total: Vector,
}

impl Ledger {
    /// Returns the parts that children reported as returned and that the book does not have yet, ordered by
    /// child. Takes budgets in rotation until there are `most` parts. A part is returned again until `book`
    /// has it.
    pub fn unbooked(
        &mut self,
        most: usize,
        book: impl Fn(BudgetId, Incarnation) -> Option<Counters>,
    ) -> Vec<Returned> {
        let (mut unbooked, mut booked) = (Vec::new(), Vec::new());
        let PlanningQueue {
            claimants,
            returned,
            returned_turn: turn,
            ..
        } = &mut self.queue;
        let last = *turn;
        let later = returned.range((Bound::Excluded(last), Bound::Unbounded));
        for &budget in later.chain(returned.range(..=last)) {
            if unbooked.len() >= most {
                break;
            }
            *turn = budget;
            let mut open = false;
            for &child in claimants.get(&budget).into_iter().flat_map(|of| &**of) {
                let claim = self.children.get(child);
                let claim = claim.and_then(|of| of.claims.get(&budget));
                let (Some(claim), Some(counters)) = (claim, book(budget, child)) else {
                    continue;
                };
                if counters.returned.covers(claim.returned()) {
                    continue;
                }
                open = true;
                if claim.period() == counters.period {
                    unbooked.push(Returned {
                        child,
                        budget,
                        period: claim.period(),
                        total: claim.returned(),
                    });
                }
            }
            if !open {
                booked.push(budget);
            }
        }
        for budget in booked {
            self.queue.returned.remove(&budget);
        }
        unbooked.sort_unstable_by_key(|returned| (returned.child, returned.budget));
        unbooked
    }

    /// Returns true if the demand of a claim began, rose or fell sharply since the last call.
    #[must_use]
    pub fn take_asked(&mut self) -> bool {
        core::mem::take(&mut self.queue.asked)
    }

    /// Takes budgets whose sum of claims may have changed since they were last taken, in rotation, until they
    /// have `claims` claims together: those with urgent claims first, and in the scope of all then others.
    #[must_use]
    pub fn take_unsummed(&mut self, which: SumScope, claims: usize) -> BTreeSet<BudgetId> {
        self.queue.take_unsummed(which, claims)
    }

    /// Returns true if budgets are left to be summed.
    #[must_use]
    pub fn has_unsummed(&self, which: SumScope) -> bool {
        self.queue.has_unsummed(which)
    }

    /// Returns the claims on a budget, with their children.
    pub fn claims_on(&self, budget: BudgetId) -> impl Iterator<Item = (&Child, &Claim)> {
        let claimants = self.queue.claimants(budget);
        claimants.filter_map(move |child| {
            let child = self.children.get(child)?;
            Some((child, child.claims.get(&budget)?))
        })
    }
}
