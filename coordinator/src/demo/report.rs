//! The report of a run: the verdict and its conditions.

use super::load::Tally;
use super::plan::{DemoPlan, Fault, Kill};
use super::verdict::{AnswerCounts, Evidence, RunVerdict};
use aliquot_core::unit::Span;
use serde::Serialize;

/// A run and its verdict, as `--json` writes it. Times are in seconds from the start of the load.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The verdict.
    pub verdict: RunVerdict,
    /// Number of services.
    pub services: usize,
    /// Tokens per second of the shared key, or of each replayed key.
    pub limit: u64,
    /// Burst of these keys, in tokens.
    pub burst: u64,
    /// Seed of the load.
    pub seed: u64,
    /// Duration of the load.
    pub duration: f64,
    /// The way in which the services asked.
    pub via: &'static str,
    /// Failed asks, if the services asked faces.
    pub asked: Option<Asked>,
    /// The node that was to be killed.
    pub kill: &'static str,
    /// Time of the kill.
    pub killed: Option<f64>,
    /// Time of the restart.
    pub restarted: Option<f64>,
    /// The fault that was made on purpose.
    pub fault: Option<&'static str>,
    /// Bound on clock drift, in parts per million.
    pub drift_ppm: u32,
    /// Requests and answers of all keys.
    pub answers: AnswerCounts,
    /// Milliseconds from the time at which a request was due to its answer.
    pub latency_ms: Latency,
    /// Milliseconds by which the machine was late at most with nine tenths of what was due while the load lasted, if
    /// that was measured.
    pub machine_late_ms: Option<f64>,
    /// Seconds that the threads of all processes waited for a processor for each second that they ran, if the system
    /// counts that.
    pub waits_per_second: Option<f64>,
    /// Events, with their times.
    pub events: Vec<(f64, String)>,
}

/// Asks of faces that brought no decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Number of times that a face was asked and did not decide.
    pub failed: u64,
    /// The last reason of one of the services.
    pub last_failure: Option<String>,
}

/// Latencies of answers, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl Report {
    pub(super) fn new(
        plan: &DemoPlan,
        verdict: RunVerdict,
        evidence: &Evidence,
        tally: &Tally,
        events: &[(Span, String)],
        asked: Option<Asked>,
    ) -> Self {
        let run = &evidence.timeline;
        let latencies = tally.latencies();
        let ms = |span: Span| seconds(span) * 1e3;
        Self {
            verdict,
            services: plan.services,
            limit: plan.limit,
            burst: plan.burst,
            seed: plan.seed,
            duration: seconds(run.end.since(run.start)),
            via: plan.via.name(),
            asked,
            kill: match plan.kill {
                Kill::Leader => "leader",
                Kill::Follower => "follower",
                Kill::None => "none",
            },
            killed: run.killed.map(|at| seconds(at.since(run.start))),
            restarted: run.restarted.map(|at| seconds(at.since(run.start))),
            fault: match plan.fault {
                Fault::None => None,
                Fault::OverAdmission => Some("over-admission"),
                Fault::Miscount => Some("miscount"),
            },
            drift_ppm: evidence.drift.ppm(),
            answers: tally.totals().all,
            latency_ms: Latency {
                p50: ms(latencies.quantile(500)),
                p99: ms(latencies.quantile(990)),
                max: ms(latencies.max()),
            },
            waits_per_second: evidence
                .waits
                .for_each_second(run.start, run.end)
                .map(seconds),
            machine_late_ms: evidence.lateness.of_nine_tenths(run.start, run.end).map(ms),
            events: events
                .iter()
                .map(|(at, event)| (seconds(*at), event.clone()))
                .collect(),
        }
    }

    /// Describes the failed asks in a line, if the services asked faces.
    pub(super) fn faces_line(&self) -> String {
        let Some(Asked {
            failed,
            last_failure,
        }) = &self.asked
        else {
            return String::new();
        };
        let last = last_failure.as_ref();
        let last = last.map_or_else(String::new, |why| format!(", such as {why}"));
        let other = self.answers.other;
        format!(
            "{:<10} {failed} calls to a face without a decision{last}; {other} requests that no face decided\n",
            self.via
        )
    }

    pub(super) fn load_line(&self) -> String {
        let Latency { p50, p99, max } = self.latency_ms;
        let AnswerCounts {
            sent,
            admitted,
            limited,
            other,
            ..
        } = self.answers;
        let machine = self.machine_late_ms.map_or(String::new(), |late| {
            format!("; 90 % of the machine's timers at most {late:.1} ms late")
        });
        let waits = self.waits_per_second.map_or(String::new(), |wait| {
            format!("; processes waited {wait:.1} s for a processor for each second that they ran")
        });
        format!(
            "load       {sent} requests: {admitted} admitted, {limited} limited, {other} other; \
             from due to answered p50 {p50:.1} ms, p99 {p99:.1} ms, at most {max:.1} ms{machine}{waits}\n"
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "a report shows few digits")]
fn seconds(span: Span) -> f64 {
    span.nanos() as f64 / 1e9
}
