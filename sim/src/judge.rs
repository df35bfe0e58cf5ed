//! The verdict on a seed and on a scenario.

use crate::figure::{Figures, Window};
use crate::mark::{Mark, Marks};
use crate::observer::RunResult;
use crate::plan::Plan;
use crate::scenario::{Assert, Bound, Scenario, What, format::METRICS};
use crate::tier::{self, Observe};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The verdict on a seed or on a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Everything was judged, and held.
    Pass,
    /// Something could not be judged, and nothing failed.
    Unknown,
    /// Something did not hold.
    Fail,
}

impl Verdict {
    /// Returns the verdict as one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Unknown => "unknown",
            Self::Fail => "FAIL",
        }
    }
}

/// The summary of one seed.
#[derive(Clone, Debug)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// Failures: invariants and assertions that did not hold.
    pub failures: Vec<String>,
    /// Invariants and assertions that could not be judged, with the reason.
    pub doubts: Vec<String>,
    /// All figures that exist, over the usual window (see [`usual`]). What is used and lost is that of the key
    /// that is worst in it; the other figures of a key are those of the first one.
    pub figures: BTreeMap<&'static str, f64>,
    /// The used and the lost part of every key.
    pub keys: Vec<KeyFigures>,
    /// The marks that were hit. A summary moves them into the sum over its seeds.
    pub marks: Marks,
    /// Number of events handled.
    pub events: u64,
    /// True time simulated, in nanoseconds.
    pub simulated: u64,
    /// Breaches that the scenario allows by `breaks`.
    pub broke: Vec<String>,
}

/// The figures of one key, or of the keys of a template that a group uses together, over the usual window.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFigures {
    /// The key, or the pattern of the keys.
    pub key: String,
    /// The figure `utilisation`, if there is one.
    pub used: Option<f64>,
    /// The figure `loss_against_ideal`, if there is one.
    pub lost: Option<f64>,
    /// Of several keys that are recorded together: the one of which most is lost, and the part of it.
    pub worst: Option<(String, f64)>,
}

impl KeyFigures {
    /// Returns the figures as JSON, with the worst key where several are recorded together.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut figures = json!({ "key": self.key, "used": self.used, "lost": self.lost });
        if let Some((key, lost)) = &self.worst {
            figures["worst"] = json!({ "key": key, "lost": lost });
        }
        figures
    }
}

/// Returns the default window of figures: from 5 s, or a quarter of the duration if that is less, to its end.
#[must_use]
pub fn usual(scenario: &Scenario) -> Window<'static> {
    let duration = scenario.run.duration;
    Window {
        from: 5_000_000_000.min(duration / 4),
        to: duration,
        group: None,
        key: None,
    }
}

/// Verdict on a run, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    pub(crate) verdict: Verdict,
    /// Invariants and assertions that did not hold.
    pub(crate) failures: Vec<String>,
    /// Invariants and assertions that could not be judged, with the reason.
    pub(crate) doubts: Vec<String>,
}

impl Ruling {
    /// Judges a run by the invariants and by these assertions. `heals` is the length of its healing phase.
    pub(crate) fn of(asserts: &[Assert], figures: &Figures<'_>, heals: u64) -> Self {
        let breaches = figures.result.breaches.iter();
        let mut failures: Vec<String> = breaches.map(ToString::to_string).collect();
        let mut doubts = figures.result.doubts.clone();
        for assert in asserts {
            match check(assert, figures, heals) {
                Checked::Holds => {}
                Checked::Fails(what) => failures.push(what),
                Checked::Unknown(what) => doubts.push(what),
            }
        }
        let verdict = match (failures.is_empty(), doubts.is_empty()) {
            (false, _) => Verdict::Fail,
            (true, false) => Verdict::Unknown,
            (true, true) => Verdict::Pass,
        };
        Self {
            verdict,
            failures,
            doubts,
        }
    }
}

/// Runs one seed and judges it.
///
/// Counts the bytes of messages only if `bytes` is set. Counting costs time and changes nothing else.
#[must_use]
pub fn judge(scenario: &Scenario, seed: u64, bytes: bool) -> SeedResult {
    judge_plan(Plan::draw(scenario, seed), &scenario.asserts, bytes)
}

/// Runs and judges a plan that has already been drawn.
#[must_use]
pub fn judge_plan(plan: Plan, asserts: &[Assert], bytes: bool) -> SeedResult {
    judge_watched(plan, asserts, bytes, None)
}

/// Does the same, and calls `reached` once in each second of true time.
#[must_use]
pub fn judge_watched(
    plan: Plan,
    asserts: &[Assert],
    bytes: bool,
    reached: Option<Box<dyn Fn(u64)>>,
) -> SeedResult {
    let (seed, drawn) = (plan.seed, plan.scenario.clone());
    let heals = plan.heal();
    let observe = Observe {
        tracer: None,
        bytes,
        reached,
    };
    let result = tier::live(plan, observe);
    let figures = Figures {
        scenario: &drawn,
        result: &result,
    };
    let Ruling {
        verdict,
        failures,
        doubts,
    } = Ruling::of(asserts, &figures, heals);
    let window = usual(&drawn);
    let keys: Vec<KeyFigures> = result
        .timeline
        .keys
        .iter()
        .map(|key| {
            let window = Window {
                key: Some(&key.key),
                ..window
            };
            KeyFigures {
                key: key.key.clone(),
                used: figures.figure("utilisation", window),
                lost: figures.figure("loss_against_ideal", window),
                worst: figures
                    .worst_member(window)
                    .map(|(lost, key)| (key.to_owned(), lost)),
            }
        })
        .collect();
    let value = |name: &str| match name {
        "utilisation" => keys.iter().filter_map(|key| key.used).reduce(f64::min),
        "loss_against_ideal" => keys.iter().filter_map(|key| key.lost).reduce(f64::max),
        _ => figures.figure(name, window),
    };
    let all = METRICS
        .iter()
        .filter_map(|name| Some((*name, value(name)?)));
    SeedResult {
        seed,
        verdict,
        failures,
        doubts,
        figures: all.collect(),
        keys,
        broke: result.allowed.iter().map(ToString::to_string).collect(),
        marks: result.marks,
        events: result.events,
        simulated: result.simulated,
    }
}

/// A figure to compute, with the begin and the end of its window in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Name of the figure.
    pub name: String,
    /// Begin of the window.
    pub from: u64,
    /// End of the window.
    pub to: u64,
}

/// Runs a seed for some figures alone.
#[must_use]
pub fn measure(scenario: &Scenario, seed: u64, asked: &[Asked]) -> Vec<Option<f64>> {
    let plan = Plan::draw(scenario, seed);
    let drawn = plan.scenario.clone();
    let result = tier::live(plan, Observe::default());
    let figures = Figures {
        scenario: &drawn,
        result: &result,
    };
    let window = |asked: &Asked| Window {
        from: asked.from,
        to: asked.to,
        group: None,
        key: None,
    };
    let all = asked.iter();
    all.map(|asked| figures.figure(&asked.name, window(asked)))
        .collect()
}

enum Checked {
    Holds,
    Fails(String),
    Unknown(String),
}

fn check(assert: &Assert, figures: &Figures<'_>, heals: u64) -> Checked {
    let window = |from, to| Window {
        from,
        to,
        group: assert.group.as_deref(),
        key: assert.key.as_deref(),
    };
    match &assert.what {
        What::Sometimes(_) => Checked::Holds,
        What::Never(name) => never(assert, name, figures.result),
        What::Metric(name) => bounded(assert, name, figures, window(assert.from, assert.to)),
        What::AfterHeal(_) if heals == 0 => {
            Checked::Unknown(format!("{}: there is no healing phase", assert.says))
        }
        What::AfterHeal(name) => {
            let end = figures.result.simulated;
            bounded(
                assert,
                name,
                figures,
                window(end.saturating_sub(5_000_000_000), end),
            )
        }
    }
}

fn never(assert: &Assert, name: &str, result: &RunResult) -> Checked {
    let mut breaches = result.breaches.iter().chain(&result.allowed);
    let breach = breaches.find(|breach| {
        breach.invariant == name && breach.within.1 >= assert.from && breach.within.0 < assert.to
    });
    match breach {
        Some(breach) => Checked::Fails(format!("{}: {breach}", assert.says)),
        None => Checked::Holds,
    }
}

fn bounded(assert: &Assert, name: &str, figures: &Figures<'_>, window: Window<'_>) -> Checked {
    let says = &assert.says;
    // A run that ended early has no figures for the time after its end.
    let short =
        window.to > figures.result.simulated && !matches!(name, "excess" | "slack" | "faults");
    let Some(figure) = figures.figure(name, window).filter(|_| !short) else {
        return Checked::Unknown(format!(
            "{says}: this figure does not exist for this window"
        ));
    };
    let value = |bound: Bound| match bound {
        Bound::Plain(value) | Bound::Part(value) | Bound::Seconds(value) => value,
        Bound::OfRate(times) => times * figures.rate(window),
    };
    let (least, most) = (assert.at_least.map(value), assert.at_most.map(value));
    match is_within(figure, least, most) {
        true => Checked::Holds,
        false => Checked::Fails(format!("{says}: it is {figure:.4}")),
    }
}

fn is_within(figure: f64, least: Option<f64>, most: Option<f64>) -> bool {
    let low = least.is_some_and(|least| figure < least);
    let high = most.is_some_and(|most| figure > most);
    !(low || high)
}

/// Returns a message for each mark that an assertion requires and that no seed hit.
#[must_use]
pub fn missed(scenario: &Scenario, marks: &Marks) -> Vec<String> {
    let wanted = scenario
        .asserts
        .iter()
        .filter_map(|assert| match &assert.what {
            What::Sometimes(name) => Mark::ALL.iter().find(|mark| mark.name() == name),
            _ => None,
        });
    let missed = wanted.filter(|mark| marks.count(**mark) == 0);
    missed
        .map(|mark| {
            format!(
                "sometimes {}: no seed hit it ({})",
                mark.name(),
                mark.says()
            )
        })
        .collect()
}

#[cfg(test)]
#[path = "../tests/unit/judge.rs"]
mod tests;
