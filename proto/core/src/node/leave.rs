//! Leaving: everything goes back, as fast as it comes in.

use super::Node;
use crate::unit::Tick;

impl Node {
    /// Leaves: nothing more is asked for, and with each report what is not dealt
    /// goes back. Sessions live on until their clients leave or fall silent.
    pub fn leave(&mut self, now: Tick) {
        self.holder.leave();
        self.news = true;
        self.return_undealt(now);
    }

    /// Whether the leader has heard that nothing is left here but floors and
    /// permits that nobody can give back.
    #[must_use]
    pub fn has_left(&self) -> bool {
        let answered = self.holder.answered();
        self.left.is_some_and(|said| said <= answered)
    }

    /// What a report does for a node that leaves.
    pub(super) fn return_while_leaving(&mut self, now: Tick) {
        if !self.holder.is_leaving() {
            return;
        }
        self.return_undealt(now);
        if self.left.is_none() && self.sessions.is_empty() && self.holds_only_what_is_kept() {
            self.left = self.holder.lease().last_sent().next();
        }
    }

    fn holds_only_what_is_kept(&self) -> bool {
        self.desks.iter().all(|(&budget, desk)| {
            let holding = self.holder.holding(budget);
            holding.ahead_of(desk.account.ghosts()).is_zero()
        })
    }
}
