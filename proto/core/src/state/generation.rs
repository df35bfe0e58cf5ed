//! Rules, and the generations of budgets that they make.

#[cfg(feature = "serde")]
use super::shared;
use crate::account::Account;
use crate::budget::{Budget, Key};
use crate::unit::{PeriodId, RuleId};
use alloc::sync::Arc;

/// A rule that an operator wrote.
#[derive(Clone, Debug, PartialEq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rule {
    /// Limit and terms of the rule.
    #[cfg_attr(feature = "serde", serde(with = "shared"))]
    pub budget: Arc<Budget>,
    /// Set if an instance was forgotten before it was provably full. Until that time has passed, every new
    /// instance begins empty.
    pub cold: bool,
    /// The latest period in which an instance of a quota was forgotten, unspent. A new instance begins in
    /// it or in a later one: a clock that was set back would give an earlier one again, with what the
    /// forgotten instance had spent in it.
    pub period: PeriodId,
}

impl Rule {
    /// Returns the budget of a key to which the rule applies: that of the rule, or the one that the key
    /// names. Returns `None` if it should name one and does not.
    #[must_use]
    pub fn budget_of(&self, key: &Key) -> Option<Arc<Budget>> {
        if self.budget.has_named_limits() {
            return self.budget.named_by(key).ok().map(Arc::new);
        }
        Some(Arc::clone(&self.budget))
    }
}

/// One generation of one key's budget, with its book.
#[derive(Clone, Debug, PartialEq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Generation {
    /// The concrete key.
    pub key: Key,
    /// The rule that it was made by.
    pub rule: RuleId,
    /// The limit in force. Usually the same object as the rule's.
    #[cfg_attr(feature = "serde", serde(with = "shared"))]
    pub budget: Arc<Budget>,
    /// The book: the parts of all holders.
    pub account: Account,
    /// Index of the entry that lowered the limit last; zero if none did.
    pub cut: u64,
    /// Set while it is being wound up: the limit is 0, and the book stays until it is clear.
    pub winding: bool,
}
