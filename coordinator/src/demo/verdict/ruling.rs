//! The criteria of a run.

use super::admissions::{Phases, seconds};
use super::{AFTERMATH, Audit, Deciders, Evidence, SEEN_AFTER, Timeline};
use aliquot_core::unit::{Span, Tick};
use serde::Serialize;
use std::collections::BTreeMap;

/// Result of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The criterion is met.
    Pass,
    /// The criterion is not met.
    Fail,
    /// The records do not suffice for a verdict.
    Unknown,
    /// The run could not show it.
    NotJudged,
}

impl Ruling {
    /// Combines rulings: a failure outweighs a doubt, and a doubt outweighs a pass.
    pub fn all(rulings: impl IntoIterator<Item = Self>) -> Self {
        rulings
            .into_iter()
            .fold(Self::Pass, |all, one| match (all, one) {
                (Self::Fail, _) | (_, Self::Fail) => Self::Fail,
                (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
                _ => Self::Pass,
            })
    }

    fn holds(held: bool) -> Self {
        if held { Self::Pass } else { Self::Fail }
    }

    fn known(fits: bool) -> Self {
        if fits { Self::Pass } else { Self::Unknown }
    }
}

/// One criterion and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Criterion {
    /// Name of the criterion.
    pub name: &'static str,
    /// The requirement.
    pub wanted: &'static str,
    /// The measured value, or the reason why it was not judged.
    pub found: String,
    /// The result.
    pub ruling: Ruling,
}

/// Minimum utilisation in the calm parts of a run.
const CALM: f64 = 0.99;
/// Minimum average utilisation in the aftermath of a kill.
const SHAKEN: f64 = 0.80;
/// The same if the node's share of the limit dies with it: a third, which stays idle until the lease of
/// three seconds is over and a new leader has moved it. That takes a second more at most, so of the five
/// seconds four lack a third, and 73 % are left.
const BEREFT: f64 = 0.70;
/// Minimum utilisation in any single second of the aftermath.
const WORST: f64 = 0.40;

/// Returns the criteria that are judged from the records alone.
pub(super) fn of_records(evidence: &Evidence, audits: &[Audit]) -> Vec<Criterion> {
    vec![
        over_admission(audits),
        decision_times(evidence),
        whole_records(evidence),
        matching_counts(evidence),
    ]
}

fn over_admission(audits: &[Audit]) -> Criterion {
    let over: u64 = audits.iter().map(|audit| audit.over).max().unwrap_or(0);
    let worst = audits.iter().max_by_key(|audit| audit.over);
    let doubt = audits.iter().find(|audit| audit.doubt.is_some());
    let (found, ruling) = match (worst, doubt) {
        (Some(worst), _) if over > 0 => {
            let found = format!("{over} tokens over in the worst window of {}", worst.key);
            (found, Ruling::Fail)
        }
        (_, Some(doubtful)) => {
            let why = doubtful.doubt.as_deref().unwrap_or_default();
            (format!("{}: {why}", doubtful.key), Ruling::Unknown)
        }
        (None, None) => ("nothing was admitted or refused".into(), Ruling::Unknown),
        (Some(_), None) => (format!("0 in {} keys", audits.len()), Ruling::Pass),
    };
    Criterion {
        name: "over-admission",
        wanted: "0 in every window of every key",
        found,
        ruling,
    }
}

fn decision_times(evidence: &Evidence) -> Criterion {
    let read = evidence.recordings.values().filter_map(|r| r.as_ref().ok());
    let all = read.flat_map(|recording| &recording.admitted);
    let outside = all.filter(|admitted| !admitted.is_plausible()).count();
    Criterion {
        name: "decision times",
        wanted: "each between the clock readings around it",
        found: format!("{outside} outside"),
        ruling: Ruling::holds(outside == 0),
    }
}

fn whole_records(evidence: &Evidence) -> Criterion {
    let wrong = evidence
        .recordings
        .iter()
        .find_map(|(service, recording)| match recording {
            Err(why) => Some(format!("{service}: {why}")),
            Ok(recording) if recording.torn > 0 => Some(format!(
                "{service}: the record ends with {} bytes of an incomplete frame",
                recording.torn
            )),
            Ok(_) => None,
        });
    Criterion {
        name: "records",
        wanted: "every service's, complete",
        ruling: Ruling::known(wrong.is_none()),
        found: wrong.unwrap_or_else(|| format!("{} services", evidence.recordings.len())),
    }
}

/// Compares the services' admissions with the answers that the generator received.
fn matching_counts(evidence: &Evidence) -> Criterion {
    let mut recorded: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (service, recording) in &evidence.recordings {
        let Ok(recording) = recording else { continue };
        for admitted in &recording.admitted {
            let key = recording.keys.get(admitted.key).map_or("", String::as_str);
            *recorded.entry((service, key)).or_default() += 1;
        }
    }
    let recorded_sum: u64 = recorded.values().sum();
    let mut answered = 0_u64;
    for ((service, key), answers) in &evidence.answers {
        let entry = recorded.entry((service, key)).or_default();
        *entry = entry.abs_diff(answers.admitted);
        answered += answers.admitted;
    }
    let differences: u64 = recorded.values().sum();
    Criterion {
        name: "counts",
        wanted: "answers 200 = recorded admissions, by service and key",
        found: format!("{answered} answered, {recorded_sum} recorded, {differences} differences"),
        ruling: Ruling::known(differences == 0),
    }
}

/// Returns the criteria for the utilisation of the shared key.
pub(super) fn of_phases(phases: &Phases, run: &Timeline, deciders: Deciders) -> Vec<Criterion> {
    let least = |name, wanted, found: Option<f64>, least: f64, otherwise: Ruling| {
        let (found, ruling) = match found {
            Some(part) => (percent(part), Ruling::holds(part >= least)),
            None => (TOO_SHORT.to_owned(), otherwise),
        };
        Criterion {
            name,
            wanted,
            found,
            ruling,
        }
    };
    let before = least(
        "utilisation",
        ">= 99 % from 2 s on",
        phases.before,
        CALM,
        Ruling::NotJudged,
    );
    let Some(killed) = run.killed else {
        return vec![before];
    };
    // If a node was killed on request, a result that cannot be measured is not a pass.
    let after = |name, wanted, found, bound| least(name, wanted, found, bound, Ruling::Unknown);
    let (wanted, shaken) = match deciders {
        Deciders::Services => (">= 80 %", SHAKEN),
        Deciders::Nodes => (">= 70 %, as the killed node held a third", BEREFT),
    };
    vec![
        before,
        after("after a kill, 5 s", wanted, phases.during, shaken),
        after(
            "after a kill, each second",
            ">= 40 %",
            phases.worst_second,
            WORST,
        ),
        after("utilisation later", ">= 99 %", phases.after, CALM),
        recovery(phases, run.end.since(killed)),
    ]
}

const TOO_SHORT: &str = "the run was too short";

/// Maximum lateness of nine tenths of the timers of a thread without work, on a machine that keeps up.
///
/// They are late by much less than a millisecond if a processor is free, and by 11 ms where ten threads want two
/// processors. A part of the limit that moves from one service to another passes through about ten threads. If each
/// waits for a processor for longer than this, the move takes 50 ms more, and costs more than half of the 1 % that a
/// second may lack.
const KEEPS_UP: Span = Span::from_millis(5);

/// Maximum time for which threads wait for a processor, for each second that they run, on a machine that keeps up.
///
/// It is 0.8 s in a release build on two slow processors that nothing else uses, and 2 s beside two compilers, where the
/// machine is late and the timers of a thread without work are not.
const WAITS: Span = Span::from_millis(1_500);

/// Describes how the machine was late in the worse of two times: the whole load, and the aftermath of a kill. Returns
/// `None` if it kept up, or if that is not known.
fn busy(evidence: &Evidence) -> Option<String> {
    let (run, lateness, waits) = (&evidence.timeline, &evidence.lateness, &evidence.waits);
    let worse = |of: &dyn Fn(Tick, Tick) -> Option<Span>| {
        let aftermath = |killed: Tick| of(killed, killed.after(AFTERMATH));
        of(run.start, run.end).max(run.killed.and_then(aftermath))
    };
    let late = worse(&|from, to| lateness.of_nine_tenths(from, to)).filter(|late| *late > KEEPS_UP);
    let late = late.map(|late| {
        let late = seconds(late) * 1e3;
        format!("a tenth of its timers were at least {late:.0} ms late")
    });
    let waited = || worse(&|from, to| waits.for_each_second(from, to)).filter(|wait| *wait > WAITS);
    late.or_else(|| {
        let wait = seconds(waited()?);
        Some(format!(
            "processes waited {wait:.1} s for a processor for each second that they ran"
        ))
    })
}

/// Adds the criteria of utilisation to those of the records. If admissions may be missing from the records, or if the
/// machine was busy with something else, a low utilisation proves nothing. Returns true if the busy machine is the only
/// reason for which criteria could not be judged.
pub(super) fn extend(
    criteria: &mut Vec<Criterion>,
    mut phases: Vec<Criterion>,
    evidence: &Evidence,
) -> bool {
    let doubtful = |criterion: &Criterion| criterion.ruling == Ruling::Unknown;
    let (doubtful, busy) = (criteria.iter().any(doubtful), busy(evidence));
    let (mut excused, mut unknown) = (0, 0);
    for criterion in &mut phases {
        let failed = criterion.ruling == Ruling::Fail;
        if criterion.ruling == Ruling::Fail && (doubtful || busy.is_some()) {
            criterion.ruling = Ruling::Unknown;
        }
        if criterion.ruling == Ruling::Unknown {
            unknown += 1;
            excused += usize::from(failed && busy.is_some() && !doubtful);
        }
        if let Some(how) = busy
            .as_ref()
            .filter(|_| criterion.ruling == Ruling::Unknown)
        {
            let why = format!("; inconclusive: the machine was busy, and {how}");
            criterion.found.push_str(&why);
        }
    }
    criteria.append(&mut phases);
    unknown > 0 && excused == unknown
}

fn recovery(phases: &Phases, seen: Span) -> Criterion {
    let (found, ruling) = match phases.recovered_after {
        // An early recovery may not last: the killed node is restarted within the aftermath.
        _ if seen < SEEN_AFTER => (TOO_SHORT.to_owned(), Ruling::Unknown),
        Some(after) => {
            let in_time = after <= seconds(AFTERMATH);
            (format!("after {after:.1} s"), Ruling::holds(in_time))
        }
        None => (format!("not within {:.1} s", seconds(seen)), Ruling::Fail),
    };
    Criterion {
        name: "recovery",
        wanted: "within 5 s, every later second >= 99 %",
        found,
        ruling,
    }
}

/// Formats a part as a percentage, rounded down: a value shown as 99.00 is at least that.
pub(super) fn percent(part: f64) -> String {
    format!("{:.2} %", (part * 10_000.0).floor() / 100.0)
}
