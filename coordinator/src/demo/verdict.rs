//! The verdict on a run, computed from all of its decisions.
//!
//! Records of three sources are compared: the admissions that the services recorded, the answers that
//! the load generator received, and the limits of the budgets. A breach of a limit makes the verdict
//! `fail`. Records that do not match make it `unknown`, never `pass`.

mod admissions;
mod audit;
mod decisions;
mod evidence;
mod fairness;
mod interval_audit;
mod ruling;
mod show;

pub use admissions::{Admissions, Phases};
pub use audit::Audit;
pub use decisions::Decisions;
pub use evidence::{AFTERMATH, AnswerCounts, Deciders, Evidence, SEEN_AFTER, SETTLING, Timeline};
pub use fairness::{Portion, jain, max_min};
pub use ruling::{Criterion, Ruling};
pub use show::show;

use aliquot_core::budget::Limit;
use serde::Serialize;

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunVerdict {
    /// Pass, fail or unknown, from all criteria.
    pub outcome: Ruling,
    /// True if the records are complete and nothing was admitted beyond a limit. This must hold however
    /// busy the machine is.
    pub safe: bool,
    /// True if a busy machine is the only reason for which the outcome is unknown.
    pub busy: bool,
    /// The criteria and their rulings.
    pub criteria: Vec<Criterion>,
    /// Each key compared with its envelope. The shared key comes first, and the others by name.
    pub keys: Vec<Audit>,
    /// Utilisation of the shared key.
    pub phases: Phases,
    /// Share of each service in the calm parts of the run.
    pub portions: Vec<Portion>,
    /// Index of fairness: see [`jain`]. `None` if the nodes hold the shares.
    pub jain: Option<f64>,
    /// Number of requests decided for each report and its answer, which are a round trip to the
    /// coordinator.
    pub requests_per_round_trip: Option<f64>,
    /// Number of requests decided for each message of a session, either way.
    pub requests_per_message: Option<f64>,
    /// Number of recorded admissions.
    pub admitted: u64,
    /// Number of recorded refusals.
    pub refused: u64,
}

impl RunVerdict {
    /// Judges a run.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let read = || evidence.recordings.values().filter_map(|r| r.as_ref().ok());
        let keys = Decisions::by_key(read());
        let mut audits: Vec<Audit> = keys
            .iter()
            .map(|(key, made)| Audit::of(key, made, &evidence.budgets, evidence.drift))
            .collect();
        audits.sort_by_key(|audit| evidence.shared.as_deref() != Some(audit.key.as_str()));
        let criteria = ruling::of_records(evidence, &audits);
        let mut verdict = Self {
            outcome: Ruling::Unknown,
            safe: criteria.iter().all(|of| of.ruling == Ruling::Pass),
            busy: false,
            criteria,
            admitted: audits.iter().map(|audit| audit.admitted).sum(),
            refused: audits.iter().map(|audit| audit.refused).sum(),
            keys: audits,
            phases: Phases::default(),
            portions: Vec::new(),
            jain: None,
            requests_per_round_trip: None,
            requests_per_message: None,
        };
        if let Some((key, rate)) = shared_rate(evidence) {
            let made = keys.get(key).map(|made| made.admitted.iter().copied());
            let admissions = Admissions::new(made.into_iter().flatten());
            verdict.phases = Phases::measure(&admissions, rate, &evidence.timeline);
            let phases = ruling::of_phases(&verdict.phases, &evidence.timeline, evidence.deciders);
            verdict.busy = ruling::extend(&mut verdict.criteria, phases, evidence);
            verdict.portions = portions(evidence, key, rate);
            // A share of a node is for all services that ask there, so services have no fair share of their own.
            let shares = evidence.deciders == Deciders::Services;
            verdict.jain = jain(&verdict.portions).filter(|_| shares);
        }
        let decided = admissions::as_f64(verdict.admitted + verdict.refused);
        let each = |count: Option<u64>| {
            let count = count.filter(|count| *count > 0);
            count.map(|count| decided / admissions::as_f64(count))
        };
        verdict.requests_per_message = each(evidence.messages);
        verdict.requests_per_round_trip = each(evidence.reports);
        verdict.outcome = Ruling::all(verdict.criteria.iter().map(|criterion| criterion.ruling));
        verdict
    }
}

/// Returns the shared key and its limit in tokens per second.
fn shared_rate(evidence: &Evidence) -> Option<(&str, f64)> {
    let key = evidence.shared.as_deref()?;
    let budget = evidence.budgets.iter().find(|b| b.key().as_str() == key)?;
    let Limit::Rate { rate, .. } = budget.limit() else {
        return None;
    };
    let per = admissions::seconds(rate.per());
    Some((key, admissions::as_f64(rate.tokens()) / per))
}

/// Returns the offered and the admitted rate of each service in the calm parts of the run.
fn portions(evidence: &Evidence, key: &str, rate: f64) -> Vec<Portion> {
    let run = &evidence.timeline;
    let whole = admissions::seconds(run.end.since(run.start));
    let settled = run.start.after(SETTLING);
    let calm = run.killed.map_or(run.end, |killed| killed.after(AFTERMATH));
    let parts = [(settled, run.killed.unwrap_or(run.end)), (calm, run.end)];
    let length: f64 = parts
        .iter()
        .map(|(a, b)| admissions::seconds(b.since(*a)))
        .sum();
    if whole <= 0.0 || length <= 0.0 {
        return Vec::new();
    }
    let offered = evidence.recordings.keys().map(|service| {
        let answers = evidence.answers.get(&(service.clone(), key.to_owned()));
        admissions::as_f64(answers.map_or(0, |answers| answers.cost)) / whole
    });
    let offered: Vec<f64> = offered.collect();
    let expected = max_min(&offered, rate);
    let services = evidence.recordings.iter().zip(offered).zip(expected);
    services
        .map(|(((service, recording), offered), expected)| {
            let mut made = Decisions::by_key(recording.as_ref().ok().into_iter());
            let admissions = Admissions::new(made.remove(key).unwrap_or_default().admitted);
            let admitted = parts
                .iter()
                .map(|(a, b)| admissions.between((*a).min(*b), *b));
            Portion {
                service: service.clone(),
                offered,
                admitted: admissions::as_f64(admitted.sum()) / length,
                expected,
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "../../tests/unit/demo/verdict.rs"]
mod tests;
