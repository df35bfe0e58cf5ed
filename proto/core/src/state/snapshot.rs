//! Conversion of the state to plain data, and back.

use super::chunks::Chunks;
use super::index::Index;
use super::{Generation, Member, Rule, State};
use crate::budget::{Budget, Catalog, Key};
use crate::few::CompactMap;
use crate::interner::Interner;
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Drift, Incarnation, NodeId, RequestId, RuleId, Span};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// The complete state of a replica at an index.
#[derive(Clone, Debug, PartialEq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// Index of the last entry that it contains.
    pub applied: u64,
    /// The bound on drift.
    pub drift: Drift,
    /// The nodes' lease.
    pub lease: Span,
    /// The longest lease ever in force.
    pub patience: Span,
    /// The next incarnation to issue.
    pub next_incarnation: Incarnation,
    /// The next generation to issue.
    pub next_budget: BudgetId,
    /// The next rule to issue.
    pub next_rule: RuleId,
    /// The incarnations that are not over.
    pub members: Vec<(Incarnation, Member)>,
    /// The nodes that were removed.
    pub removed: Vec<NodeId>,
    /// The rules.
    pub rules: Vec<(RuleId, Rule)>,
    /// The generations with their books.
    pub budgets: Vec<(BudgetId, Generation)>,
    /// The requests carried out last, oldest first.
    pub requests: Vec<RequestId>,
}

/// Reason why a snapshot is not a state. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RestoreError {
    /// An id was used that was never issued.
    Name {
        /// Kind of the id.
        what: &'static str,
    },
    /// A book does not add up, is of another kind than its budget, or has a holder that is no member.
    Book(BudgetId),
    /// Two entries for one key or id.
    Duplicate {
        /// Kind of the entries.
        what: &'static str,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { what } => write!(f, "the snapshot names a {what} that was never issued"),
            Self::Book(budget) => {
                write!(
                    f,
                    "the snapshot's book of budget {budget} contradicts the rest"
                )
            }
            Self::Duplicate { what } => write!(f, "the snapshot holds two {what}"),
        }
    }
}

impl core::error::Error for RestoreError {}

/// A state as it was at one entry. It shares with the live state what did not change since, and is made in
/// the time of a few entries.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// Everything but the rules and the generations.
    rest: Snapshot,
    rules: Chunks<RuleId, Rule>,
    budgets: Chunks<BudgetId, Generation>,
}

impl Frozen {
    /// Returns the state as plain data, in time proportional to its size.
    #[must_use]
    pub fn snapshot(self) -> Snapshot {
        Snapshot {
            rules: self.rules.to_vec(),
            budgets: self.budgets.to_vec(),
            ..self.rest
        }
    }
}

impl State {
    /// Returns the state as plain data.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.freeze().snapshot()
    }

    /// Returns the present state, to be converted to plain data on another thread.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        debug_assert!(!self.is_half_applied, "an entry is half applied");
        Frozen {
            rest: self.without_books(),
            rules: self.rules.clone(),
            budgets: self.budgets.clone(),
        }
    }

    fn without_books(&self) -> Snapshot {
        Snapshot {
            applied: self.applied,
            drift: self.drift,
            lease: self.lease,
            patience: self.patience,
            next_incarnation: self.next_incarnation,
            next_budget: self.next_budget,
            next_rule: self.next_rule,
            members: self.members.clone().into_iter().collect(),
            removed: self.removed.iter().copied().collect(),
            rules: Vec::new(),
            budgets: Vec::new(),
            requests: self.requests.iter().collect(),
        }
    }

    /// Returns the state that a snapshot describes.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if the snapshot contradicts itself.
    pub fn restore(snapshot: Snapshot) -> Result<Self, RestoreError> {
        let catalog = snapshot.catalog()?;
        let keys = snapshot.keys()?;
        let issued = |incarnation: Incarnation| incarnation < snapshot.next_incarnation;
        let members: BTreeMap<Incarnation, Member> = snapshot.members.iter().copied().collect();
        if !members.keys().all(|&incarnation| issued(incarnation)) {
            return Err(RestoreError::Name {
                what: "incarnation",
            });
        }
        if members.len() != snapshot.members.len() {
            return Err(RestoreError::Duplicate {
                what: "incarnations",
            });
        }
        for (id, generation) in &snapshot.budgets {
            let account = &generation.account;
            let held = account
                .open()
                .all(|(incarnation, _)| members.contains_key(&incarnation));
            let kept = account.kept().all(|(incarnation, _)| issued(incarnation));
            let kind = account.kind() == generation.budget.kind();
            if !(held && kept && kind && account.adds_up()) {
                return Err(RestoreError::Book(*id));
            }
        }
        let requests = match planted::is(Bug::RestoreForgetsRequests) {
            true => Vec::new(),
            false => snapshot.requests,
        };
        let rules: Chunks<RuleId, Rule> = snapshot.rules.into_iter().collect();
        let mut named = Interner::default();
        let budgets = shared(snapshot.budgets, &rules, &mut named);
        let latest = members
            .keys()
            .next_back()
            .and_then(|incarnation| incarnation.next());
        let latest = latest.filter(|_| planted::is(Bug::RestoreForgetsIncarnations));
        Ok(Self {
            applied: snapshot.applied,
            is_half_applied: false,
            drift: snapshot.drift,
            lease: snapshot.lease,
            patience: snapshot.patience.max(snapshot.lease),
            next_incarnation: latest.unwrap_or(snapshot.next_incarnation),
            next_budget: snapshot.next_budget,
            next_rule: snapshot.next_rule,
            members,
            removed: BTreeSet::from_iter(snapshot.removed),
            catalog,
            keys,
            index: Index::new(&budgets, &rules),
            rules,
            budgets,
            requests: requests.into_iter().collect(),
            named,
        })
    }
}

/// Makes generations share the budget of their rule if it is equal, and equal named ones with each other.
fn shared(
    budgets: Vec<(BudgetId, Generation)>,
    rules: &Chunks<RuleId, Rule>,
    named: &mut Interner<Budget>,
) -> Chunks<BudgetId, Generation> {
    let shared = budgets.into_iter().map(|(id, mut generation)| {
        let rule = rules.get(&generation.rule);
        let rule = rule.filter(|rule| rule.budget == generation.budget);
        generation.budget = match rule {
            Some(rule) => Arc::clone(&rule.budget),
            None => named.share(&generation.budget),
        };
        (id, generation)
    });
    shared.collect()
}

impl Snapshot {
    /// Returns the rule of each pattern. Each pattern and each id must be unique.
    fn catalog(&self) -> Result<Catalog, RestoreError> {
        let (mut catalog, mut names) = (Catalog::default(), BTreeSet::new());
        for (id, rule) in &self.rules {
            if *id >= self.next_rule {
                return Err(RestoreError::Name { what: "rule" });
            }
            let what = "rules of one key or name";
            let inserted = catalog.insert(rule.budget.key(), *id);
            if inserted.is_err() || !names.insert(*id) {
                return Err(RestoreError::Duplicate { what });
            }
        }
        Ok(catalog)
    }

    /// Returns the generation of each key. Each key and each id must be unique.
    ///
    /// The keys of a million generations are sorted at once, which takes less time than adding each at its place.
    fn keys(&self) -> Result<CompactMap<Key, BudgetId>, RestoreError> {
        let mut ids: Vec<BudgetId> = self.budgets.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        if ids.last().is_some_and(|last| *last >= self.next_budget) {
            return Err(RestoreError::Name { what: "budget" });
        }
        let budgets = self.budgets.iter();
        let keys = budgets.map(|(id, generation)| (generation.key.clone(), *id));
        let mut keys: Vec<(Key, BudgetId)> = keys.collect();
        keys.sort_unstable();
        let twice = |pair: &[(Key, BudgetId)]| matches!(pair, [one, other] if one.0 == other.0);
        let same_id = |pair: &[BudgetId]| matches!(pair, [one, other] if one == other);
        if keys.windows(2).any(twice) || ids.windows(2).any(same_id) {
            let what = "generations of one key or name";
            return Err(RestoreError::Duplicate { what });
        }
        Ok(keys.into_iter().collect())
    }
}
