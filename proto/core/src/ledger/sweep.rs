//! Claims of children that were fenced or closed, gone through in slices.

use super::child::Child;
use super::children::Children;
use super::claim::Claim;
use super::planning_queue::PlanningQueue;
use crate::few::FewMap;
use crate::message::Tally;
use crate::unit::{BudgetId, Incarnation};
use alloc::vec::Vec;

/// A claim of a closed child, which a sweep dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swept {
    /// The child.
    pub(crate) child: Incarnation,
    /// The budget.
    pub(crate) budget: BudgetId,
    /// Counts of the child's requests.
    pub(crate) tally: Tally,
    /// True if something was ever granted to it.
    pub(crate) given: bool,
}

/// A walk over the claims of one child. A node has one for each of its keys, and while all are walked over, the renewals
/// of leases wait.
#[derive(Debug, Hash)]
pub(super) struct Sweep {
    child: Incarnation,
    /// The first budget that is left.
    from: BudgetId,
    /// The claims of a closed child, which are dropped. Those of a fenced one are at the child.
    closed: Option<FewMap<BudgetId, Claim>>,
}

impl Sweep {
    pub(super) const fn of_fenced(child: &Child) -> Self {
        Self {
            child: child.edge().child,
            from: BudgetId::new(0),
            closed: None,
        }
    }

    pub(super) fn of_closed(child: Child) -> Self {
        let fenced = Self::of_fenced(&child);
        Self {
            closed: Some(child.claims),
            ..fenced
        }
    }

    /// Goes through the next claims, at most `most`. Returns their number: less than that if none is left. Those that are
    /// dropped are added to `swept`.
    pub(super) fn some(
        &mut self,
        most: usize,
        children: &Children,
        queue: &mut PlanningQueue,
        swept: &mut Vec<Swept>,
    ) -> usize {
        let fenced = children.get(self.child).map(|child| &child.claims);
        let claims = self.closed.as_ref().or(fenced);
        let claims = claims
            .into_iter()
            .flat_map(|of| of.entries_from(&self.from));
        let budgets: Vec<BudgetId> = claims.take(most).map(|(&budget, _)| budget).collect();
        for &budget in &budgets {
            queue.touch(budget);
            let claims = self.closed.as_mut();
            if let Some(claim) = claims.and_then(|claims| claims.remove(&budget)) {
                queue.claims_no_longer(budget, self.child);
                swept.push(Swept {
                    child: self.child,
                    budget,
                    tally: claim.tally,
                    given: claim.is_given(),
                });
            }
        }
        if let Some(next) = budgets.last().and_then(|last| last.next()) {
            self.from = next;
        }
        budgets.len()
    }

    /// Forgets a budget that has ended.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        if let Some(claims) = &mut self.closed {
            claims.remove(&budget);
        }
    }

    /// Returns the budgets of claims that are left of a closed child.
    pub(super) fn remembered(&self) -> impl Iterator<Item = BudgetId> {
        let claims = self.closed.iter();
        claims.flat_map(|claims| claims.keys().copied())
    }
}
