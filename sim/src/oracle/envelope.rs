//! Invariant 1: the envelope, for each kind of budget.

use super::admission::{Admission, Flown};
use super::{Found, tick};
use aliquot_core::check::{ConcurrencyCheck, LaggedEnvelope, Limit, Limits, QuotaCheck};
use aliquot_core::share::Kind;
use aliquot_core::unit::{Drift, PeriodId, Span, Tokens};

const NAME: (u8, &str) = (1, "envelope");

#[derive(Debug)]
enum Of {
    Rate(LaggedEnvelope),
    Quota(QuotaCheck, PeriodId),
    Permits(ConcurrencyCheck<Flown>),
}

#[derive(Debug)]
pub(super) struct Check {
    of: Of,
    grains: u64,
    pub(super) found: Found,
}

impl Check {
    pub(super) fn new(now: u64, kind: Kind, limit: Limit, drift: Drift, grains: u64) -> Self {
        let of = match kind {
            Kind::Rate => {
                let limits = Limits::new(tick(now), limit, Span::ZERO);
                Of::Rate(LaggedEnvelope::new(limits, drift))
            }
            Kind::Quota => Of::Quota(QuotaCheck::new(limit.burst), PeriodId::new(0)),
            Kind::Concurrency => {
                Of::Permits(ConcurrencyCheck::new(tick(now), limit.burst, Span::ZERO))
            }
        };
        Self {
            of,
            grains,
            found: Found::default(),
        }
    }

    pub(super) fn change(&mut self, now: u64, limit: Limit, period: PeriodId) {
        match &mut self.of {
            Of::Rate(check) => check.change(tick(now), limit),
            Of::Quota(check, _) => check.change(period, limit.burst),
            Of::Permits(check) => check.change(tick(now), limit.burst),
        }
    }

    /// Starts a quota's period. Tokens of the previous period must not be used after `ends`.
    pub(super) fn stamped(&mut self, ends: u64, period: PeriodId) {
        if let Of::Quota(check, running) = &mut self.of
            && period > *running
        {
            let before = std::mem::replace(running, period);
            check.end(tick(ends), before);
        }
    }

    pub(super) fn admitted(&mut self, now: u64, period: PeriodId, cost: Tokens) {
        let verdict = match &mut self.of {
            Of::Rate(check) => {
                check.admit(tick(now), cost);
                check.verdict()
            }
            Of::Quota(check, _) => {
                check.admit(tick(now), period, cost);
                check.verdict()
            }
            Of::Permits(_) => return,
        };
        if !verdict.is_pass() {
            self.found.record(NAME, verdict, self.grains);
        }
    }

    /// Records a breach: a request was admitted of a budget that has ended.
    pub(super) fn ended(&mut self, now: u64, admission: &Admission) {
        let budget = admission.budget;
        self.found.fail(NAME, now, || {
            format!("a request was admitted by {budget}, which has ended")
        });
    }

    pub(super) fn taken(&mut self, now: u64, flown: Flown) {
        if let Of::Permits(check) = &mut self.of {
            check.acquire(tick(now), flown, Tokens::from_grains(1));
            self.found.record(NAME, check.verdict(), self.grains);
        }
    }

    pub(super) fn landed(&mut self, now: u64, over: impl Fn(&Flown) -> bool) {
        if let Of::Permits(check) = &mut self.of {
            check.close(tick(now), over);
        }
    }

    /// Returns the slack of the worst window in tokens; negative if the envelope is broken.
    pub(super) fn slack(&self) -> Option<f64> {
        match &self.of {
            Of::Rate(check) => Some(check.report().slack as f64 / self.grains as f64),
            _ => None,
        }
    }
}
