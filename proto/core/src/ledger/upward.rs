//! What of the claims goes on to whom this parent answers itself: sums of demand, and
//! what came back.

use super::agenda::Agenda;
use super::{Child, Claim, Ledger};
use crate::edge::{Counters, Vector};
use crate::unit::{BudgetId, Incarnation, PeriodId};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Bound;

/// Which budgets are taken to be summed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spoken {
    /// All that were spoken of.
    All,
    /// Those of which demand began or leapt.
    Asked,
}

/// What a child has returned of a budget so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Returned {
    /// Who.
    pub child: Incarnation,
    /// Of what.
    pub budget: BudgetId,
    /// The period of its tokens.
    pub period: PeriodId,
    /// All of it.
    pub total: Vector,
}

impl Ledger {
    /// What children reported returned and the book does not know yet, in the order of
    /// children: of as many budgets, in turn, as have `most` of it. What is said here is said
    /// again until `book` has it.
    pub fn unbooked(
        &mut self,
        most: usize,
        book: impl Fn(BudgetId, Incarnation) -> Option<Counters>,
    ) -> Vec<Returned> {
        let (mut unbooked, mut booked) = (Vec::new(), Vec::new());
        let Agenda {
            claimants,
            returned,
            returned_turn: turn,
            ..
        } = &mut self.agenda;
        let last = *turn;
        let later = returned.range((Bound::Excluded(last), Bound::Unbounded));
        for &budget in later.chain(returned.range(..=last)) {
            if unbooked.len() >= most {
                break;
            }
            *turn = budget;
            let mut open = false;
            for &child in claimants.get(&budget).into_iter().flatten() {
                let claim = self.children.get(child);
                let claim = claim.and_then(|of| of.claims.get(&budget));
                let (Some(claim), Some(counters)) = (claim, book(budget, child)) else {
                    continue;
                };
                if counters.returned.covers(claim.returned) {
                    continue;
                }
                open = true;
                if claim.period == counters.period {
                    unbooked.push(Returned {
                        child,
                        budget,
                        period: claim.period,
                        total: claim.returned,
                    });
                }
            }
            if !open {
                booked.push(budget);
            }
        }
        for budget in booked {
            self.agenda.returned.remove(&budget);
        }
        unbooked.sort_unstable_by_key(|returned| (returned.child, returned.budget));
        unbooked
    }

    /// Whether demand began or leapt since this was last asked.
    #[must_use]
    pub fn take_asked(&mut self) -> bool {
        core::mem::take(&mut self.agenda.asked)
    }

    /// The budgets of which the sum of all claims may be another than when they were last
    /// taken: all of them, or those that somebody waits for.
    #[must_use]
    pub fn take_spoken(&mut self, which: Spoken) -> BTreeSet<BudgetId> {
        self.agenda.take_spoken(which)
    }

    /// Those who claim a budget, with their claims.
    pub fn claims_on(&self, budget: BudgetId) -> impl Iterator<Item = (&Child, &Claim)> {
        let claimants = self.agenda.claimants(budget);
        claimants.filter_map(move |child| {
            let child = self.children.get(child)?;
            Some((child, child.claims.get(&budget)?))
        })
    }
}
