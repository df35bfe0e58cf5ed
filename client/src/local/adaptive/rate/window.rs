//! Windows of calls: a pure state machine that observes calls and tells when a window is complete.

use super::super::log_mean::LogMean;
use aliquot_core::unit::{Span, Tick};
use std::time::Duration;

/// Observations of the calls of one window.
///
/// A window lasts for its configured length, or for the usual latency if that is longer. It then ends once
/// ten calls have succeeded in it or one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length of the window, at least one nanosecond.
    pub span: Duration,
    /// Number of calls that began in it.
    pub begun: u64,
    /// Tokens of those calls: the demand on the limit.
    pub asked: u64,
    /// Number of calls that ended in it successfully.
    pub succeeded: u64,
    /// Tokens of those calls: what was served.
    pub served: u64,
    /// Number of calls that ended in it with a sign of overload. Calls that began before the limit was last
    /// lowered are not counted: their failure caused that.
    pub failed: u64,
    /// Geometric mean of the latencies of the successful calls; zero if there were none.
    pub latency: Duration,
    /// Standard error of that mean.
    pub error: Duration,
    /// Usual latency: a moving mean of the windows' latencies. A shorter latency has a weight of a quarter. A
    /// longer one has a tenth, and counts as at most twice the mean. So the mean follows a dependency that
    /// becomes slower for good, but not a queue.
    pub usual: Duration,
}

/// Outcome of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) began: Tick,
    pub(super) now: Tick,
    pub(super) tokens: u64,
    pub(super) failed: bool,
}

/// Total number of calls begun, and of their tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begun {
    pub(super) calls: u64,
    pub(super) tokens: u64,
}

/// The window in progress.
#[derive(Debug)]
pub(super) struct Windows {
    least: Span,
    since: Tick,
    /// When the limit was last lowered.
    lowered: Tick,
    /// Totals at the start of the window.
    before: Begun,
    succeeded: u64,
    served: u64,
    failed: u64,
    /// Latencies of the successful calls.
    logs: LogMean,
    /// In nanoseconds; zero until a call succeeds.
    usual: f64,
}

impl Windows {
    /// Number of successful calls that make an observation significant.
    const ENOUGH: u64 = 10;
    const UP: f64 = 0.1;
    const DOWN: f64 = 0.25;

    pub(super) fn new(least: Span, now: Tick) -> Self {
        Self {
            least,
            since: now,
            lowered: Tick::ZERO,
            before: Begun::default(),
            succeeded: 0,
            served: 0,
            failed: 0,
            logs: LogMean::new(),
            usual: 0.0,
        }
    }

    /// Records the outcome of a call, with the totals of calls begun. Returns the window if that completes
    /// it; the next one begins then.
    pub(super) fn hear(&mut self, ended: Ended, begun: Begun) -> Option<Window> {
        if !ended.failed {
            self.succeeded += 1;
            self.served = self.served.saturating_add(ended.tokens);
            let latency = ended.now.since(ended.began);
            self.logs.add(Duration::from_nanos(latency.nanos()));
        } else if ended.began >= self.lowered {
            self.failed += 1;
        }
        let span = ended.now.since(self.since);
        let is_long = span >= self.least && span.nanos() as f64 >= self.usual;
        let is_heard = self.succeeded >= Self::ENOUGH || self.failed > 0;
        (is_long && is_heard).then(|| self.end(ended.now, span, begun))
    }

    /// Records that the limit was lowered: failures of calls that began before no longer count.
    pub(super) fn lower(&mut self, now: Tick) {
        self.lowered = now;
    }

    fn end(&mut self, now: Tick, span: Span, begun: Begun) -> Window {
        let mut latency = 0.0;
        if self.succeeded > 0 {
            latency = self.logs.mean().exp().round();
            self.usual = usual(self.usual, latency);
        }
        let window = Window {
            span: Duration::from_nanos(span.nanos().max(1)),
            begun: begun.calls.saturating_sub(self.before.calls),
            asked: begun.tokens.saturating_sub(self.before.tokens),
            succeeded: self.succeeded,
            served: self.served,
            failed: self.failed,
            latency: Duration::from_nanos(latency as u64),
            error: Duration::from_nanos((latency * self.logs.error()) as u64),
            usual: Duration::from_nanos(self.usual as u64),
        };
        (self.since, self.before) = (now, begun);
        (self.succeeded, self.served, self.failed) = (0, 0, 0);
        self.logs = LogMean::new();
        window
    }
}

fn usual(usual: f64, latency: f64) -> f64 {
    if usual == 0.0 {
        latency
    } else if latency < usual {
        usual + (latency - usual) * Windows::DOWN
    } else {
        usual + (latency.min(2.0 * usual) - usual) * Windows::UP
    }
}
