//! The last report of a session that has much to say, until its answer arrives.
//!
//! A report repeats all lines that its node has not acknowledged, and each report is answered with all lines that
//! the client has not echoed. If a node is slow because it has much to read and to say, repeating a thousand lines
//! makes it slower still: in the end it does nothing but repeat, and leases end meanwhile. So if a report or the
//! last answer was long, the next report waits for the answer, as long as the lease allows. The node thereby sets
//! the pace, and each line is sent once.

use aliquot_core::unit::{Seq, Span, Tick};

/// A report that must be answered before the next one, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unanswered {
    last: Option<Last>,
    /// Set if the last answer was long.
    hears_much: bool,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    /// Number of the link that it was sent on.
    link: u64,
    seq: Seq,
    /// Time at which the next report is sent without the answer.
    until: Tick,
}

impl Unanswered {
    /// Minimum number of lines of a long report or answer.
    const LONG: usize = 64;

    /// Maximum time for which a report waits for the answer to a long one, in report intervals: less than the
    /// second after which a silent client is granted nothing, and another node is tried.
    const REPORTS_MAX: u64 = 3;

    /// Records that report `seq` was sent on a link at `now`, with this number of lines. `every` is the usual
    /// interval of reports.
    pub(super) fn sent(&mut self, link: u64, (seq, lines): (Seq, usize), every: Span, now: Tick) {
        let much = lines >= Self::LONG || self.hears_much;
        self.last = much.then(|| Last {
            link,
            seq,
            until: now.after(every.times_or_max(Self::REPORTS_MAX)),
        });
    }

    /// Records an answer of this number of lines, which acknowledges report `taken` and all before it.
    pub(super) fn answered(&mut self, taken: Seq, lines: usize) {
        self.last = self.last.filter(|last| last.seq > taken);
        self.hears_much = lines >= Self::LONG;
    }

    /// Returns the time before which no report is sent on a link.
    pub(super) fn due(&self, link: Option<u64>) -> Tick {
        let last = self.last.filter(|last| Some(last.link) == link);
        last.map_or(Tick::default(), |last| last.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Option<u64> = Some(7);

    #[test]
    fn the_report_after_a_long_one_waits_for_its_answer_but_not_for_long() {
        const LONG: usize = Unanswered::LONG;
        let (every, now) = (Span::from_millis(200), Tick::from_nanos(1_000));
        let (free, until) = (Tick::default(), now.after(Span::from_millis(600)));
        let mut unanswered = Unanswered::default();
        let sent = |unanswered: &mut Unanswered, seq: u64, lines: usize| {
            unanswered.sent(7, (Seq::new(seq), lines), every, now);
            unanswered.due(LINK)
        };
        assert_eq!(sent(&mut unanswered, 3, LONG - 1), free);
        assert_eq!(sent(&mut unanswered, 4, LONG), until);
        assert_eq!(unanswered.due(Some(8)), free, "another link");
        unanswered.answered(Seq::new(3), 0);
        assert_eq!(unanswered.due(LINK), until, "the answer to an earlier one");
        unanswered.answered(Seq::new(5), 0);
        assert_eq!(unanswered.due(LINK), free);
        // The node has much to say: each of its answers repeats what was not echoed.
        unanswered.answered(Seq::new(5), LONG);
        assert_eq!(sent(&mut unanswered, 6, 0), until);
        unanswered.answered(Seq::new(6), LONG - 1);
        assert_eq!(sent(&mut unanswered, 7, 0), free);
    }
}
