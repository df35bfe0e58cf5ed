//! The state as plain data, and back.

use super::{Generation, Member, Rule, State};
use crate::budget::{Catalog, Key};
use crate::unit::{BudgetId, Drift, Incarnation, NodeId, RequestId, RuleId, Span};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

/// Everything that a replica must know to go on from an index.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// The last entry it contains.
    pub applied: u64,
    /// The bound on drift.
    pub drift: Drift,
    /// The nodes' lease.
    pub lease: Span,
    /// The longest lease that was ever in force.
    pub patience: Span,
    /// The next life to be issued.
    pub next_incarnation: Incarnation,
    /// The next generation to be issued.
    pub next_budget: BudgetId,
    /// The next rule to be issued.
    pub next_rule: RuleId,
    /// The lives that are not over.
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

/// Why a snapshot is not a state. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// A name was used that was never issued, or twice.
    Name {
        /// What it names.
        what: &'static str,
    },
    /// A book does not add up.
    Book(BudgetId),
    /// Two rules for one key, or two generations of one key.
    Duplicate {
        /// What there are two of.
        what: &'static str,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { what } => write!(f, "the snapshot names a {what} that was never issued"),
            Self::Book(budget) => {
                write!(f, "the snapshot's book of budget {budget} does not add up")
            }
            Self::Duplicate { what } => write!(f, "the snapshot holds two {what}"),
        }
    }
}

impl core::error::Error for RestoreError {}

impl State {
    /// The state as plain data.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
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
            rules: self.rules.clone().into_iter().collect(),
            budgets: self.budgets.clone().into_iter().collect(),
            requests: self.requests.iter().copied().collect(),
        }
    }

    /// The state that a snapshot describes.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if it contradicts itself.
    pub fn restore(snapshot: Snapshot) -> Result<Self, RestoreError> {
        let mut catalog = Catalog::default();
        for (id, rule) in &snapshot.rules {
            if *id >= snapshot.next_rule {
                return Err(RestoreError::Name { what: "rule" });
            }
            catalog
                .insert(rule.budget.key(), *id)
                .map_err(|_| RestoreError::Duplicate {
                    what: "rules of one key",
                })?;
        }
        let mut keys: BTreeMap<Key, BudgetId> = BTreeMap::new();
        for (id, generation) in &snapshot.budgets {
            if *id >= snapshot.next_budget {
                return Err(RestoreError::Name { what: "budget" });
            }
            if !generation.account.adds_up() {
                return Err(RestoreError::Book(*id));
            }
            if keys.insert(generation.key.clone(), *id).is_some() {
                return Err(RestoreError::Duplicate {
                    what: "generations of one key",
                });
            }
        }
        let issued = |(life, _): &(Incarnation, Member)| *life < snapshot.next_incarnation;
        if !snapshot.members.iter().all(issued) {
            return Err(RestoreError::Name { what: "life" });
        }
        Ok(Self {
            applied: snapshot.applied,
            drift: snapshot.drift,
            lease: snapshot.lease,
            patience: snapshot.patience.max(snapshot.lease),
            next_incarnation: snapshot.next_incarnation,
            next_budget: snapshot.next_budget,
            next_rule: snapshot.next_rule,
            members: snapshot.members.into_iter().collect(),
            removed: BTreeSet::from_iter(snapshot.removed),
            rules: snapshot.rules.into_iter().collect(),
            catalog,
            keys,
            budgets: snapshot.budgets.into_iter().collect(),
            requests: snapshot.requests.into(),
        })
    }
}
