//! The oracle: judges the invariants while a simulation runs.
//!
//! Each invariant of `docs/invariants.md` has its own file here, named with its number. The judging functions
//! are the core's own, from its module `check`. This module feeds them with true times and with the promises
//! that clients were given.
//!
//! | number | file | fed with |
//! |---|---|---|
//! | 1 | `envelope`, `generations` | every admission, every limit as the book has it, and the greatest limit of each key |
//! | 2 | `conservation` | the shares that all hosts believe they hold, every 50 ms |
//! | 3 | `disjointness` | reclaims, and admissions after them |
//! | 4 | `commits` | the grants that nodes received, and the log |
//! | 5 | `patience` | every reclaim, and that its proposer is ready |
//! | 6 | `edges` | the counters of every edge, every 50 or 200 ms |
//! | 7 | `degraded` | admissions without a lease |
//! | 8 | `healing` | the state of all hosts, after the last fault |
//! | 9 | `availability` | what callers want, and every admission |
//! | 11 | `dominance` | every decision |
//! | 13 | `bounded` | what each turn of a node applies |
//!
//! The limit in force is the one of the first replica that applies an entry, joined with everything that is
//! still booked to any holder. A lowered limit is therefore in force only once the book has shrunk to it.
//! This bound needs no lag, and it is the tightest one possible.

mod admission;
pub(crate) mod availability;
mod bounded;
mod budget_checkers;
mod commits;
mod conservation;
mod degraded;
mod disjointness;
mod dominance;
mod edges;
mod envelope;
mod generations;
mod healing;
mod patience;

pub(crate) use admission::{Admission, Flight, Flown, Right};
pub(crate) use budget_checkers::BudgetCheckers;
pub(crate) use generations::Greatest;
pub(crate) use healing::{Healing, Health};

use aliquot_core::check::When;
use aliquot_core::check::{Doubt, Verdict};
use aliquot_core::command::Command;
use aliquot_core::share::Kind;
use aliquot_core::state::{Effect, Generation, State};
use aliquot_core::unit::{BudgetId, Drift, Tick, Tokens};
use std::collections::BTreeSet;

/// A breach of an invariant.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The invariant's name, as scenario files write it.
    pub invariant: &'static str,
    /// The invariant's number in `docs/invariants.md`.
    pub number: u8,
    /// True times of its begin and end, in nanoseconds.
    pub within: (u64, u64),
    /// Size of the breach: in tokens, for dominance in admissions, and 0 if it has no size.
    pub excess: f64,
    /// A description of the breach.
    pub what: String,
}

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, to) = (self.within.0 as f64 / 1e9, self.within.1 as f64 / 1e9);
        write!(f, "invariant {} ({}) ", self.number, self.invariant)?;
        match self.within.0 == self.within.1 {
            true => write!(f, "at {to:.4} s: {}", self.what),
            false => write!(f, "within {from:.4} to {to:.4} s: {}", self.what),
        }
    }
}

/// The findings of a checker: its first breach, and the first reason for which it could not judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) breach: Option<Breach>,
    pub(crate) doubt: Option<String>,
}

impl Found {
    /// Records a breach at one instant, unless one is recorded already.
    pub(crate) fn fail(
        &mut self,
        invariant: (u8, &'static str),
        at: u64,
        what: impl FnOnce() -> String,
    ) {
        self.fail_within(invariant, (at, at), what);
    }

    /// Records a breach in a window, unless one is recorded already.
    pub(crate) fn fail_within(
        &mut self,
        invariant: (u8, &'static str),
        within: (u64, u64),
        what: impl FnOnce() -> String,
    ) {
        if self.breach.is_none() {
            self.breach = Some(Breach {
                invariant: invariant.1,
                number: invariant.0,
                within,
                excess: 0.0,
                what: what(),
            });
        }
    }

    /// Records the verdict of a function of the core, converted to tokens of `grains` grains each.
    pub(crate) fn record(&mut self, invariant: (u8, &'static str), verdict: Verdict, grains: u64) {
        match verdict {
            Verdict::Pass => {}
            Verdict::Unknown(Doubt::WeightedCosts) => {}
            Verdict::Unknown(doubt) => {
                self.doubt
                    .get_or_insert_with(|| format!("{}: {doubt}", invariant.1));
            }
            Verdict::Fail(violation) if self.breach.is_none() => {
                let within = match violation.when {
                    When::At(at) => (at.nanos(), at.nanos()),
                    When::Within { from, to } => (from.nanos(), to.nanos()),
                };
                let excess = violation.excess as f64 / grains as f64;
                self.breach = Some(Breach {
                    invariant: invariant.1,
                    number: invariant.0,
                    within,
                    excess,
                    what: format!(
                        "{} {} ({excess:.6} tokens)",
                        violation.excess, violation.what
                    ),
                });
            }
            Verdict::Fail(_) => {}
        }
    }
}

/// Converts a true time for the core's checkers.
pub(crate) const fn tick(now: u64) -> Tick {
    Tick::from_nanos(now)
}

/// All checkers.
#[derive(Debug)]
pub(crate) struct Oracle {
    drift: Drift,
    checkers: Vec<(BudgetId, BudgetCheckers)>,
    generations: generations::Check,
    pub(crate) disjoint: disjointness::Check,
    pub(crate) commits: commits::Check,
    pub(crate) patience: patience::Check,
    pub(crate) bounded: bounded::Check,
    pub(crate) edges: edges::Check,
    pub(crate) degraded: degraded::Check,
    pub(crate) healing: Healing,
    pub(crate) availability: availability::Check,
    /// Index of the last entry that any replica has applied.
    applied: u64,
}

impl Oracle {
    /// `greatest`: the greatest limit of every rate budget that the run makes.
    pub(crate) fn new(
        drift: Drift,
        greatest: Vec<Greatest>,
        availability: availability::Check,
    ) -> Self {
        Self {
            drift,
            checkers: Vec::new(),
            generations: generations::Check::new(drift, greatest),
            disjoint: disjointness::Check::new(drift),
            commits: commits::Check::default(),
            patience: patience::Check::default(),
            bounded: bounded::Check::default(),
            edges: edges::Check::new(),
            degraded: degraded::Check::new(drift),
            healing: Healing::default(),
            availability,
            applied: 0,
        }
    }

    /// Returns the index of the last entry that any replica has applied.
    pub(crate) const fn latest_applied(&self) -> u64 {
        self.applied
    }

    /// Takes the effects of an entry from the first replica that applies it, and ignores the others.
    pub(crate) fn applied(
        &mut self,
        now: u64,
        index: u64,
        state: &State,
        (command, effects): (Option<&Command>, &[Effect]),
    ) {
        if index <= self.applied {
            return;
        }
        self.applied = index;
        self.disjoint.applied(now, state, effects);
        self.patience.applied(now, effects);
        self.generations.applied(state, effects);
        match budgets_of(command, effects) {
            Some(changed) => {
                let changed = changed.into_iter();
                let found = changed.filter_map(|id| Some((id, state.budget(id)?)));
                found.for_each(|(id, generation)| self.follow(now, id, generation));
            }
            None => {
                let all = state.budgets();
                all.for_each(|(id, generation)| self.follow(now, id, generation));
            }
        }
        for effect in effects {
            if let Effect::Stamped(budget, period) = effect
                && let Some(checkers) = self.checkers(*budget)
            {
                checkers.stamped(now + state.patience().nanos(), *period);
            }
            if let Some(checkers) = effect.ended().and_then(|budget| self.checkers(budget)) {
                checkers.ended();
            }
        }
    }

    /// Follows the book of a budget after an entry.
    fn follow(&mut self, now: u64, id: BudgetId, generation: &Generation) {
        match self.checkers.binary_search_by_key(&id, |(known, _)| *known) {
            Ok(found) => self.checkers[found].1.follow(now, generation),
            Err(place) => {
                let checkers = BudgetCheckers::new(now, generation, self.drift);
                self.checkers.insert(place, (id, checkers));
            }
        }
    }

    pub(crate) fn checkers(&mut self, budget: BudgetId) -> Option<&mut BudgetCheckers> {
        let checkers = &mut self.checkers;
        let found = checkers.binary_search_by_key(&budget, |(known, _)| *known);
        found.ok().map(|found| &mut checkers[found].1)
    }

    /// Iterates over the checkers of budgets of permits.
    pub(crate) fn of_permits(&mut self) -> impl Iterator<Item = (BudgetId, &mut BudgetCheckers)> {
        let all = self
            .checkers
            .iter_mut()
            .map(|(id, checkers)| (*id, checkers));
        all.filter(|(_, checkers)| checkers.kind == Kind::Concurrency)
    }

    pub(crate) fn admitted(&mut self, now: u64, admission: &Admission) {
        let grains = self
            .checkers(admission.budget)
            .map_or(1, |checkers| checkers.grains);
        if self.degraded.admitted(now, admission, grains) {
            return;
        }
        self.disjoint.admitted(now, admission, grains);
        self.generations.admitted(now, admission);
        match self.checkers(admission.budget) {
            Some(checkers) => checkers.admitted(now, admission),
            None => self.commits.unknown_budget(now, admission),
        }
    }

    pub(crate) fn refused(&mut self, now: u64, budget: BudgetId, cost: Tokens) {
        if let Some(checkers) = self.checkers(budget) {
            checkers.refused(now, cost);
        }
    }

    /// Iterates over the findings of all checkers.
    pub(crate) fn found(&self) -> impl Iterator<Item = &Found> {
        let own = [
            &self.generations.found,
            &self.disjoint.found,
            &self.commits.found,
            &self.patience.found,
            &self.bounded.found,
            &self.edges.found,
            &self.degraded.found,
            &self.healing.found,
            &self.availability.found,
        ];
        self.checkers
            .iter()
            .flat_map(|(_, checkers)| checkers.found())
            .chain(own)
    }

    /// Returns the least slack under any envelope, in tokens; negative if an envelope is broken.
    pub(crate) fn slack(&self) -> Option<f64> {
        let all = self
            .checkers
            .iter()
            .filter_map(|(_, checkers)| checkers.slack());
        all.reduce(f64::min)
    }
}

/// Returns the budgets whose books an entry may have changed; `None` if that may be all of them.
fn budgets_of(command: Option<&Command>, effects: &[Effect]) -> Option<BTreeSet<BudgetId>> {
    let mut changed: BTreeSet<BudgetId> = effects.iter().filter_map(Effect::budget).collect();
    match command {
        None | Some(Command::Instantiate { .. }) => {}
        Some(Command::Round(round)) if round.reclaims.is_empty() => {
            let movements = round.releases.iter().chain(&round.grants);
            changed.extend(movements.map(|of| of.budget));
            changed.extend(round.stamps.iter().map(|of| of.0));
            changed.extend(round.floors.iter().map(|of| of.budget));
            changed.extend(round.forgets.iter().map(|of| of.0));
            changed.extend(round.endings.iter().map(|of| of.budget));
        }
        Some(_) => return None,
    }
    Some(changed)
}

#[cfg(test)]
#[path = "../tests/unit/oracle.rs"]
mod tests;
