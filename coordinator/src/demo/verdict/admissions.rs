//! Admissions over time: utilisation around a kill, and the recovery from it.

use super::{AFTERMATH, SETTLING, Timeline};
use aliquot_core::unit::{Span, Tick};
use serde::Serialize;

/// Admissions under one key, prepared for sums over windows.
#[derive(Clone, Debug, Default)]
pub struct Admissions {
    /// Times of the admissions, in ascending order.
    times: Vec<Tick>,
    /// `sums[i]` is the cost of the first `i` admissions, in tokens.
    sums: Vec<u64>,
}

impl Admissions {
    /// Prepares admissions, given as decision time and whole tokens in the order of time.
    #[must_use]
    pub fn new(decided: impl IntoIterator<Item = (Tick, u64)>) -> Self {
        let mut prepared = Self {
            times: Vec::new(),
            sums: vec![0],
        };
        let mut sum = 0_u64;
        for (at, cost) in decided {
            sum = sum.saturating_add(cost);
            prepared.times.push(at);
            prepared.sums.push(sum);
        }
        prepared
    }

    /// Returns the tokens admitted in `[from, to)`.
    #[must_use]
    pub fn between(&self, from: Tick, to: Tick) -> u64 {
        let until = |limit: Tick| {
            let index = self.times.partition_point(|at| *at < limit);
            self.sums.get(index).copied().unwrap_or(0)
        };
        until(to).saturating_sub(until(from))
    }

    /// Returns the tokens admitted in `[from, to)`, divided by those that `rate` tokens per second
    /// allow. Returns `None` if the interval or the rate is empty.
    #[must_use]
    pub fn utilisation(&self, rate: f64, from: Tick, to: Tick) -> Option<f64> {
        let possible = rate * seconds(to.since(from));
        (possible > 0.0).then(|| as_f64(self.between(from, to)) / possible)
    }
}

/// Utilisation in the parts of a run. A part that the run did not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phases {
    /// From [`SETTLING`] after the start of the load until the kill, or until the end if no node was
    /// killed.
    pub before: Option<f64>,
    /// Over the [`AFTERMATH`] of the kill, if the run lasted that long.
    pub during: Option<f64>,
    /// The lowest of the full seconds of the aftermath, counted from the kill.
    pub worst_second: Option<f64>,
    /// From the end of the aftermath to the end of the load.
    pub after: Option<f64>,
    /// Seconds from the kill to the first instant after which every full second admits at least 99 %,
    /// and so does the last second of the load. Measured in steps of 100 ms.
    pub recovered_after: Option<f64>,
}

/// The shortest part of a run that is measured.
const PART_MIN: Span = Span::from_secs(1);
const SECOND: Span = Span::from_secs(1);
const STEPS_PER_SECOND: u64 = 10;
const STEP: Span = Span::from_millis(1_000 / STEPS_PER_SECOND);

/// Minimum utilisation of a second that counts as recovered.
const RECOVERED: f64 = 0.99;

impl Phases {
    /// Measures a run against `rate` tokens per second.
    #[must_use]
    pub fn measure(admissions: &Admissions, rate: f64, run: &Timeline) -> Self {
        let settled = run.start.after(SETTLING);
        let part = |from: Tick, to: Tick| {
            let long = to.since(from) >= PART_MIN;
            long.then(|| admissions.utilisation(rate, from, to))
                .flatten()
        };
        let Some(killed) = run.killed else {
            return Self {
                before: part(settled, run.end),
                ..Self::default()
            };
        };
        let calm = killed.after(AFTERMATH);
        let whole = calm <= run.end;
        Self {
            before: part(settled, killed),
            during: whole.then(|| part(killed, calm)).flatten(),
            worst_second: whole
                .then(|| worst_second(admissions, rate, killed, calm))
                .flatten(),
            after: part(calm, run.end),
            recovered_after: recovery(admissions, rate, killed, run.end),
        }
    }
}

fn worst_second(admissions: &Admissions, rate: f64, from: Tick, to: Tick) -> Option<f64> {
    let starts = std::iter::successors(Some(from), |start| Some(start.after(SECOND)));
    starts
        .take_while(|start| start.after(SECOND) <= to)
        .filter_map(|start| admissions.utilisation(rate, start, start.after(SECOND)))
        .min_by(f64::total_cmp)
}

/// Walks back from the end, second by second, while each second admits enough. Repeats this for every
/// offset of the seconds from the kill.
fn recovery(admissions: &Admissions, rate: f64, killed: Tick, end: Tick) -> Option<f64> {
    let full = end.since(killed).nanos() / STEP.nanos();
    let last = full.checked_sub(STEPS_PER_SECOND)?;
    let enough = |start: Tick| {
        let part = admissions.utilisation(rate, start, start.after(SECOND));
        part.is_some_and(|part| part >= RECOVERED)
    };
    if !enough(end.before(SECOND)) {
        return None;
    }
    let mut first: Option<u64> = None;
    for offset in 0..STEPS_PER_SECOND.min(last + 1) {
        let mut good = None;
        let mut step = Some(last - offset);
        while let Some(now) = step {
            if !enough(killed.after(STEP.times_or_max(now))) {
                break;
            }
            good = Some(now);
            step = now.checked_sub(STEPS_PER_SECOND);
        }
        first = match (first, good) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    first.map(|steps| seconds(STEP.times_or_max(steps)))
}

/// Converts a span to seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "a report shows no more digits than a double has"
)]
pub(super) fn seconds(span: Span) -> f64 {
    span.nanos() as f64 / 1e9
}

/// Converts a count for divisions.
#[expect(
    clippy::cast_precision_loss,
    reason = "a report shows no more digits than a double has"
)]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/verdict/admissions.rs"]
mod tests;
