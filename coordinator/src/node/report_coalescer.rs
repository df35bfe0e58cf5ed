//! Coalescing of client reports: few are handled at once, and many are collected for up to a
//! millisecond.

use aliquot_core::unit::{Span, Tick};

/// Decides whether client reports are handled at once or collected.
///
/// For a short report, waking this task and the task that carries the answer costs as much as the
/// report itself. If there are many, handling each at once delays the others. Then sessions are read at
/// most once in a [`ReportCoalescer::PAUSE`], which is also the longest wait. Long reports gain nothing from
/// this, because reading them costs far more than the wakeups.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportCoalescer {
    /// Start of the current count, and the reports and lines counted since.
    since: Tick,
    reports: u64,
    lines: u64,
    /// True if the last count found at least one report in each pause, and the reports were short.
    many: bool,
    next: Tick,
}

impl ReportCoalescer {
    /// Time for which reports are collected.
    const PAUSE: Span = Span::from_millis(1);

    /// Minimum time of a count.
    const COUNTED: Span = Span::from_millis(20);

    /// Average number of lines from which reports are long: at about 100 ns a line, reading one takes
    /// 20 µs or more.
    const LONG: u64 = 200;

    pub(super) const fn new(now: Tick) -> Self {
        Self {
            since: now,
            reports: 0,
            lines: 0,
            many: false,
            next: now,
        }
    }

    /// Counts reports that were handled together, and all of their lines.
    pub(super) fn note(&mut self, reports: u64, lines: u64, now: Tick) {
        self.reports = self.reports.saturating_add(reports);
        self.lines = self.lines.saturating_add(lines);
        let counted = now.since(self.since);
        if counted >= Self::COUNTED {
            let long = self.lines >= self.reports.saturating_mul(Self::LONG);
            self.many = !long && self.reports >= counted.nanos() / Self::PAUSE.nanos();
            (self.since, self.reports, self.lines) = (now, 0, 0);
        }
        if self.many {
            self.next = now.after(Self::PAUSE);
        }
    }

    /// Returns the time from which sessions are read again. It is in the past if they are read at once.
    pub(super) const fn next(&self) -> Tick {
        self.next
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/report_coalescer.rs"]
mod tests;
