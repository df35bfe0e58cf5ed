//! A record of requests and admissions, and its judgement.

use aliquot_client::Reason;
use aliquot_client::clock::{Span, Tick};
use aliquot_core::budget::{Budget, BudgetDraft};
use aliquot_core::check::{Envelope, LaggedEnvelope, Limit, Limits};
use aliquot_core::unit::{Drift, Frequency, Tokens};
use std::collections::BTreeMap;

/// Requests and admissions, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The time of each request.
    pub offered: Vec<Tick>,
    /// The time of each admission.
    pub admitted: Vec<Tick>,
    /// Number of refusals by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// Counts over a part of a record's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The beginning of that part.
    pub from: Tick,
    /// Number of requests.
    pub offered: usize,
    /// Number of admissions.
    pub admitted: usize,
}

/// Makes a rate budget to judge by.
fn rate(rate: &str, burst: u64) -> Budget {
    let draft = BudgetDraft {
        key: "judged".to_owned(),
        rate: Some(rate.into()),
        burst: Some(burst.into()),
        ..BudgetDraft::default()
    };
    draft.validate().expect("a limit that can be judged by")
}

impl Record {
    pub(super) fn add(&mut self, other: Self) {
        self.offered.extend(other.offered);
        self.admitted.extend(other.admitted);
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }

    pub(super) fn sort(&mut self) {
        self.offered.sort_unstable();
        self.admitted.sort_unstable();
    }

    /// Adds the admissions of other clients.
    pub fn also(&mut self, admitted: &[Tick]) {
        self.admitted.extend_from_slice(admitted);
        self.sort();
    }

    pub(super) fn refused(&mut self, reason: Reason) {
        *self.reasons.entry(reason.as_str()).or_default() += 1;
    }

    /// Counts requests and admissions from `from` on and before `to`.
    #[must_use]
    pub fn between(&self, from: Tick, to: Tick) -> Judged {
        let count = |all: &[Tick]| {
            let before = |tick: Tick| all.partition_point(|at| *at < tick);
            before(to).saturating_sub(before(from))
        };
        Judged {
            from,
            offered: count(&self.offered),
            admitted: count(&self.admitted),
        }
    }

    /// Returns windows of this length, each beginning a tenth of it after the one before.
    pub fn windows(&self, from: Tick, to: Tick, length: Span) -> impl Iterator<Item = Judged> {
        let step = Span::from_nanos((length.nanos() / 10).max(1));
        let starts = std::iter::successors(Some(from), move |at| Some(at.after(step)));
        let starts = starts.take_while(move |at| at.after(length) <= to);
        starts.map(move |at| self.between(at, at.after(length)))
    }

    /// Asserts that no window has more admissions than a limit allows, exact to the grain.
    ///
    /// # Panics
    ///
    /// If a window does, with that window.
    #[track_caller]
    pub fn keeps_to(&self, limit: &str, burst: u64) {
        let budget = rate(limit, burst);
        let whole = budget.whole();
        let mut envelope = Envelope::new(Limit::new(whole.rate, whole.burst), Drift::default());
        let token = token(&budget);
        for at in &self.admitted {
            envelope.admit(*at, token);
        }
        let (verdict, report) = (envelope.verdict(), envelope.report());
        assert!(
            verdict.is_pass(),
            "{limit}, burst {burst}: {verdict:?}, {report:?}"
        );
    }

    /// Asserts the same for a limit that was lowered at `at` and binds after `lag`.
    /// `from` and `to` are tokens a second, and the burst.
    ///
    /// # Panics
    ///
    /// If a window has more.
    #[track_caller]
    pub fn keeps_to_lowered(&self, from: (u64, u64), to: (u64, u64), at: Tick, lag: Span) {
        // Both limits are counted in the scale of the old one.
        let scale = rate(&format!("{}/s", from.0), from.1).scale();
        let limit = |(per_second, burst): (u64, u64)| {
            let every = Frequency::new(per_second, Span::from_secs(1));
            let every = every.expect("a rate a second");
            let rate = scale.rate(every).expect("a rate in the scale");
            Limit::new(rate, scale.tokens(burst).expect("a burst in the scale"))
        };
        let limits = Limits::new(Tick::ZERO, limit(from), lag);
        let mut envelope = LaggedEnvelope::new(limits, Drift::default());
        let token = scale.tokens(1).expect("one token is in every scale");
        let mut changed = false;
        for admitted in &self.admitted {
            if !changed && *admitted >= at {
                changed = true;
                envelope.change(at, limit(to));
            }
            envelope.admit(*admitted, token);
        }
        let (verdict, report) = (envelope.verdict(), envelope.report());
        assert!(
            verdict.is_pass(),
            "{from:?} to {to:?}: {verdict:?}, {report:?}"
        );
    }
}

fn token(budget: &Budget) -> Tokens {
    let token = budget.scale().tokens(1);
    token.expect("one token is in every scale")
}
