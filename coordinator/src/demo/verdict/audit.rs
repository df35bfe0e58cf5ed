//! Comparison of one key's decisions with the envelope of its budget.

use super::decisions::Decisions;
use super::interval_audit;
use aliquot_core::budget::{Budget, Key};
use aliquot_core::check::{Envelope, Limit, Limits, Omniscient, Verdict as EnvelopeVerdict};
use aliquot_core::unit::Drift;
use serde::Serialize;

/// Distance of one key from the envelope of its budget.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// The key.
    pub key: String,
    /// Number of admissions.
    pub admitted: u64,
    /// Number of refusals.
    pub refused: u64,
    /// Tokens by which the worst of all windows is below `(1 + ρ)·R·Δt + B`, rounded down to a
    /// thousandth. Negative if it is above.
    pub slack: f64,
    /// Length of that window in seconds.
    pub window: Option<f64>,
    /// Tokens by which the worst window exceeds its bound, rounded up.
    pub over: u64,
    /// Number of the same requests that one bucket with the whole limit, which saw all of them at once,
    /// would have admitted.
    pub omniscient: u64,
    /// Reason why the key could not be judged.
    pub doubt: Option<String>,
}

impl Audit {
    /// Judges the decisions of `key` by the budget that applies to it.
    #[must_use]
    pub fn of(key: &str, decisions: &Decisions, budgets: &[Budget], drift: Drift) -> Self {
        let mut audit = Self {
            key: key.to_owned(),
            admitted: count(decisions.admitted.len()),
            refused: count(decisions.refused.len()),
            slack: 0.0,
            window: None,
            over: 0,
            omniscient: 0,
            doubt: None,
        };
        let parsed = Key::try_from(key.to_owned()).ok();
        let budget = parsed.and_then(|key| budgets.iter().find(|b| b.key().matches(&key)));
        match budget {
            Some(budget) => audit.judge(decisions, budget, drift),
            None => audit.doubt = Some("no budget of the run applies to it".to_owned()),
        }
        audit
    }

    fn judge(&mut self, decisions: &Decisions, budget: &Budget, drift: Drift) {
        let whole = budget.whole();
        let limit = Limit::new(whole.rate, whole.burst);
        let mut envelope = Envelope::new(limit, drift);
        for (at, cost) in &decisions.admitted {
            match budget.scale().tokens(*cost) {
                Ok(cost) => envelope.admit(*at, cost),
                Err(error) => self.doubt = Some(format!("a cost of {cost}: {error}")),
            }
        }
        let report = envelope.report();
        let grains = i128::from(budget.scale().grains_per_token());
        let (slack, window) = match decisions.remote.is_empty() {
            true => (report.slack, report.window),
            false => interval_audit::worst(decisions, grains, limit, drift),
        };
        self.slack = thousandths(slack, grains);
        self.window = window.map(|(from, to)| super::admissions::seconds(to.since(from)));
        let over = slack.min(0).unsigned_abs();
        let over = over.div_ceil(grains.unsigned_abs().max(1));
        self.over = u64::try_from(over).unwrap_or(u64::MAX);
        if let EnvelopeVerdict::Unknown(doubt) = envelope.verdict() {
            self.doubt = Some(doubt.to_string());
        }
        self.omniscient = by_one_bucket(decisions, budget, limit, drift);
    }
}

/// Offers every request, admitted or not, to one bucket.
fn by_one_bucket(decisions: &Decisions, budget: &Budget, limit: Limit, drift: Drift) -> u64 {
    let mut all = [decisions.admitted.as_slice(), decisions.refused.as_slice()].concat();
    all.sort_unstable();
    let mut bucket = Omniscient::new(Limits::constant(limit), drift);
    let admitted = all.iter().filter(|(at, cost)| {
        let cost = budget.scale().tokens(*cost).ok();
        cost.and_then(|cost| bucket.offer(*at, cost)) == Some(true)
    });
    count(admitted.count())
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}

/// Converts grains to tokens, rounded down to a thousandth.
#[expect(
    clippy::cast_precision_loss,
    reason = "a slack that matters is far below 2⁵³ thousandths"
)]
fn thousandths(grains: i128, per_token: i128) -> f64 {
    let thousandths = grains.saturating_mul(1_000).div_euclid(per_token.max(1));
    thousandths as f64 / 1e3
}
