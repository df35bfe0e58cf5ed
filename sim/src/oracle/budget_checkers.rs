//! The checkers of one budget's generation.

use super::admission::Admission;
use super::admission::Flown;
use super::{Found, conservation, dominance, envelope};
use aliquot_core::check::Limit;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::Generation;
use aliquot_core::unit::{Drift, PeriodId, Tokens};

#[derive(Debug)]
pub(crate) struct BudgetCheckers {
    pub(crate) kind: Kind,
    /// Grains of one token.
    pub(crate) grains: u64,
    limit: Limit,
    /// Set once the budget has ended.
    ended: bool,
    /// Tokens per second of the limit as configured.
    pub(crate) rate: f64,
    envelope: envelope::Check,
    conservation: conservation::Check,
    dominance: dominance::Check,
}

impl BudgetCheckers {
    pub(super) fn new(now: u64, generation: &Generation, drift: Drift) -> Self {
        let (kind, limit) = (generation.budget.kind(), limit_of(generation));
        let grains = generation.budget.scale().grains_per_token();
        Self {
            kind,
            grains,
            limit,
            ended: false,
            rate: rate_of(generation),
            envelope: envelope::Check::new(now, kind, limit, drift, grains),
            conservation: conservation::Check::new(now, kind, limit, drift, grains),
            dominance: dominance::Check::new(now, limit, drift),
        }
    }

    /// Follows the book of the budget after an entry.
    pub(super) fn follow(&mut self, now: u64, generation: &Generation) {
        self.rate = rate_of(generation);
        self.conservation.adds_up(now, generation);
        let limit = limit_of(generation);
        if limit != self.limit {
            self.limit = limit;
            self.envelope
                .change(now, limit, generation.account.period());
            self.conservation.change(now, limit);
            self.dominance.change(now, limit);
        }
    }

    pub(super) fn stamped(&mut self, ends: u64, period: PeriodId) {
        self.envelope.stamped(ends, period);
    }

    /// Records that the budget has ended: nothing of it may be admitted any more.
    pub(super) const fn ended(&mut self) {
        self.ended = true;
    }

    pub(super) fn admitted(&mut self, now: u64, admission: &Admission) {
        if self.ended {
            self.envelope.ended(now, admission);
        }
        self.envelope
            .admitted(now, admission.period, admission.cost);
        if self.kind == Kind::Rate {
            self.conservation.spent(now, admission.cost);
            self.dominance.admitted(now, admission.cost);
        }
    }

    pub(super) fn refused(&mut self, now: u64, cost: Tokens) {
        if self.kind == Kind::Rate {
            self.dominance.refused(now, cost);
        }
    }

    pub(crate) fn taken(&mut self, now: u64, flown: Flown) {
        self.envelope.taken(now, flown);
    }

    pub(crate) fn landed(&mut self, now: u64, over: impl Fn(&Flown) -> bool) {
        self.envelope.landed(now, over);
    }

    /// Takes the shares, with their levels, that all holders believe they may use at this instant.
    pub(crate) fn believed(&mut self, now: u64, parts: impl Iterator<Item = Share>) {
        self.conservation.believed(now, self.limit, parts);
    }

    pub(super) fn found(&self) -> impl Iterator<Item = &Found> {
        [
            &self.envelope.found,
            &self.conservation.found,
            &self.dominance.found,
        ]
        .into_iter()
    }

    pub(super) fn slack(&self) -> Option<f64> {
        self.envelope.slack()
    }
}

fn limit_of(generation: &Generation) -> Limit {
    let (whole, held) = (generation.account.whole(), generation.account.held());
    match generation.budget.kind() {
        Kind::Quota => {
            let tokens = whole.tokens.max(generation.budget.whole().tokens);
            Limit::new(whole.rate, tokens)
        }
        _ => Limit::new(whole.rate, whole.burst).join(Limit::new(held.rate, held.burst)),
    }
}

fn rate_of(generation: &Generation) -> f64 {
    let grains = generation.budget.scale().grains_per_token();
    generation.budget.whole().rate.grains() as f64 / grains as f64
}
