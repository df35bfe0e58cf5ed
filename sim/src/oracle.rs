//! The oracle: what must never be, judged as the world goes by.
//!
//! Each invariant of `docs/invariants.md` has its file and its number. The
//! functions that judge are the core's own, from its module `check`; what is
//! here feeds them with true times and with what clients were promised.
//!
//! | number | file | fed with |
//! |---|---|---|
//! | 1 | `envelope` | every admission, every limit as the book has it |
//! | 2 | `conservation` | what all believe they hold, every 50 ms |
//! | 3 | `disjointness` | reclaims, and admissions after them |
//! | 4 | `commits` | what nodes were given, against the log |
//! | 5 | `patience` | every round that is proposed |
//! | 6 | `edges` | every counter, every 50 ms |
//! | 7 | `degraded` | admissions without a lease |
//! | 8 | `healing` | the whole world, after the last fault |
//! | 11 | `dominance` | every decision |
//!
//! The limit in force is what the first replica to apply an entry says, joined
//! with what is still booked to anybody: a lowered limit is in force when the
//! book has shrunk to it, and no sooner. That bound needs no lag, and is the
//! tightest there is.

mod admission;
mod bench;
mod commits;
mod conservation;
mod degraded;
mod disjointness;
mod dominance;
mod edges;
mod envelope;
mod healing;
mod patience;

pub(crate) use admission::{Admission, Flight, Flown, Right};
pub(crate) use bench::Bench;
pub(crate) use healing::{Healing, Health};

use aliquot_core::check::When;
use aliquot_core::check::{Doubt, Verdict};
use aliquot_core::share::Kind;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Drift, Tick, Tokens};

/// A breach of an invariant.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The invariant, as files name it.
    pub invariant: &'static str,
    /// Its number in `docs/invariants.md`.
    pub number: u8,
    /// True time of its begin and end, in nanoseconds.
    pub within: (u64, u64),
    /// By how much, in tokens where it is tokens.
    pub excess: f64,
    /// What happened.
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

/// What a checker found first, and why it could not judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) breach: Option<Breach>,
    pub(crate) doubt: Option<String>,
}

impl Found {
    /// Takes note of a breach at one instant.
    pub(crate) fn fail(
        &mut self,
        invariant: (u8, &'static str),
        at: u64,
        what: impl FnOnce() -> String,
    ) {
        if self.breach.is_none() {
            self.breach = Some(Breach {
                invariant: invariant.1,
                number: invariant.0,
                within: (at, at),
                excess: 0.0,
                what: what(),
            });
        }
    }

    /// Takes note of what a function of the core says, in tokens of so many grains.
    pub(crate) fn hear(&mut self, invariant: (u8, &'static str), verdict: Verdict, grains: u64) {
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

/// True time, as the core's checkers take it.
pub(crate) const fn tick(now: u64) -> Tick {
    Tick::from_nanos(now)
}

/// All checkers.
#[derive(Debug)]
pub(crate) struct Oracle {
    drift: Drift,
    benches: Vec<(BudgetId, Bench)>,
    pub(crate) disjoint: disjointness::Check,
    pub(crate) commits: commits::Check,
    pub(crate) patience: patience::Check,
    pub(crate) edges: edges::Check,
    pub(crate) degraded: degraded::Check,
    pub(crate) healing: Healing,
    /// The last entry that any replica has applied.
    applied: u64,
}

impl Oracle {
    pub(crate) fn new(drift: Drift) -> Self {
        Self {
            drift,
            benches: Vec::new(),
            disjoint: disjointness::Check::new(drift),
            commits: commits::Check::default(),
            patience: patience::Check::default(),
            edges: edges::Check::new(),
            degraded: degraded::Check::new(drift),
            healing: Healing::default(),
            applied: 0,
        }
    }

    /// The last entry that any replica has applied.
    pub(crate) const fn latest_applied(&self) -> u64 {
        self.applied
    }

    /// An entry was applied; only the first replica's word counts. `lease` is
    /// how long nobody may hear of it.
    pub(crate) fn applied(&mut self, now: u64, index: u64, state: &State, effects: &[Effect]) {
        if index <= self.applied {
            return;
        }
        self.applied = index;
        self.disjoint.applied(now, state, effects);
        for (id, generation) in state.budgets() {
            match self.benches.iter_mut().find(|(known, _)| *known == id) {
                Some((_, bench)) => bench.follow(now, generation),
                None => self
                    .benches
                    .push((id, Bench::new(now, generation, self.drift))),
            }
        }
        for effect in effects {
            if let Effect::Stamped(budget, period) = effect
                && let Some(bench) = self.bench(*budget)
            {
                bench.stamped(now + state.patience().nanos(), *period);
            }
        }
    }

    pub(crate) fn bench(&mut self, budget: BudgetId) -> Option<&mut Bench> {
        let found = self.benches.iter_mut().find(|(known, _)| *known == budget);
        found.map(|(_, bench)| bench)
    }

    /// The checkers of budgets of permits.
    pub(crate) fn of_permits(&mut self) -> impl Iterator<Item = (BudgetId, &mut Bench)> {
        let all = self.benches.iter_mut().map(|(id, bench)| (*id, bench));
        all.filter(|(_, bench)| bench.kind == Kind::Concurrency)
    }

    pub(crate) fn admitted(&mut self, now: u64, admission: &Admission) {
        let grains = self.bench(admission.budget).map_or(1, |bench| bench.grains);
        if self.degraded.admitted(now, admission, grains) {
            return;
        }
        self.disjoint.admitted(now, admission, grains);
        match self.bench(admission.budget) {
            Some(bench) => bench.admitted(now, admission),
            None => self.commits.unknown_budget(now, admission),
        }
    }

    pub(crate) fn refused(&mut self, now: u64, budget: BudgetId, cost: Tokens) {
        if let Some(bench) = self.bench(budget) {
            bench.refused(now, cost);
        }
    }

    /// All that was found so far: each invariant's first breach.
    pub(crate) fn found(&self) -> impl Iterator<Item = &Found> {
        let own = [
            &self.disjoint.found,
            &self.commits.found,
            &self.patience.found,
            &self.edges.found,
            &self.degraded.found,
            &self.healing.found,
        ];
        self.benches
            .iter()
            .flat_map(|(_, bench)| bench.found())
            .chain(own)
    }

    /// The least slack under an envelope, in tokens, and the worst excess over one.
    pub(crate) fn slack(&self) -> Option<f64> {
        let all = self.benches.iter().filter_map(|(_, bench)| bench.slack());
        all.reduce(f64::min)
    }
}
