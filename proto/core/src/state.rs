//! The replicated state, and the effect of applying the log.
//!
//! The result of `apply` depends on the state and the entry alone. It reads no clock and uses no random
//! numbers. An entry at or below the applied index changes nothing. A grant that would exceed the budget is
//! refused by itself, and not the whole round.

mod book;
mod chunks;
mod generation;
mod home;
mod index;
mod requests;
mod rules;
mod set;
#[cfg(feature = "serde")]
mod shared;
mod snapshot;

pub use generation::{Generation, Rule};
pub use snapshot::{Frozen, RestoreError, Snapshot};

use crate::account::AccountError;
use crate::budget::{Budget, Catalog, FieldError, Key, KeyPattern, NamedLimit};
use crate::command::Command;
use crate::few::CompactMap;
use crate::interner::Interner;
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{BudgetId, Drift, Incarnation, NodeId, PeriodId, RequestId, RuleId, Span};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use chunks::Chunks;
use index::Index;
use requests::Requests;

/// One incarnation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Determines if the incarnation may still be granted anything.
    pub phase: Phase,
    /// Its silence, if no leader may confirm its reports.
    #[cfg_attr(feature = "serde", serde(default))]
    pub silence: Option<Silenced>,
}

/// A silence that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Silenced {
    /// Index of the entry by which it began.
    pub entry: u64,
    /// The time for which no report had been confirmed when that entry was proposed.
    pub lasted: Span,
}

/// Phase of an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Phase {
    /// It takes part.
    Live,
    /// Its node was removed. It ends when everything is returned, or after the leader's patience.
    Leaving,
}

/// Effect of an entry, for components that keep something beside the state.
#[derive(Clone, Debug, PartialEq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The request had been carried out before. Nothing was done.
    Repeated(RequestId),
    /// The request was refused. Nothing was changed.
    Refused(RequestId, Vec<FieldError>),
    /// A set of rules was refused. Nothing was changed. Has the errors of each rule with its index in the
    /// set, counted from 0.
    SetRefused(RequestId, Vec<(usize, Vec<FieldError>)>),
    /// An incarnation began.
    Joined {
        /// The node.
        node: NodeId,
        /// The incarnation.
        incarnation: Incarnation,
        /// The request that asked for it.
        request: RequestId,
    },
    /// An incarnation of a removed node is granted nothing more.
    Leaving(Incarnation),
    /// The cluster's settings changed.
    Configured,
    /// A rule was written or withdrawn.
    RuleChanged(RuleId),
    /// A generation began.
    Created {
        /// The generation.
        budget: BudgetId,
        /// The incarnation that was granted the full burst, if any.
        granted: Option<Incarnation>,
    },
    /// The limit or the terms of a generation changed.
    Changed(BudgetId),
    /// A generation ended.
    Ended(BudgetId),
    /// A period began.
    Stamped(BudgetId, PeriodId),
    /// Part of a budget was returned and is free, with the tokens in it.
    Freed(BudgetId, Share),
    /// The silence of an incarnation began, or ended.
    Silenced(Incarnation, Option<Silenced>),
    /// Floors or permits of an incarnation that is over stay booked.
    Kept(BudgetId, Incarnation),
    /// An incarnation is over.
    Reclaimed(Incarnation),
    /// An incarnation was granted something.
    Granted(BudgetId, Incarnation),
    /// A single movement was refused. The rest of its round was applied.
    MovementRefused(BudgetId, Incarnation, AccountError),
}

impl Effect {
    /// Returns the generation whose book or terms it concerns, if any.
    #[must_use]
    pub const fn budget(&self) -> Option<BudgetId> {
        match self {
            Self::Created { budget, .. }
            | Self::Changed(budget)
            | Self::Ended(budget)
            | Self::Stamped(budget, _)
            | Self::Freed(budget, _)
            | Self::Kept(budget, _)
            | Self::Granted(budget, _)
            | Self::MovementRefused(budget, ..) => Some(*budget),
            Self::Repeated(_)
            | Self::Refused(..)
            | Self::SetRefused(..)
            | Self::Joined { .. }
            | Self::Leaving(_)
            | Self::Configured
            | Self::RuleChanged(_)
            | Self::Silenced(..)
            | Self::Reclaimed(_) => None,
        }
    }
}

impl Effect {
    /// Returns the generation that has ended, if one has. Nothing is kept of it anywhere.
    #[must_use]
    pub const fn ended(&self) -> Option<BudgetId> {
        match self {
            Self::Ended(budget) => Some(*budget),
            _ => None,
        }
    }
}

/// The replicated state.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct State {
    applied: u64,
    /// Set while a part of the entry `applied` is not applied yet.
    is_half_applied: bool,
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
    keys: CompactMap<Key, BudgetId>,
    budgets: Chunks<BudgetId, Generation>,
    index: Index,
    requests: Requests,
    /// Budgets of named limits, to be shared by the keys that name the same one.
    named: Interner<Budget>,
}

impl State {
    /// The nodes' lease if none is configured.
    pub const LEASE_DEFAULT: Span = Span::from_secs(3);

    /// Maximum number of remembered requests. A retry of a remembered request is not a second change.
    pub const REQUESTS_MAX: usize = Requests::MAX;

    /// Returns the state before the first entry.
    #[must_use]
    pub fn new() -> Self {
        Self {
            applied: 0,
            is_half_applied: false,
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
            keys: CompactMap::new(),
            budgets: Chunks::default(),
            index: Index::default(),
            requests: Requests::default(),
            named: Interner::default(),
        }
    }

    /// The parent of every node's edge: the only incarnation of the cluster.
    pub const CLUSTER: Incarnation = Incarnation::new(0);

    /// Returns the index of the last entry applied, or of the one that is half applied.
    #[must_use]
    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns true if the next slice of an entry must be applied before anything else: see [`State::apply_slice`].
    #[must_use]
    pub const fn is_half_applied(&self) -> bool {
        self.is_half_applied
    }

    /// Returns the bound on drift by which all leases are computed.
    #[must_use]
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// Returns the nodes' lease, as the leader counts it.
    #[must_use]
    pub const fn lease(&self) -> Span {
        self.lease
    }

    /// Returns the time that the leader waits for a silent node: the longest lease ever in force, because a
    /// node may still hold one of that length.
    #[must_use]
    pub const fn patience(&self) -> Span {
        self.patience
    }

    /// Returns true if an incarnation was ever issued, as far as this replica knows.
    #[must_use]
    pub fn has_issued(&self, incarnation: Incarnation) -> bool {
        incarnation < self.next_incarnation
    }

    /// Returns true if a node was removed. Its id never joins again.
    #[must_use]
    pub fn was_removed(&self, node: NodeId) -> bool {
        self.removed.contains(&node)
    }

    /// Returns all incarnations that are not over.
    pub fn members(&self) -> impl Iterator<Item = (Incarnation, &Member)> {
        self.members
            .iter()
            .map(|(&incarnation, member)| (incarnation, member))
    }

    /// Returns an incarnation that is not over.
    #[must_use]
    pub fn member(&self, incarnation: Incarnation) -> Option<&Member> {
        self.members.get(&incarnation)
    }

    /// Returns all rules.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules.iter().map(|(&id, rule)| (id, rule))
    }

    /// Returns the rules that were written after another, in order.
    pub fn rules_after(&self, rule: RuleId) -> impl Iterator<Item = (RuleId, &Rule)> {
        let later = self.rules.from(rule).filter(move |(id, _)| **id > rule);
        later.map(|(&id, rule)| (id, rule))
    }

    /// Returns the rule that applies to a key. A rule with named limits applies to keys that name one.
    #[must_use]
    pub fn rule_of(&self, key: &Key) -> Option<(RuleId, &Rule)> {
        let id = self.catalog.resolve(key)?;
        let rule = self.rules.get(&id)?;
        let applies = !rule.budget.has_named_limits() || NamedLimit::of(key).is_ok();
        applies.then_some((id, rule))
    }

    /// Returns true if a template has its maximum number of keys, so that no other key can begin.
    #[must_use]
    pub fn is_full(&self, rule: RuleId) -> bool {
        let living = self.generations_of(rule);
        let template = self.rules.get(&rule).map(|rule| &rule.budget);
        let template = template.filter(|budget| budget.key().is_template());
        template.is_some_and(|budget| living >= budget.max_keys())
            && !planted::is(Bug::KeysUncounted)
    }

    /// Returns the rule with exactly this pattern.
    #[must_use]
    pub fn rule_named(&self, pattern: &KeyPattern) -> Option<(RuleId, &Rule)> {
        let id = self.catalog.get(pattern)?;
        self.rules.get(&id).map(|rule| (id, rule))
    }

    /// Returns the rules of which an instance was forgotten before it was provably full.
    pub fn cold_rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        let cold = self.index.cold.iter();
        cold.filter_map(|&id| Some((id, self.rules.get(&id)?)))
    }

    /// Returns the generations of one rule, including those that are being wound up.
    pub fn budgets_of(&self, rule: RuleId) -> impl Iterator<Item = (BudgetId, &Generation)> {
        self.named(self.index.of_rule.of(rule))
    }

    /// Returns the number of generations of a rule that have not ended.
    #[must_use]
    pub fn generations_of(&self, rule: RuleId) -> u64 {
        u64::try_from(self.index.of_rule.count(&rule)).unwrap_or(u64::MAX)
    }

    /// Returns the generations of which something is kept of a closed incarnation.
    pub fn kept_of(
        &self,
        incarnation: Incarnation,
    ) -> impl Iterator<Item = (BudgetId, &Generation)> {
        self.named(self.index.kept.of(incarnation))
    }

    fn named(
        &self,
        budgets: impl Iterator<Item = BudgetId>,
    ) -> impl Iterator<Item = (BudgetId, &Generation)> {
        budgets.filter_map(|id| Some((id, self.budgets.get(&id)?)))
    }

    /// Returns the generations with an id of at least `from`, ordered by id.
    pub fn budgets_from(&self, from: BudgetId) -> impl Iterator<Item = (BudgetId, &Generation)> {
        let after = self.budgets.from(from);
        after.map(|(&id, generation)| (id, generation))
    }

    /// Returns all generations.
    pub fn budgets(&self) -> impl ExactSizeIterator<Item = (BudgetId, &Generation)> {
        self.budgets
            .iter()
            .map(|(&id, generation)| (id, generation))
    }

    /// Returns a generation.
    #[must_use]
    pub fn budget(&self, id: BudgetId) -> Option<&Generation> {
        self.budgets.get(&id)
    }

    /// Returns true if a generation has ended, as far as this replica knows: its id was issued, and it does
    /// not exist. Ids are issued once, in rising order, so it never comes back.
    #[must_use]
    pub fn has_ended(&self, id: BudgetId) -> bool {
        id < self.next_budget && self.budgets.get(&id).is_none() && !planted::is(Bug::EndForgotten)
    }

    /// Returns the generation of a concrete key.
    #[must_use]
    pub fn budget_of(&self, key: &Key) -> Option<BudgetId> {
        self.keys.get(key).copied()
    }

    /// Applies entry `index`. The empty entry that begins a term is `None`.
    ///
    /// An entry at or below the applied index changes nothing: replaying any part of the log gives the same
    /// state.
    pub fn apply(&mut self, index: u64, command: Option<&Command>) -> Vec<Effect> {
        self.apply_slice(index, command, usize::MAX)
    }

    /// Applies entry `index`, or the next slice of it, which closes at most `most` books of reclaimed incarnations. While
    /// [`State::is_half_applied`], the rest of the entry follows by calls for the same entry, and nothing else may be
    /// applied or frozen.
    pub fn apply_slice(
        &mut self,
        index: u64,
        command: Option<&Command>,
        most: usize,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        if index <= self.applied && !self.is_half_applied && !planted::is(Bug::ApplyTwice) {
            return effects;
        }
        self.applied = index;
        if let Some(command) = command {
            self.carry_out(command, most, &mut effects);
        }
        effects
    }

    fn carry_out(&mut self, command: &Command, most: usize, effects: &mut Vec<Effect>) {
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
            Command::Round(changes) => self.round(changes, most, effects),
        }
    }

    /// Returns true if a request is among those carried out last. A caller that lost the answer learns the
    /// outcome by it.
    #[must_use]
    pub fn has_carried_out(&self, request: RequestId) -> bool {
        self.requests.contains(request)
    }

    /// Returns true if a request is new, and remembers it as carried out.
    pub(super) fn is_new(&mut self, request: RequestId, effects: &mut Vec<Effect>) -> bool {
        let new = self.requests.remember(request);
        if !new {
            effects.push(Effect::Repeated(request));
        }
        new
    }

    fn join(&mut self, node: NodeId, request: RequestId, effects: &mut Vec<Effect>) {
        if self.removed.contains(&node) || !self.is_new(request, effects) {
            return;
        }
        let former = self
            .members
            .iter()
            .find_map(|(&incarnation, member)| (member.node == node).then_some(incarnation));
        let incarnation = match former {
            Some(incarnation) if planted::is(Bug::IncarnationReused) => incarnation,
            _ => self.next_incarnation,
        };
        let Some(next) = self.next_incarnation.next() else {
            return;
        };
        self.next_incarnation = next;
        let member = Member {
            node,
            phase: Phase::Live,
            silence: None,
        };
        self.members.insert(incarnation, member);
        effects.push(Effect::Joined {
            node,
            incarnation,
            request,
        });
    }

    fn remove(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        self.removed.insert(node);
        for (&incarnation, member) in &mut self.members {
            if member.node == node {
                member.phase = Phase::Leaving;
                effects.push(Effect::Leaving(incarnation));
            }
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}
