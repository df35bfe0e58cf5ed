//! Pace and length of the reports of a session that has much to say.
//!
//! A report repeats all lines that its node has not acknowledged, and each report is answered with all lines that
//! the client has not echoed. If a node is slow because it has much to read and to say, repeating a thousand lines
//! makes it slower still: in the end it does nothing but repeat, and leases end meanwhile. So if a report or the
//! last answer was long, the next report waits for the answer, as long as the lease allows. The node thereby sets
//! the pace, and each line is sent once.
//!
//! Other sessions do the same, and a node answers one after the other. If answers come late, the next reports are
//! shorter, so that each session is answered well before its lease ends. The lines that are left out follow in the
//! next reports, the most urgent first.

use aliquot_core::unit::{Seq, Span, Tick};

/// The last report if it must be answered before the next one, and the maximum length of the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportPace {
    last: Option<Last>,
    /// Set if the last answer was long.
    hears_much: bool,
    lines_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    /// Number of the link that it was sent on.
    link: u64,
    seq: Seq,
    sent: Tick,
    /// Time at which the next report is sent without the answer.
    until: Tick,
}

impl ReportPace {
    /// Minimum number of lines of a long report or answer.
    const LONG: usize = 64;

    /// Maximum time for which a report waits for the answer to a long one, in report intervals: less than the
    /// second after which a silent client is granted nothing, and another node is tried.
    const REPORTS_MAX: u64 = 3;

    /// Maximum number of lines of a report at the beginning, and the least that it is lowered to.
    ///
    /// A client has its turn only after all others of a busy machine, and each of them makes a report and takes an
    /// answer of about this length meanwhile. With 1,024 lines, a round of a hundred clients on two cores took longer
    /// than a lease: see `docs/scaling.md`. A node with time answers within a few milliseconds, and then reports get long
    /// soon.
    const LINES_FIRST: usize = 128;
    const LINES_LEAST: usize = 128;

    /// Maximum number of lines of a report. A node handles a report as a whole, in four milliseconds if it has that many
    /// lines, and renews no lease meanwhile.
    const LINES_MOST: usize = 1_024;

    /// Time for an answer above which the next report has at most half as many lines. If it took less than a
    /// quarter of this, twice as many are allowed.
    const SLOW: Span = Span::from_millis(200);

    pub(super) const fn new() -> Self {
        Self {
            last: None,
            hears_much: false,
            lines_max: Self::LINES_FIRST,
        }
    }

    /// Returns the maximum number of lines of the next report.
    pub(super) const fn lines_max(&self) -> usize {
        self.lines_max
    }

    /// Records that report `seq` was sent on a link at `now`, with this number of lines. `every` is the usual
    /// interval of reports.
    pub(super) fn sent(&mut self, link: u64, (seq, lines): (Seq, usize), every: Span, now: Tick) {
        // The one before was not answered in time.
        if self.last.is_some_and(|last| last.link == link) {
            self.answers_take(Span::MAX);
        }
        let much = lines >= Self::LONG || self.hears_much;
        self.last = much.then(|| Last {
            link,
            seq,
            sent: now,
            until: now.after(every.times_or_max(Self::REPORTS_MAX)),
        });
    }

    /// Records an answer of this number of lines that arrived at `now`. It acknowledges report `taken` and all
    /// before it.
    pub(super) fn answered(&mut self, taken: Seq, lines: usize, now: Tick) {
        if let Some(last) = self.last.take_if(|last| last.seq <= taken) {
            self.answers_take(now.since(last.sent));
        }
        self.hears_much = lines >= Self::LONG;
    }

    fn answers_take(&mut self, time: Span) {
        self.lines_max = if time > Self::SLOW {
            (self.lines_max / 2).max(Self::LINES_LEAST)
        } else if time.times_or_max(4) < Self::SLOW {
            (self.lines_max * 2).min(Self::LINES_MOST)
        } else {
            self.lines_max
        };
    }

    /// Returns the time before which no report is sent on a link.
    pub(super) fn due(&self, link: Option<u64>) -> Tick {
        let last = self.last.filter(|last| Some(last.link) == link);
        last.map_or(Tick::ZERO, |last| last.until)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/session/report_pace.rs"]
mod tests;
