//! Home of a key in central mode.

use super::{Member, Phase, State};
use crate::share::Kind;
use crate::unit::{BudgetId, Incarnation, Tokens};
use core::cmp::Reverse;

impl State {
    /// Returns the key's home: the live incarnation that holds the most of it in the book, the lowest of
    /// equals. Returns `None` if no live incarnation holds any.
    ///
    /// All replicas that have applied the same entries return the same.
    #[must_use]
    pub fn home_of(&self, budget: BudgetId) -> Option<Incarnation> {
        let generation = self.budgets.get(&budget)?;
        let kind = generation.account.kind();
        let live = |incarnation| {
            let member: Option<&Member> = self.members.get(&incarnation);
            member.is_some_and(|member| member.phase == Phase::Live)
        };
        let holders = generation
            .account
            .open()
            .filter(|&(incarnation, _)| live(incarnation));
        holders
            .map(|(incarnation, slot)| (slot.counters.holding(kind).capacity(kind), incarnation))
            .filter(|(held, _)| !held.is_zero())
            .max_by_key(|&(held, incarnation)| (held, Reverse(incarnation)))
            .map(|(_, incarnation)| incarnation)
    }

    /// Returns the largest cost that can ever be admitted at once: the burst that no floor pins down of a
    /// rate, all permits of a concurrency budget, all tokens of a period of a quota. Returns `None` if there
    /// is no such budget.
    #[must_use]
    pub fn largest_cost(&self, budget: BudgetId) -> Option<Tokens> {
        let account = &self.budgets.get(&budget)?.account;
        let whole = account.whole();
        Some(match account.kind() {
            Kind::Rate => whole.burst.minus_or_zero(account.held().floor_burst),
            Kind::Concurrency => whole.burst,
            Kind::Quota => whole.tokens,
        })
    }
}
