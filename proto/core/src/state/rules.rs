//! Rules and the generations made by them.

use super::{Effect, Generation, Phase, Rule, State};
use crate::account::Account;
use crate::budget::{Budget, FieldError, Key};
use crate::edge::Vector;
use crate::interner::Interner;
use crate::message::Terms;
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Incarnation, PeriodId, RequestId, RuleId, Span, Tokens};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl State {
    pub(super) fn put_rule(
        &mut self,
        request: RequestId,
        new: &Budget,
        creator: Option<Incarnation>,
        effects: &mut Vec<Effect>,
    ) {
        if !self.is_new(request, effects) {
            return;
        }
        match self.refusal_of(new) {
            Some(errors) => effects.push(Effect::Refused(request, errors)),
            None => self.write_rule(new, creator, effects),
        }
    }

    /// Writes a rule that [`State::refusal_of`] does not refuse.
    pub(super) fn write_rule(
        &mut self,
        new: &Budget,
        creator: Option<Incarnation>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(id) = self.catalog.get(new.key()) {
            self.change_rule(id, new, effects);
            return;
        }
        let id = self.next_rule;
        let Some(next) = id.next() else { return };
        if self.catalog.insert(new.key(), id).is_err() {
            return;
        }
        self.next_rule = next;
        let budget = Arc::new(new.clone());
        self.rules.insert(
            id,
            Rule {
                budget,
                cold: false,
                period: PeriodId::default(),
            },
        );
        effects.push(Effect::RuleChanged(id));
        if let (false, Ok(key)) = (new.key().is_template(), Key::try_from(new.key().as_str())) {
            self.take_over(&key, id, new, effects);
            self.instantiate(key, creator, effects);
        }
    }

    /// Applies a new exact rule to a key that exists as a template's instance: its book continues under the
    /// new rule. If the book cannot serve the rule, it is wound up, and the key begins again after that.
    fn take_over(&mut self, key: &Key, rule: RuleId, new: &Budget, effects: &mut Vec<Effect>) {
        let index = self.applied;
        let id = self.keys.get(key).copied();
        let Some((id, generation)) =
            id.and_then(|id| self.budgets.get_mut(&id).map(|generation| (id, generation)))
        else {
            return;
        };
        if generation.winding {
            return;
        }
        match generation.budget.adopt(new) {
            Ok(adopted) => {
                let former = core::mem::replace(&mut generation.rule, rule);
                generation.set(Arc::new(adopted), index);
                self.index.of_rule.remove(&former, id);
                self.index.of_rule.add(rule, id);
            }
            Err(_) => generation.wind_up(index),
        }
        effects.push(Effect::Changed(id));
    }

    /// Returns the reasons why a rule cannot be written: its key has a rule, and that one or a generation
    /// made by it cannot be changed to the new one. Generations with named limits do not count: callers chose
    /// their scales, and must not keep an operator from a change.
    #[must_use]
    pub fn refusal_of(&self, new: &Budget) -> Option<Vec<FieldError>> {
        let (id, rule) = self.rule_named(new.key())?;
        let mut change = Change::to(new);
        // Reports all errors of the first generation that cannot be changed.
        let named = rule.budget.has_named_limits() || new.has_named_limits();
        let living = self
            .budgets_of(id)
            .map(|(_, generation)| &generation.budget)
            .filter(|_| !named);
        living
            .chain([&rule.budget])
            .find_map(|budget| change.of(budget).err())
    }

    /// Changes a rule and every generation made by it. One that cannot be changed, because it is counted in
    /// the scale of a named limit or its key names none, is wound up.
    fn change_rule(&mut self, id: RuleId, new: &Budget, effects: &mut Vec<Effect>) {
        let index = self.applied;
        let mut change = Change::to(new);
        if let Some(rule) = self.rules.get_mut(&id)
            && let Ok(changed) = change.of(&rule.budget)
        {
            // Periods of another length have other numbers.
            if rule.budget.period() != changed.period() {
                rule.period = PeriodId::default();
            }
            rule.budget = changed;
        }
        for budget in self.index.of_rule.of(id) {
            let Some(generation) = self.budgets.get_mut(&budget) else {
                continue;
            };
            let changed = match new.has_named_limits() {
                true => change.of_named(&generation.key, &generation.budget, &mut self.named),
                false => change.of(&generation.budget),
            };
            match changed {
                Ok(changed) => generation.set(changed, index),
                Err(_) => generation.wind_up(index),
            }
            effects.push(Effect::Changed(budget));
        }
        effects.push(Effect::RuleChanged(id));
    }

    /// Withdraws a rule. Its generations are wound up: the limit is 0, and the books stay until everything is
    /// returned or reclaimed.
    pub(super) fn delete_rule(
        &mut self,
        request: RequestId,
        id: RuleId,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_new(request, effects) {
            self.withdraw_rule(id, effects);
        }
    }

    pub(super) fn withdraw_rule(&mut self, id: RuleId, effects: &mut Vec<Effect>) {
        let index = self.applied;
        let Some(rule) = self.rules.remove(&id) else {
            return;
        };
        self.catalog.remove(rule.budget.key());
        self.index.cold.remove(&id);
        for budget in self.index.of_rule.of(id) {
            if let Some(generation) = self.budgets.get_mut(&budget) {
                generation.wind_up(index);
                effects.push(Effect::Changed(budget));
            }
        }
        effects.push(Effect::RuleChanged(id));
    }

    /// Begins a generation of `key` under the rule that applies to it, unless there is one. A generation that
    /// is being wound up continues with the same book. That is a raise, and raised capacity arrives empty.
    pub(super) fn instantiate(
        &mut self,
        key: Key,
        creator: Option<Incarnation>,
        effects: &mut Vec<Effect>,
    ) {
        let Some((rule, Rule { cold, .. })) = self.rule_of(&key) else {
            return;
        };
        let cold = *cold;
        let Some(budget) = self.budget_for(rule, &key) else {
            return;
        };
        if let Some(id) = self.keys.get(&key).copied()
            && !(planted::is(Bug::RebornOnNewBooks) && self.is_winding(id))
        {
            if self.revive(id, rule, &budget) {
                effects.push(Effect::Changed(id));
            }
            return;
        }
        if self.is_full(rule) {
            return;
        }
        let id = self.next_budget;
        let Some(next) = id.next() else { return };
        self.next_budget = next;
        let linger = Terms::from(budget.as_ref()).linger();
        let account = Account::new(budget.kind(), divisible(&budget), linger);
        let mut generation = Generation {
            key: key.clone(),
            rule,
            budget,
            account,
            cut: 0,
            winding: false,
        };
        let live = |incarnation: &Incarnation| {
            self.members
                .get(incarnation)
                .is_some_and(|member| member.phase == Phase::Live)
        };
        let full = !cold || planted::is(Bug::RebornFull);
        let creator = creator.filter(live).filter(|_| full);
        let granted = creator.filter(|&creator| generation.give_all(creator));
        self.index.add(id, &generation);
        self.keys.insert(key, id);
        self.budgets.insert(id, generation);
        effects.push(Effect::Created {
            budget: id,
            granted,
        });
    }

    /// Returns the budget of a key by its rule.
    fn budget_for(&mut self, rule: RuleId, key: &Key) -> Option<Arc<Budget>> {
        let rule = self.rules.get(&rule)?;
        let budget = rule.budget_of(key)?;
        Some(match rule.budget.has_named_limits() {
            true => self.named.share(&budget),
            false => budget,
        })
    }

    fn is_winding(&self, id: BudgetId) -> bool {
        self.budgets
            .get(&id)
            .is_some_and(|generation| generation.winding)
    }

    /// Takes a generation that is being wound up back into use, if its book can serve the rule.
    fn revive(&mut self, id: BudgetId, rule: RuleId, budget: &Budget) -> bool {
        let index = self.applied;
        let Some(generation) = self.budgets.get_mut(&id) else {
            return false;
        };
        let Ok(changed) = generation.budget.adopt(budget) else {
            return false;
        };
        if !generation.winding {
            return false;
        }
        let former = core::mem::replace(&mut generation.rule, rule);
        generation.winding = false;
        generation.set(Arc::new(changed), index);
        self.index.of_rule.remove(&former, id);
        self.index.of_rule.add(rule, id);
        true
    }
}

/// The changed budgets of a rule. Thousands of generations may share one budget: it is changed once, and they
/// share the result.
struct Change<'a> {
    new: &'a Budget,
    last: Option<(Arc<Budget>, Arc<Budget>)>,
}

impl<'a> Change<'a> {
    const fn to(new: &'a Budget) -> Self {
        Self { new, last: None }
    }

    /// # Errors
    ///
    /// See [`Budget::change_to`].
    fn of(&mut self, budget: &Arc<Budget>) -> Result<Arc<Budget>, Vec<FieldError>> {
        if let Some((from, to)) = &self.last
            && Arc::ptr_eq(from, budget)
        {
            return Ok(Arc::clone(to));
        }
        let changed = Arc::new(budget.change_to(self.new)?);
        self.last = Some((Arc::clone(budget), Arc::clone(&changed)));
        Ok(changed)
    }

    /// Like [`Change::of`], if the key names its limit.
    fn of_named(
        &self,
        key: &Key,
        budget: &Budget,
        shared: &mut Interner<Budget>,
    ) -> Result<Arc<Budget>, Vec<FieldError>> {
        let changed = budget.adopt(&self.new.named_by(key)?)?;
        Ok(shared.share(&changed))
    }
}

impl Generation {
    /// Sets the limit, which entry `index` changes.
    fn set(&mut self, budget: Arc<Budget>, index: u64) {
        let linger = Terms::from(budget.as_ref()).linger();
        if !self.winding {
            self.fit(divisible(&budget), linger, index);
        }
        self.budget = budget;
    }

    fn wind_up(&mut self, index: u64) {
        self.winding = true;
        let linger = Terms::from(self.budget.as_ref()).linger();
        self.fit(Share::EMPTY, linger, index);
    }

    fn fit(&mut self, whole: Share, linger: Span, index: u64) {
        if !Vector::of(self.account.whole())
            .ahead_of(Vector::of(whole))
            .is_zero()
        {
            self.cut = index;
        }
        self.account.set_whole(whole, linger);
    }

    /// Grants everything to the creator, because a budget that did not exist before is full. This is the only
    /// grant of tokens that no leader's pool made.
    fn give_all(&mut self, creator: Incarnation) -> bool {
        let whole = self.budget.whole();
        if self.budget.kind() != Kind::Rate {
            return false;
        }
        let all = Vector {
            rate: whole.rate,
            burst: whole.burst,
            tokens: whole.burst,
            ..Vector::ZERO
        };
        let period = self.account.period();
        self.account.grant(creator, period, all).is_ok()
    }
}

/// Returns the part that a book divides. Tokens of a rate exist only in a leader's pool.
fn divisible(budget: &Budget) -> Share {
    let whole = budget.whole();
    match budget.kind() {
        Kind::Rate | Kind::Concurrency => Share {
            tokens: Tokens::ZERO,
            ..whole
        },
        Kind::Quota => whole,
    }
}
