//! Leaving the cluster: the node returns everything as soon as it is free.

use super::Node;
use crate::unit::Tick;

impl Node {
    /// Begins to leave: nothing more is requested, and each report returns what is not dealt. Sessions stay
    /// open until their clients leave or fall silent.
    pub fn leave(&mut self, now: Tick) {
        self.holder.leave();
        self.report_urgent = true;
        self.return_ungranted(now);
    }

    /// Returns true if the leader has confirmed a report that said that nothing is left here, except floors
    /// and permits that cannot be returned before their time.
    #[must_use]
    pub fn has_left(&self) -> bool {
        let answered = self.holder.answered();
        self.left.is_some_and(|reported| reported <= answered)
    }

    /// Returns ungranted parts before a report while leaving, and notes the first report that leaves nothing.
    pub(super) fn return_while_leaving(&mut self, now: Tick) {
        if !self.holder.is_leaving() {
            return;
        }
        if self.returning.is_none() {
            self.return_ungranted(now);
        }
        let closed = self.sessions.is_empty() && self.closing.is_empty();
        if self.left.is_none() && closed && self.holds_only_lingering() {
            self.left = self.holder.lease().last_sent().next();
        }
    }

    fn holds_only_lingering(&self) -> bool {
        self.budgets.iter().all(|(&budget, budget_state)| {
            let holding = self.holder.holding(budget);
            holding.ahead_of(budget_state.account.lingering()).is_zero()
        })
    }
}
