//! When what sessions say is taken: at once, or, where much is said, together.

use aliquot_core::unit::{Span, Tick};

/// Watches how many reports come in. To wake for a report and to wake whoever carries its
/// answer takes as long as to read and to answer it, so that those of a busy node wait for each
/// other: it wakes at most once in a [`Gathering::PAUSE`], and a report waits no longer than that.
/// Reports that say a lot take longer to read than anybody to wake, and gain nothing by waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// Since when reports and their lines are counted, and how many there were.
    since: Tick,
    reports: u64,
    lines: u64,
    /// Whether there was more than one short report a pause when they were counted last.
    many: bool,
    next: Tick,
}

impl Gathering {
    /// The time in which reports gather.
    const PAUSE: Span = Span::from_millis(1);

    /// Reports are counted for so long at least.
    const COUNTED: Span = Span::from_millis(20);

    /// With so many lines on average, reports are long: at some 100 ns a line, to read one takes
    /// 20 µs and more.
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

    /// So many reports were taken together, with so many lines in all.
    pub(super) fn took(&mut self, reports: u64, lines: u64, now: Tick) {
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

    /// When sessions are heard next; in the past, at once.
    pub(super) const fn next(&self) -> Tick {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes reports of so many lines that come `apart` for a while; how long the last one waits at most.
    fn waits(gathering: &mut Gathering, from: Tick, apart: Span, lines: u64) -> (Tick, Span) {
        let mut now = from;
        for _ in 0..200 {
            gathering.took(1, lines, now);
            now = now.after(apart);
        }
        (now, gathering.next().since(now))
    }

    #[test]
    fn few_reports_are_heard_at_once_and_many_together() {
        let mut gathering = Gathering::new(Tick::default());
        let (now, wait) = waits(&mut gathering, Tick::default(), Span::from_millis(2), 20);
        assert_eq!(wait, Span::ZERO);
        let (now, wait) = waits(&mut gathering, now, Span::from_nanos(200_000), 20);
        assert_eq!(wait, Span::from_nanos(800_000));
        // What comes first after a silence does not wait, and what follows it neither.
        let now = now.after(Span::from_secs(1));
        assert!(gathering.next() <= now);
        gathering.took(1, 20, now);
        assert!(gathering.next() <= now);
    }

    #[test]
    fn long_reports_wait_for_nobody() {
        let mut gathering = Gathering::new(Tick::default());
        let often = Span::from_nanos(200_000);
        let (now, wait) = waits(&mut gathering, Tick::default(), often, 1_000);
        assert_eq!(wait, Span::ZERO);
        let (_, wait) = waits(&mut gathering, now, often, Gathering::LONG - 1);
        assert_eq!(wait, Span::from_nanos(800_000));
    }
}
