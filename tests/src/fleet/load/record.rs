//! What was asked and admitted, and its judgement.

use aliquot_client::{Reason, Span, Tick};
use aliquot_core::budget::{Budget, BudgetDraft};
use aliquot_core::check::{Envelope, LaggedEnvelope, Limit, Limits};
use aliquot_core::unit::{Drift, Tokens};
use std::collections::BTreeMap;

/// What was asked and admitted, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When each request was made.
    pub offered: Vec<Tick>,
    /// When each admission was decided.
    pub admitted: Vec<Tick>,
    /// Refusals by their reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// Some of a record's time, counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// When it begins.
    pub from: Tick,
    /// Requests.
    pub offered: usize,
    /// Admissions.
    pub admitted: usize,
}

/// A rate's budget and what one token is of it.
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

    /// Takes in what others admitted.
    pub fn also(&mut self, admitted: &[Tick]) {
        self.admitted.extend_from_slice(admitted);
        self.sort();
    }

    pub(super) fn refused(&mut self, reason: Reason) {
        *self.reasons.entry(reason.word()).or_default() += 1;
    }

    /// What was asked and admitted from `from` on and before `to`.
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

    /// Windows of this length, each a tenth of it after the one before.
    pub fn windows(&self, from: Tick, to: Tick, length: Span) -> impl Iterator<Item = Judged> {
        let step = Span::from_nanos((length.nanos() / 10).max(1));
        let starts = std::iter::successors(Some(from), move |at| Some(at.after(step)));
        let starts = starts.take_while(move |at| at.after(length) <= to);
        starts.map(move |at| self.between(at, at.after(length)))
    }

    /// Asserts that no window holds more than a limit allows, to the grain.
    ///
    /// # Panics
    ///
    /// If one does, with the window.
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

    /// Asserts the same of a limit that was lowered at `at` and has `lag` to bind.
    /// `from` and `to` are tokens a second, and the burst.
    ///
    /// # Panics
    ///
    /// If a window holds more.
    #[track_caller]
    pub fn keeps_to_lowered(&self, from: (u64, u64), to: (u64, u64), at: Tick, lag: Span) {
        // One scale for both: the old limit's.
        let scale = rate(&format!("{}/s", from.0), from.1).scale();
        let limit = |(per_second, burst): (u64, u64)| {
            let every = aliquot_client::Frequency::new(per_second, Span::from_secs(1));
            let every = every.expect("a rate a second");
            let rate = scale.rate(every).expect("a rate in the scale");
            Limit::new(rate, scale.tokens(burst).expect("a burst in the scale"))
        };
        let limits = Limits::new(Tick::from_nanos(0), limit(from), lag);
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
