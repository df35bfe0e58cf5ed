//! Windows of calls: a machine that is told how each went, and says when there is something to decide.

use aliquot_core::unit::{Span, Tick};

/// How the calls of a window went.
///
/// It is as long as it was asked to be, and as calls usually take, whichever is longer; and until ten went well in it,
/// or one failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How long it was, at least a nanosecond.
    pub span: Span,
    /// Calls that began in it.
    pub begun: u64,
    /// The tokens of these: what was asked of the limit.
    pub asked: u64,
    /// Calls that ended in it and went well.
    pub succeeded: u64,
    /// The tokens of these: what came back.
    pub served: u64,
    /// Calls that ended in it and failed in a way that says *less*. Those that had begun before the limit was last lowered say
    /// what is known, and are not counted.
    pub failed: u64,
    /// How long those took on average that went well; zero if there were none.
    pub latency: Span,
    /// How long calls take of late: a mean of windows' latencies, in which each new one counts a quarter if it is shorter, and
    /// else a tenth and as no more than twice the mean. So it follows what became slower for good, but no queue.
    pub usual: Span,
}

/// How one call went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) began: Tick,
    pub(super) now: Tick,
    pub(super) tokens: u64,
    pub(super) failed: bool,
}

/// Calls that began, and their tokens, since there were any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begun {
    pub(super) calls: u64,
    pub(super) tokens: u64,
}

/// The present window.
#[derive(Debug)]
pub(super) struct Windows {
    least: Span,
    since: Tick,
    /// When the limit was last lowered.
    lowered: Tick,
    /// What had begun when the window did.
    before: Begun,
    succeeded: u64,
    served: u64,
    failed: u64,
    /// Of all that went well together.
    latency: u64,
    /// In nanoseconds; zero while nothing went well yet.
    usual: f64,
}

impl Windows {
    /// So many that went well say something.
    const ENOUGH: u64 = 10;
    const UP: f64 = 0.1;
    const DOWN: f64 = 0.25;

    pub(super) fn new(least: Span, now: Tick) -> Self {
        Self {
            least,
            since: now,
            lowered: Tick::from_nanos(0),
            before: Begun::default(),
            succeeded: 0,
            served: 0,
            failed: 0,
            latency: 0,
            usual: 0.0,
        }
    }

    /// Hears of a call, and of what has begun in all: the window, if that ends it. The next one begins then.
    pub(super) fn hear(&mut self, ended: Ended, begun: Begun) -> Option<Window> {
        if !ended.failed {
            let latency = ended.now.since(ended.began).nanos().max(1);
            self.succeeded += 1;
            self.served = self.served.saturating_add(ended.tokens);
            self.latency = self.latency.saturating_add(latency);
        } else if ended.began >= self.lowered {
            self.failed += 1;
        }
        let span = ended.now.since(self.since);
        let is_long = span >= self.least && span.nanos() as f64 >= self.usual;
        let is_heard = self.succeeded >= Self::ENOUGH || self.failed > 0;
        (is_long && is_heard).then(|| self.end(ended.now, span, begun))
    }

    /// The limit was lowered: of calls that began before, no failure is news.
    pub(super) fn lower(&mut self, now: Tick) {
        self.lowered = now;
    }

    fn end(&mut self, now: Tick, span: Span, begun: Begun) -> Window {
        let latency = self.latency.checked_div(self.succeeded).unwrap_or(0);
        if latency > 0 {
            self.usual = usual(self.usual, latency as f64);
        }
        let window = Window {
            span: span.max(Span::from_nanos(1)),
            begun: begun.calls.saturating_sub(self.before.calls),
            asked: begun.tokens.saturating_sub(self.before.tokens),
            succeeded: self.succeeded,
            served: self.served,
            failed: self.failed,
            latency: Span::from_nanos(latency),
            usual: Span::from_nanos(self.usual as u64),
        };
        (self.since, self.before) = (now, begun);
        (self.succeeded, self.served, self.failed, self.latency) = (0, 0, 0, 0);
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
