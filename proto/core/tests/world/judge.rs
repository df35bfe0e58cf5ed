//! Judges a world during its run by the checkers of the core.
//!
//! All admissions are judged at their true times. The limit in force is that of the first replica to apply an
//! entry, joined with what is still booked to any holder: a lowered limit is in force when the book has
//! shrunk to it, and no sooner. That bound needs no lag, and is the tightest there is.

use super::clock::SEC;
use aliquot_core::check::{
    Disjointness, Dominance, Envelope, Holdings, LaggedEnvelope, Limit, Limits, Monotone,
    TokenAccount, Verdict,
};
use aliquot_core::edge::Counters;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::{Effect, Generation, State};
use aliquot_core::unit::{
    BudgetId, Drift, Edge, Incarnation, PeriodId, Rate, Scale, Span, Tick, Tokens,
};

/// The first breach of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The check that found it.
    pub(crate) by: &'static str,
    pub(crate) at: u64,
    pub(crate) what: String,
}

/// The checkers of one generation of the budget.
#[derive(Debug)]
struct Bench {
    id: BudgetId,
    limit: Limit,
    envelope: LaggedEnvelope,
    dominance: Dominance,
    account: TokenAccount,
}

#[derive(Debug)]
pub(crate) struct Judge {
    drift: Drift,
    pub(crate) scale: Option<Scale>,
    uniform: bool,
    bench: Option<Bench>,
    /// Over all generations: the greatest limit that the plan of the world ever sets.
    whole: Option<Envelope>,
    greatest: (u64, u64),
    disjoint: Disjointness<Incarnation>,
    /// A quota's counters begin again with each period, and periods only follow one another.
    edges: Monotone<(Edge, BudgetId, PeriodId), 12>,
    periods: Monotone<(Edge, BudgetId), 1>,
    /// The last entry that any replica has applied.
    applied: u64,
    pub(crate) breach: Option<Breach>,
    pub(crate) slack: i128,
    // Tokens: admitted, and made by the limit, until `since`.
    pub(crate) admitted: f64,
    pub(crate) made: f64,
    since: u64,
}

fn tick(now: u64) -> Tick {
    Tick::from_nanos(now)
}

impl Judge {
    /// `greatest`: tokens per second and tokens that no limit of the plan exceeds.
    pub(crate) fn new(drift: Drift, uniform: bool, greatest: (u64, u64)) -> Self {
        Self {
            drift,
            scale: None,
            uniform,
            bench: None,
            whole: None,
            greatest,
            disjoint: Disjointness::new(drift),
            edges: Monotone::new(["a counter of an edge that went back"; 12]),
            periods: Monotone::new(["a period of an edge that went back"]),
            applied: 0,
            breach: None,
            slack: i128::MAX,
            admitted: 0.0,
            made: 0.0,
            since: 0,
        }
    }

    pub(crate) fn fail(&mut self, by: &'static str, at: u64, what: impl FnOnce() -> String) {
        if self.breach.is_none() {
            let what = what();
            self.breach = Some(Breach { by, at, what });
        }
    }

    pub(crate) fn hear(&mut self, by: &'static str, at: u64, verdict: Verdict) {
        if !verdict.is_pass() {
            self.fail(by, at, || verdict.to_string());
        }
    }

    /// Adds up what the limit made until `now`.
    pub(crate) fn account_until(&mut self, now: u64) {
        if let (Some(bench), Some(scale)) = (&self.bench, self.scale) {
            let rate = bench.limit.rate.grains() as f64 / scale.grains_per_token() as f64;
            self.made += rate * (now - self.since) as f64 / SEC as f64;
        }
        self.since = now;
    }

    /// Takes an applied entry. Only the first replica that applies it counts.
    pub(crate) fn applied(&mut self, now: u64, index: u64, state: &State, effects: &[Effect]) {
        if index <= self.applied {
            return;
        }
        self.applied = index;
        for effect in effects {
            if let Effect::Reclaimed(incarnation) = effect {
                let floors = state.budgets().find_map(|(_, generation)| {
                    let mut kept = generation.account.kept();
                    kept.find(|(of, _)| of == incarnation).map(|(_, kept)| {
                        Limit::new(kept.holding.floor_rate, kept.holding.floor_burst)
                    })
                });
                self.disjoint.reclaimed(tick(now), *incarnation, floors);
            }
        }
        let living = state
            .budgets()
            .find(|(_, of)| of.budget.kind() == Kind::Rate);
        let Some((id, generation)) = living else {
            self.account_until(now);
            self.bench = None;
            return;
        };
        if !generation.account.adds_up() {
            self.fail("conservation", now, || {
                format!("a book that does not add up: {:?}", generation.account)
            });
        }
        self.follow(now, id, generation);
    }

    fn follow(&mut self, now: u64, id: BudgetId, generation: &Generation) {
        let (whole, held) = (generation.account.whole(), generation.account.held());
        let limit = Limit::new(whole.rate, whole.burst).join(Limit::new(held.rate, held.burst));
        let scale = generation.budget.scale();
        if self.scale.is_none() {
            self.scale = Some(scale);
            let per_token = scale.grains_per_token();
            let greatest = Limit::new(
                Rate::from_grains(per_token * self.greatest.0),
                Tokens::from_grains(per_token * self.greatest.1),
            );
            self.whole = Some(Envelope::new(greatest, self.drift));
        }
        self.account_until(now);
        match &mut self.bench {
            Some(bench) if bench.id == id => {
                if bench.limit != limit {
                    bench.limit = limit;
                    bench.envelope.change(tick(now), limit);
                    bench.dominance.change(tick(now), limit);
                    bench.account.change(tick(now), limit);
                }
            }
            _ => {
                let limits = Limits::new(tick(now), limit, Span::ZERO);
                self.bench = Some(Bench {
                    id,
                    limit,
                    envelope: LaggedEnvelope::new(limits.clone(), self.drift),
                    dominance: Dominance::new(limits.clone(), self.drift),
                    account: TokenAccount::new(limits, self.drift),
                });
            }
        }
    }

    pub(crate) fn admitted(&mut self, now: u64, edge: Option<Edge>, cost: Tokens) {
        let at = tick(now);
        let Some(scale) = self.scale else {
            self.fail("envelope", now, || {
                "admitted before there was a budget".into()
            });
            return;
        };
        self.admitted += cost.grains() as f64 / scale.grains_per_token() as f64;
        if let Some(whole) = &mut self.whole {
            whole.admit(at, cost);
            let verdict = whole.verdict();
            self.hear("envelope", now, verdict);
        }
        if let Some(edge) = edge {
            self.disjoint.admitted(at, &edge.parent, cost);
            let verdict = self.disjoint.verdict();
            self.hear("disjointness", now, verdict);
        }
        let Some(bench) = &mut self.bench else {
            self.fail("envelope", now, || {
                "admitted of a budget that had ended".into()
            });
            return;
        };
        bench.envelope.admit(at, cost);
        bench.account.spend(at, cost);
        self.slack = self.slack.min(bench.envelope.report().slack);
        let envelope = bench.envelope.verdict();
        let dominance = if self.uniform {
            bench.dominance.admitted(at, cost);
            bench.dominance.verdict()
        } else {
            Verdict::Pass
        };
        self.hear("envelope", now, envelope);
        self.hear("dominance", now, dominance);
    }

    pub(crate) fn refused(&mut self, now: u64, cost: Tokens) {
        if let (true, Some(bench)) = (self.uniform, &mut self.bench) {
            bench.dominance.refused(tick(now), cost);
        }
    }

    /// Judges what all holders believe that they may use at this instant, and its levels.
    pub(crate) fn believed(&mut self, now: u64, parts: &[Share], pool: Share) {
        let Some(bench) = &mut self.bench else {
            return;
        };
        let mut held = Holdings::of(parts.iter().copied());
        held.add(pool);
        let verdict = held.judge(Kind::Rate, tick(now), bench.limit, Tokens::ZERO);
        bench.account.observe(tick(now), held.tokens());
        let tokens = bench.account.verdict();
        self.hear("conservation", now, verdict);
        self.hear("conservation", now, tokens);
    }

    /// Checks the counters of an edge as its child knows them.
    pub(crate) fn edge(&mut self, now: u64, edge: Edge, budget: BudgetId, counters: &Counters) {
        let (given, returned) = (counters.given.to_array(), counters.returned.to_array());
        let mut all = [0; 12];
        for (slot, value) in all.iter_mut().zip(given.into_iter().chain(returned)) {
            *slot = value;
        }
        let period = counters.period;
        let edges = self.edges.observe(tick(now), (edge, budget, period), all);
        let periods = self
            .periods
            .observe(tick(now), (edge, budget), [period.get()]);
        if let Err(violation) = edges.and(periods) {
            self.fail("monotone edges", now, || violation.to_string());
        }
    }
}
