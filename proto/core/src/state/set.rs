//! Sets of rules: all are applied, or none.

use super::{Effect, State};
use crate::budget::{Budget, FieldError};
use crate::unit::{Incarnation, RequestId, RuleId};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl State {
    pub(super) fn apply_set(
        &mut self,
        request: RequestId,
        deletes: &[RuleId],
        puts: &[Budget],
        creator: Option<Incarnation>,
        effects: &mut Vec<Effect>,
    ) {
        if !self.is_new(request, effects) {
            return;
        }
        let refused = self.refusals_of(deletes, puts);
        if !refused.is_empty() {
            effects.push(Effect::SetRefused(request, refused));
            return;
        }
        for &rule in deletes {
            self.withdraw_rule(rule, effects);
        }
        for budget in puts {
            self.write_rule(budget, creator, effects);
        }
    }

    /// Returns the reasons why a set cannot be carried out: the errors of each refused rule, with its index
    /// in `puts`, counted from 0.
    ///
    /// Rules are judged independently of each other, except for their keys. Two rules of one set for one key,
    /// or a rule both withdrawn and written, are refused as ambiguous.
    #[must_use]
    pub fn refusals_of(
        &self,
        deletes: &[RuleId],
        puts: &[Budget],
    ) -> Vec<(usize, Vec<FieldError>)> {
        let deletes: BTreeSet<&RuleId> = deletes.iter().collect();
        let deleted = |budget: &Budget| {
            let rule = self.catalog.get(budget.key());
            rule.is_some_and(|rule| deletes.contains(&rule))
        };
        let mut keys = BTreeSet::new();
        let judged = (0..).zip(puts).filter_map(|(index, budget)| {
            let errors = if !keys.insert(budget.key()) {
                [twice(budget, "in the set once")].into()
            } else if deleted(budget) {
                [twice(budget, "either written or withdrawn")].into()
            } else {
                self.refusal_of(budget)?
            };
            Some((index, errors))
        });
        judged.collect()
    }
}

fn twice(budget: &Budget, allowed: &str) -> FieldError {
    FieldError {
        field: "key".to_owned(),
        value: budget.key().as_str().to_owned(),
        allowed: allowed.to_owned(),
    }
}
