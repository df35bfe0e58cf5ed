//! The verdict on a run, from every decision that was made in it.
//!
//! Three things are compared that were written down by different processes:
//! what the services say they admitted and when, what the load generator was
//! answered, and what the budgets allow. A breach makes the verdict `fail`;
//! anything that does not fit together makes it `unknown`, never `pass`.

mod audit;
mod certain;
mod course;
mod fairness;
mod ruling;
mod show;

pub use audit::{Audit, Decisions};
pub use course::{Course, Phases};
pub use fairness::{Portion, jain, max_min};
pub use ruling::{Criterion, Ruling};
pub use show::show;

use super::record::Recording;
use aliquot_core::budget::{Budget, Limit};
use aliquot_core::unit::{Drift, Span, Tick};
use serde::Serialize;
use std::collections::BTreeMap;

/// How long a run may take to settle before its utilisation is measured.
pub const SETTLING: Span = Span::from_secs(2);

/// How long after a kill the limit may be used less than fully.
pub const AFTERMATH: Span = Span::from_secs(5);

/// How much of a run must be seen after a kill, or what came of it is not known: the aftermath, and a second that is
/// over.
pub const SEEN_AFTER: Span = Span::from_secs(6);

/// When what happened, on the host's boot clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The first scheduled request.
    pub start: Tick,
    /// The end of the schedule.
    pub end: Tick,
    /// When a node was killed.
    pub killed: Option<Tick>,
    /// When it was started again.
    pub restarted: Option<Tick>,
}

/// What the load generator was answered by one service under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answers {
    /// Requests sent.
    pub sent: u64,
    /// Their cost, in tokens.
    pub cost: u64,
    /// Answers 200.
    pub admitted: u64,
    /// Answers 429.
    pub limited: u64,
    /// Other answers, and requests that were never answered.
    pub other: u64,
}

/// Everything that a verdict rests on.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// What each service wrote down, by the service's name; or why it cannot
    /// be read.
    pub recordings: BTreeMap<String, Result<Recording, String>>,
    /// What was answered, by service and key.
    pub answers: BTreeMap<(String, String), Answers>,
    /// When what happened.
    pub timeline: Timeline,
    /// The budgets in force.
    pub budgets: Vec<Budget>,
    /// The bound on the clocks' drift that the cluster states.
    pub drift: Drift,
    /// The key whose utilisation is measured; left out, none is.
    pub shared: Option<String>,
    /// Messages of the services' sessions, both ways, if they were counted.
    pub messages: Option<u64>,
    /// Reports among them, each answered by a node, if they were counted.
    pub reports: Option<u64>,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Pass, fail or unknown, as the criteria together have it.
    pub outcome: Ruling,
    /// Whether the records are whole and nothing was admitted beyond a limit: what
    /// holds however busy the machine is.
    pub safe: bool,
    /// What was judged, and how.
    pub criteria: Vec<Criterion>,
    /// Each key against its envelope; the shared one first, then by name.
    pub keys: Vec<Audit>,
    /// Utilisation of the shared key.
    pub phases: Phases,
    /// What each service got of it in the calm parts of the run.
    pub portions: Vec<Portion>,
    /// How fair that is: see [`jain`].
    pub jain: Option<f64>,
    /// Requests decided for each report and its answer: a round trip to the coordinator.
    pub requests_per_round_trip: Option<f64>,
    /// Requests decided for each message of a session, either way.
    pub requests_per_message: Option<f64>,
    /// Admissions recorded.
    pub admitted: u64,
    /// Refusals recorded.
    pub refused: u64,
}

impl Verdict {
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
            let course = Course::new(made.into_iter().flatten());
            verdict.phases = Phases::measure(&course, rate, &evidence.timeline);
            let phases = ruling::of_phases(&verdict.phases, &evidence.timeline);
            ruling::extend(&mut verdict.criteria, phases);
            verdict.portions = portions(evidence, key, rate);
            verdict.jain = jain(&verdict.portions);
        }
        let decided = course::as_f64(verdict.admitted + verdict.refused);
        let each = |count: Option<u64>| {
            let count = count.filter(|count| *count > 0);
            count.map(|count| decided / course::as_f64(count))
        };
        verdict.requests_per_message = each(evidence.messages);
        verdict.requests_per_round_trip = each(evidence.reports);
        verdict.outcome = Ruling::all(verdict.criteria.iter().map(|criterion| criterion.ruling));
        verdict
    }
}

/// The shared key and its limit in tokens per second.
fn shared_rate(evidence: &Evidence) -> Option<(&str, f64)> {
    let key = evidence.shared.as_deref()?;
    let budget = evidence.budgets.iter().find(|b| b.key().as_str() == key)?;
    let Limit::Rate { rate, .. } = budget.limit() else {
        return None;
    };
    let per = course::seconds(rate.per());
    Some((key, course::as_f64(rate.tokens()) / per))
}

/// What each service was asked for and admitted in the calm parts of the run.
fn portions(evidence: &Evidence, key: &str, rate: f64) -> Vec<Portion> {
    let run = &evidence.timeline;
    let whole = course::seconds(run.end.since(run.start));
    let settled = run.start.after(SETTLING);
    let calm = run.killed.map_or(run.end, |killed| killed.after(AFTERMATH));
    let parts = [(settled, run.killed.unwrap_or(run.end)), (calm, run.end)];
    let length: f64 = parts
        .iter()
        .map(|(a, b)| course::seconds(b.since(*a)))
        .sum();
    if whole <= 0.0 || length <= 0.0 {
        return Vec::new();
    }
    let offered = evidence.recordings.keys().map(|service| {
        let answers = evidence.answers.get(&(service.clone(), key.to_owned()));
        course::as_f64(answers.map_or(0, |answers| answers.cost)) / whole
    });
    let offered: Vec<f64> = offered.collect();
    let expected = max_min(&offered, rate);
    let services = evidence.recordings.iter().zip(offered).zip(expected);
    services
        .map(|(((service, recording), offered), expected)| {
            let mut made = Decisions::by_key(recording.as_ref().ok().into_iter());
            let course = Course::new(made.remove(key).unwrap_or_default().admitted);
            let admitted = parts.iter().map(|(a, b)| course.between((*a).min(*b), *b));
            Portion {
                service: service.clone(),
                offered,
                admitted: course::as_f64(admitted.sum()) / length,
                expected,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
