//! The replicated state: what applying the log means.
//!
//! `apply` is a function of the state and the entry alone. It reads no clock
//! and draws no lots; an entry at or below the applied index changes nothing;
//! and a grant that would pass the budget is refused by itself, never the
//! round it came in.

mod book;
mod chunks;
mod home;
mod index;
mod requests;
mod rules;
mod set;
#[cfg(feature = "serde")]
mod shared;
mod snapshot;

pub use snapshot::{Frozen, RestoreError, Snapshot};

use crate::account::{Account, AccountError};
use crate::budget::{Budget, Catalog, FieldError, Key, KeyPattern};
use crate::command::Command;
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{BudgetId, Drift, Incarnation, NodeId, PeriodId, RequestId, RuleId, Span};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use chunks::Chunks;
use index::Index;
use requests::Requests;

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Member {
    /// Whose life.
    pub node: NodeId,
    /// Whether it may still be granted to.
    pub phase: Phase,
}

/// Whether a life goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Phase {
    /// It does.
    Live,
    /// Its node was removed; it ends by return or patience.
    Leaving,
}

/// A rule that an operator wrote.
#[derive(Clone, Debug, PartialEq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rule {
    /// What it says.
    #[cfg_attr(feature = "serde", serde(with = "shared"))]
    pub budget: Arc<Budget>,
    /// Whether an instance was forgotten before it was provably full: until
    /// that has passed, every new one is born empty.
    pub cold: bool,
    /// The latest period in which an instance of a quota was forgotten, unspent. A new instance begins in
    /// it or in a later one: a clock that was set back would give an earlier one again, with what the
    /// forgotten instance had spent in it.
    pub period: PeriodId,
}

/// One generation of one key's budget, with its book.
#[derive(Clone, Debug, PartialEq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Generation {
    /// The concrete key.
    pub key: Key,
    /// The rule it was made by.
    pub rule: RuleId,
    /// The limit in force: most often the very one of the rule.
    #[cfg_attr(feature = "serde", serde(with = "shared"))]
    pub budget: Arc<Budget>,
    /// Who holds what.
    pub account: Account,
    /// How long the running period has lasted, at least, by boot clocks.
    pub age: Span,
    /// The entry that lowered the limit last; zero if none did.
    pub cut: u64,
    /// Whether it is being wound up: the limit is 0, and the books stay until they are clear.
    pub winding: bool,
}

/// What an entry did, for those who keep something beside the state.
#[derive(Clone, Debug, PartialEq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The request had been carried out before; nothing was done.
    Repeated(RequestId),
    /// The request was refused; nothing was changed.
    Refused(RequestId, Vec<FieldError>),
    /// A set of rules was refused; nothing was changed. What is wrong, with the
    /// place in the set of each rule that is, counted from 0.
    SetRefused(RequestId, Vec<(usize, Vec<FieldError>)>),
    /// A life began.
    Joined {
        /// Whose.
        node: NodeId,
        /// The life.
        incarnation: Incarnation,
        /// The request that asked for it.
        request: RequestId,
    },
    /// A node's lives get nothing more.
    Leaving(Incarnation),
    /// The cluster's settings changed.
    Configured,
    /// A rule was written or withdrawn.
    RuleChanged(RuleId),
    /// A generation began.
    Created {
        /// The generation.
        budget: BudgetId,
        /// Who was given the full burst, if anybody.
        granted: Option<Incarnation>,
    },
    /// The limit or the terms of a generation changed.
    Changed(BudgetId),
    /// A generation ended.
    Ended(BudgetId),
    /// A quota's period was taken back: its generation goes on under another
    /// name, with edges at zero, and what was spent or out is spent.
    Restarted {
        /// The name that means nothing any more.
        former: BudgetId,
        /// The generation.
        budget: BudgetId,
    },
    /// A period began.
    Stamped(BudgetId, PeriodId),
    /// Part of a budget came back and is free, with the tokens that came along.
    Freed(BudgetId, Share),
    /// A life is over.
    Reclaimed(Incarnation),
    /// A life was given something.
    Granted(BudgetId, Incarnation),
    /// A single movement was refused; the rest of its round was not.
    MovementRefused(BudgetId, Incarnation, AccountError),
}

impl Effect {
    /// The generation whose book or terms it is about, if it is about one.
    #[must_use]
    pub const fn budget(&self) -> Option<BudgetId> {
        match self {
            Self::Created { budget, .. }
            | Self::Changed(budget)
            | Self::Ended(budget)
            | Self::Restarted { budget, .. }
            | Self::Stamped(budget, _)
            | Self::Freed(budget, _)
            | Self::Granted(budget, _)
            | Self::MovementRefused(budget, ..) => Some(*budget),
            Self::Repeated(_)
            | Self::Refused(..)
            | Self::SetRefused(..)
            | Self::Joined { .. }
            | Self::Leaving(_)
            | Self::Configured
            | Self::RuleChanged(_)
            | Self::Reclaimed(_) => None,
        }
    }
}

impl Effect {
    /// The generation that has ended, if one has: nothing is kept of it anywhere.
    #[must_use]
    pub const fn ended(&self) -> Option<BudgetId> {
        match self {
            Self::Ended(budget) => Some(*budget),
            Self::Restarted { former, .. } => Some(*former),
            _ => None,
        }
    }
}

/// The replicated state.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct State {
    applied: u64,
    drift: Drift,
    lease: Span,
    patience: Span,
    next_incarnation: Incarnation,
    next_budget: BudgetId,
    next_rule: RuleId,
    members: BTreeMap<Incarnation, Member>,
    removed: BTreeSet<NodeId>,
    rules: Chunks<RuleId, Rule>,
    catalog: Catalog,
    keys: BTreeMap<Key, BudgetId>,
    budgets: Chunks<BudgetId, Generation>,
    index: Index,
    requests: Requests,
}

impl State {
    /// The nodes' lease where nothing was configured.
    pub const LEASE_DEFAULT: Span = Span::from_secs(3);

    /// So many requests are remembered, so that a retry is not a second change.
    pub const REQUESTS_MAX: usize = 4_096;

    /// The state before the first entry.
    #[must_use]
    pub fn new() -> Self {
        Self {
            applied: 0,
            drift: Drift::default(),
            lease: Self::LEASE_DEFAULT,
            patience: Self::LEASE_DEFAULT,
            next_incarnation: Incarnation::new(1),
            next_budget: BudgetId::new(1),
            next_rule: RuleId::new(1),
            members: BTreeMap::new(),
            removed: BTreeSet::new(),
            rules: Chunks::default(),
            catalog: Catalog::default(),
            keys: BTreeMap::new(),
            budgets: Chunks::default(),
            index: Index::default(),
            requests: Requests::default(),
        }
    }

    /// The parent side of every node's edge: the cluster's one life.
    pub const CLUSTER: Incarnation = Incarnation::new(0);

    /// The index of the last entry applied.
    #[must_use]
    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// The bound on drift that all promises of time are made with.
    #[must_use]
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// The nodes' lease, as the leader counts it: what promises are made of.
    #[must_use]
    pub const fn lease(&self) -> Span {
        self.lease
    }

    /// How long the leader waits for a silent node: the longest lease that was
    /// ever in force, because a promise of it may still be held.
    #[must_use]
    pub const fn patience(&self) -> Span {
        self.patience
    }

    /// Whether a life was ever issued, as far as this replica knows.
    #[must_use]
    pub fn has_issued(&self, life: Incarnation) -> bool {
        life < self.next_incarnation
    }

    /// Whether a node was removed: its id never joins again.
    #[must_use]
    pub fn was_removed(&self, node: NodeId) -> bool {
        self.removed.contains(&node)
    }

    /// All lives that are not over.
    pub fn members(&self) -> impl Iterator<Item = (Incarnation, &Member)> {
        self.members.iter().map(|(&life, member)| (life, member))
    }

    /// A life that is not over.
    #[must_use]
    pub fn member(&self, life: Incarnation) -> Option<&Member> {
        self.members.get(&life)
    }

    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules.iter().map(|(&id, rule)| (id, rule))
    }

    /// The rules that were written after another, in order.
    pub fn rules_after(&self, rule: RuleId) -> impl Iterator<Item = (RuleId, &Rule)> {
        let later = self.rules.from(rule).filter(move |(id, _)| **id > rule);
        later.map(|(&id, rule)| (id, rule))
    }

    /// The rule that a key falls under.
    #[must_use]
    pub fn rule_of(&self, key: &Key) -> Option<(RuleId, &Rule)> {
        let id = self.catalog.resolve(key)?;
        self.rules.get(&id).map(|rule| (id, rule))
    }

    /// Whether a template has as many keys as it may have: no other one begins.
    #[must_use]
    pub fn is_full(&self, rule: RuleId) -> bool {
        let living = self.generations_of(rule);
        let template = self.rules.get(&rule).map(|rule| &rule.budget);
        let template = template.filter(|budget| budget.key().is_template());
        template.is_some_and(|budget| living >= budget.max_keys())
            && !planted::is(Bug::KeysUncounted)
    }

    /// The rule of this very pattern.
    #[must_use]
    pub fn rule_named(&self, pattern: &KeyPattern) -> Option<(RuleId, &Rule)> {
        let id = self.catalog.get(pattern)?;
        self.rules.get(&id).map(|rule| (id, rule))
    }

    /// The rules of which an instance was forgotten before it was provably full.
    pub fn cold_rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        let cold = self.index.cold.iter();
        cold.filter_map(|&id| Some((id, self.rules.get(&id)?)))
    }

    /// The generations of one rule, those that are wound up too.
    pub fn budgets_of(&self, rule: RuleId) -> impl Iterator<Item = (BudgetId, &Generation)> {
        self.named(self.index.of_rule.of(rule))
    }

    /// Number of generations of a rule that have not ended.
    #[must_use]
    pub fn generations_of(&self, rule: RuleId) -> u64 {
        u64::try_from(self.index.of_rule.count(&rule)).unwrap_or(u64::MAX)
    }

    /// The generations of which something is kept of a closed life.
    pub fn kept_of(&self, life: Incarnation) -> impl Iterator<Item = (BudgetId, &Generation)> {
        self.named(self.index.kept.of(life))
    }

    fn named(
        &self,
        budgets: impl Iterator<Item = BudgetId>,
    ) -> impl Iterator<Item = (BudgetId, &Generation)> {
        budgets.filter_map(|id| Some((id, self.budgets.get(&id)?)))
    }

    /// All generations from a name on, in the order of names.
    pub fn budgets_from(&self, from: BudgetId) -> impl Iterator<Item = (BudgetId, &Generation)> {
        let after = self.budgets.from(from);
        after.map(|(&id, generation)| (id, generation))
    }

    /// All generations.
    pub fn budgets(&self) -> impl ExactSizeIterator<Item = (BudgetId, &Generation)> {
        self.budgets
            .iter()
            .map(|(&id, generation)| (id, generation))
    }

    /// A generation.
    #[must_use]
    pub fn budget(&self, id: BudgetId) -> Option<&Generation> {
        self.budgets.get(&id)
    }

    /// Returns true if a generation has ended, as far as this replica knows: it was issued, and is no more.
    /// It never comes back, since each is issued once, in rising order.
    #[must_use]
    pub fn has_ended(&self, id: BudgetId) -> bool {
        id < self.next_budget && self.budgets.get(&id).is_none() && !planted::is(Bug::EndForgotten)
    }

    /// The generation of a concrete key.
    #[must_use]
    pub fn budget_of(&self, key: &Key) -> Option<BudgetId> {
        self.keys.get(key).copied()
    }

    /// Applies entry `index`. The empty entry that begins a term is `None`.
    ///
    /// An entry at or below the applied index changes nothing: replaying any
    /// part of the log gives the same state.
    pub fn apply(&mut self, index: u64, command: Option<&Command>) -> Vec<Effect> {
        let mut effects = Vec::new();
        if index <= self.applied && !planted::is(Bug::ApplyTwice) {
            return effects;
        }
        self.applied = index;
        if let Some(command) = command {
            self.carry_out(command, &mut effects);
        }
        effects
    }

    fn carry_out(&mut self, command: &Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Join { node, request } => self.join(*node, *request, effects),
            Command::Remove { node } => self.remove(*node, effects),
            Command::Configure { drift, lease } => {
                (self.drift, self.lease) = (*drift, *lease);
                self.patience = self.patience.max(*lease);
                effects.push(Effect::Configured);
            }
            Command::PutRule {
                request,
                budget,
                creator,
            } => self.put_rule(*request, budget, *creator, effects),
            Command::DeleteRule { request, rule } => self.delete_rule(*request, *rule, effects),
            Command::Apply {
                request,
                deletes,
                puts,
                creator,
            } => self.apply_set(*request, deletes, puts, *creator, effects),
            Command::Instantiate { keys, creator } => {
                for key in keys
                    .iter()
                    .filter_map(|key| Key::try_from(key.as_str()).ok())
                {
                    self.instantiate(key, *creator, effects);
                }
            }
            Command::Round(changes) => self.round(changes, effects),
            Command::ResetPeriod {
                request,
                budget,
                period,
            } => self.reset_period(*request, *budget, *period, effects),
        }
    }

    fn join(&mut self, node: NodeId, request: RequestId, effects: &mut Vec<Effect>) {
        if self.removed.contains(&node) || !self.is_new(request, effects) {
            return;
        }
        let former = self
            .members
            .iter()
            .find_map(|(&life, member)| (member.node == node).then_some(life));
        let incarnation = match former {
            Some(life) if planted::is(Bug::IncarnationReused) => life,
            _ => self.next_incarnation,
        };
        let Some(next) = self.next_incarnation.next() else {
            return;
        };
        self.next_incarnation = next;
        let phase = Phase::Live;
        self.members.insert(incarnation, Member { node, phase });
        effects.push(Effect::Joined {
            node,
            incarnation,
            request,
        });
    }

    fn remove(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        self.removed.insert(node);
        for (&life, member) in &mut self.members {
            if member.node == node {
                member.phase = Phase::Leaving;
                effects.push(Effect::Leaving(life));
            }
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}
