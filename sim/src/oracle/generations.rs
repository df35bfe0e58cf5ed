//! Invariant 1 for a key: all budgets that it ever had admit no more together than one bucket of its greatest
//! limit.
//!
//! A key that is deleted and created again has another budget, with a book of its own. The envelope of each of
//! them does not find a key that begins anew too early.

use super::admission::Admission;
use super::{Found, tick};
use aliquot_core::budget::{Budget, Key};
use aliquot_core::check::{Envelope, Limit};
use aliquot_core::share::Kind;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Drift, Rate, Scale, Tokens};
use std::collections::BTreeMap;

const NAME: (u8, &str) = (1, "envelope");

/// The greatest limit that the rules of a pattern ever have.
#[derive(Clone, Debug)]
pub(crate) struct Greatest {
    budget: Budget,
    /// Tokens per second and tokens, rounded up.
    limit: (u64, u64),
}

impl Greatest {
    /// Returns the greatest limit of versions of one rate budget; `None` if it is of another kind.
    pub(crate) fn of(budget: &Budget, versions: impl Iterator<Item = Budget>) -> Option<Self> {
        if budget.kind() != Kind::Rate {
            return None;
        }
        let limits = versions.map(|version| {
            let (whole, grains) = (version.whole(), version.scale().grains_per_token());
            let tokens = |number: u64| number.div_ceil(grains);
            (tokens(whole.rate.grains()), tokens(whole.burst.grains()))
        });
        let limit = limits.fold((0, 0), |most, limit| {
            (most.0.max(limit.0), most.1.max(limit.1))
        });
        let budget = budget.clone();
        Some(Self { budget, limit })
    }

    /// Returns the limit in grains of a scale.
    fn at(&self, scale: Scale) -> Limit {
        let grains = |tokens: u64| tokens.saturating_mul(scale.grains_per_token());
        let (rate, burst) = (grains(self.limit.0), grains(self.limit.1));
        Limit::new(Rate::from_grains(rate), Tokens::from_grains(burst))
    }
}

/// The admissions of a key, in grains of its first budget.
#[derive(Debug)]
struct Whole {
    scale: Scale,
    envelope: Envelope,
}

#[derive(Debug)]
pub(crate) struct Check {
    drift: Drift,
    greatest: Vec<Greatest>,
    keys: Vec<Whole>,
    index_of: BTreeMap<Key, usize>,
    /// The key and the scale of each budget. Ids are issued in rising order.
    budgets: Vec<(BudgetId, usize, Scale)>,
    pub(super) found: Found,
}

impl Check {
    pub(super) fn new(drift: Drift, greatest: Vec<Greatest>) -> Self {
        Self {
            drift,
            greatest,
            keys: Vec::new(),
            index_of: BTreeMap::new(),
            budgets: Vec::new(),
            found: Found::default(),
        }
    }

    /// Takes the budgets that an entry created.
    pub(super) fn applied(&mut self, state: &State, effects: &[Effect]) {
        for effect in effects {
            let Effect::Created { budget: id, .. } = *effect else {
                continue;
            };
            let latest = self.budgets.last().map(|(id, ..)| *id);
            let Some(generation) = state
                .budget(id)
                .filter(|of| of.budget.kind() == Kind::Rate && Some(id) > latest)
            else {
                continue;
            };
            let (key, scale) = (&generation.key, generation.budget.scale());
            let known = self.index_of.get(key).copied();
            let Some(index) = known.or_else(|| self.begin(key, scale)) else {
                continue;
            };
            self.budgets.push((id, index, scale));
        }
    }

    fn begin(&mut self, key: &Key, scale: Scale) -> Option<usize> {
        let exact = |of: &&Greatest| of.budget.key().as_str() == key.as_str();
        let covers = |of: &&Greatest| of.budget.key().matches(key);
        let all = || self.greatest.iter();
        let greatest = all().find(exact).or_else(|| all().find(covers))?;
        let envelope = Envelope::new(greatest.at(scale), self.drift);
        self.index_of.insert(key.clone(), self.keys.len());
        self.keys.push(Whole { scale, envelope });
        Some(self.keys.len() - 1)
    }

    pub(super) fn admitted(&mut self, now: u64, admission: &Admission) {
        let found = self
            .budgets
            .binary_search_by_key(&admission.budget, |(id, ..)| *id);
        let Some(&(_, index, scale)) = found.ok().map(|found| &self.budgets[found]) else {
            return;
        };
        let whole = &mut self.keys[index];
        let (own, first) = (scale.grains_per_token(), whole.scale.grains_per_token());
        let cost = u128::from(admission.cost.grains()) * u128::from(first) / u128::from(own);
        let cost = Tokens::from_grains(u64::try_from(cost).unwrap_or(u64::MAX));
        whole.envelope.admit(tick(now), cost);
        let verdict = whole.envelope.verdict();
        if !verdict.is_pass() {
            self.found.record(NAME, verdict, first);
        }
    }
}
