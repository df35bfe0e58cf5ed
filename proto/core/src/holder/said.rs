//! What reports have said, so that the next ones need not say it again.
//!
//! The parent says which report it took last, and the next one builds on that
//! *basis*: it leaves out what every report since the basis has said alike. What
//! matters is since when something has been said **without a break**, not
//! whether it is what the basis said: a value that changed and changed back may
//! have been taken in between. So whichever of the reports since the basis the
//! parent took, it knows afterwards exactly what a whole report would have said.
//!
//! ```text
//!  reports    4    5    6    7        the parent took 4, and perhaps 5 or 6
//!  wants      9    9    9    9        since 4: left out of 7
//!  wants      2    8    2    2        since 6: in 7, though 4 said the same
//! ```
//!
//! Where anybody may become the parent, as among nodes, only **whole** reports are a
//! basis: whoever holds the latest whole one and the latest of all knows everything,
//! though it never took one before. A later whole one is said when half of what there is
//! to say would be said anyway.

use crate::edge::Vector;
use crate::message::{Answer, Heard, ReportLine, Tally};
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{BudgetId, Seq, Span, Tick, Tokens};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The present row of reports about one budget.
#[derive(Clone, Debug, Hash)]
struct Entry {
    /// What the latest report said, or left out.
    line: ReportLine,
    /// Since which report what is wanted, and the period, are the same.
    wants: Seq,
    /// Since which report the returns are.
    returned: Seq,
    /// Since which report the tally is, and when that was.
    tally: (Seq, Tick),
    /// The latest report that had something to say of the budget.
    spoken: Seq,
}

/// Whole reports that may be built on; zero for none.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Wholes {
    /// The one that the parent knows.
    known: Seq,
    /// The first one since, of which that is not known.
    said: Seq,
}

/// What was said on one edge. Its size is that of a whole report.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Said {
    /// The latest report that the parent took; zero for nothing.
    basis: Seq,
    wholes: Wholes,
    /// The answer that said so.
    by: Heard,
    /// The greatest basis so far. A parent that is behind it has forgotten.
    greatest: Seq,
    entries: BTreeMap<BudgetId, Entry>,
}

impl Said {
    /// A tally is said again this long after it was last, if nothing else of its
    /// line changes: it is looked at, and nothing is decided by it.
    const TALLY_EVERY: Span = Span::from_secs(1);

    /// The parent says which report it took; `last` was sent last.
    pub(super) fn confirm(&mut self, answer: &Answer, last: Seq) {
        if answer.number < self.by {
            return;
        }
        let taken = answer.taken;
        self.by = answer.number;
        // A seq that was never sent is no basis either.
        let known = self.greatest <= taken && taken <= last;
        self.basis = if known { taken } else { Seq::new(0) };
        self.greatest = self.greatest.max(self.basis);
        let said = self.wholes.said;
        if self.basis == Seq::new(0) {
            self.wholes = Wholes::default();
        } else if Seq::new(0) < said && said <= self.basis {
            self.wholes = Wholes {
                known: said,
                said: Seq::new(0),
            };
        }
    }

    /// Whether the parent forgot what it had, and no whole report was made since.
    pub(super) fn owes_whole(&self) -> bool {
        let none = Seq::new(0);
        let said = [self.wholes.known, self.wholes.said];
        self.greatest > none && self.basis == none && said == [none; 2]
    }

    /// The basis of report `seq`, and what it says of `lines`, which are
    /// everything that there is to say.
    pub(super) fn changes(
        &mut self,
        seq: Seq,
        now: Tick,
        lines: Vec<ReportLine>,
    ) -> (Seq, Vec<ReportLine>) {
        let basis = self.basis;
        self.follow(seq, now, lines, basis);
        let known = match planted::is(Bug::LeftOutUnheard) && basis > Seq::new(0) {
            true => Seq::new(seq.get().saturating_sub(1)),
            false => basis,
        };
        (basis, self.after(known).collect())
    }

    /// The same, but built on a whole report, or whole itself.
    pub(super) fn changes_of_whole(
        &mut self,
        seq: Seq,
        now: Tick,
        lines: Vec<ReportLine>,
    ) -> (Seq, Vec<ReportLine>) {
        let Wholes { known: basis, said } = self.wholes;
        let all = lines.len();
        // Until a later whole one is known to be, reports build on the former.
        let ends_known = match basis > Seq::new(0) && !planted::is(Bug::EndLeftOut) {
            true => basis,
            false => basis.max(said),
        };
        self.follow(seq, now, lines, ends_known);
        if basis > Seq::new(0) {
            let changes: Vec<_> = self.after(basis).collect();
            if changes.len().saturating_mul(2) <= all {
                return (basis, changes);
            }
        }
        if said == Seq::new(0) {
            self.wholes.said = seq;
        }
        let spoken = self.entries.values().filter(|entry| entry.spoken == seq);
        let whole = spoken.filter_map(|entry| entry.after(Seq::new(0)));
        (Seq::new(0), whole.collect())
    }

    /// Whether the parent has a whole report that the next one may build on.
    pub(super) fn knows_whole(&self) -> bool {
        self.wholes.known > Seq::new(0)
    }

    /// The same of some `budgets` alone, where the parent has a whole report: `lines` are
    /// everything that there is to say of them. Of all others this report says what the one
    /// before it said.
    pub(super) fn changes_of_some(
        &mut self,
        seq: Seq,
        now: Tick,
        budgets: &BTreeSet<BudgetId>,
        lines: Vec<ReportLine>,
    ) -> (Seq, Vec<ReportLine>) {
        self.say(seq, now, lines);
        for budget in budgets {
            let entry = self.entries.get_mut(budget);
            if let Some(entry) = entry.filter(|entry| entry.spoken != seq)
                && !planted::is(Bug::EndOfSomeLeftOut)
            {
                entry.end(seq);
            }
        }
        let basis = self.wholes.known;
        (basis, self.after(basis).collect())
    }

    fn say(&mut self, seq: Seq, now: Tick, lines: Vec<ReportLine>) {
        for line in lines {
            match self.entries.get_mut(&line.budget) {
                Some(entry) => entry.follow(line, seq, now),
                None => {
                    self.entries.insert(line.budget, Entry::new(line, seq, now));
                }
            }
        }
    }

    /// Goes on with what report `seq` has to say. What ended is kept until `basis` is
    /// a report that knew.
    fn follow(&mut self, seq: Seq, now: Tick, lines: Vec<ReportLine>, basis: Seq) {
        self.say(seq, now, lines);
        // That nothing is wanted of a budget any more is said until it is known.
        self.entries.retain(|_, entry| {
            if entry.spoken == seq {
                return true;
            }
            if entry.line.asks_nothing() {
                return entry.wants > basis;
            }
            entry.end(seq);
            true
        });
    }

    /// What must be said to whoever may know no report after `basis`.
    fn after(&self, basis: Seq) -> impl Iterator<Item = ReportLine> {
        self.entries
            .values()
            .filter_map(move |entry| entry.after(basis))
    }
}

impl Entry {
    const fn new(line: ReportLine, seq: Seq, now: Tick) -> Self {
        Self {
            line,
            wants: seq,
            returned: seq,
            tally: (seq, now),
            spoken: seq,
        }
    }

    /// Goes on with what report `seq` has to say.
    fn follow(&mut self, mut line: ReportLine, seq: Seq, now: Tick) {
        let before = &self.line;
        let period = line.period != before.period;
        if period
            || line.demand != before.demand
            || line.floor != before.floor
            || line.largest_wait != before.largest_wait
        {
            self.wants = seq;
        }
        // Counters of another period are others.
        if period || line.returned != before.returned {
            self.returned = seq;
        }
        let (_, at) = self.tally;
        let due = self.wants == seq || self.returned == seq || now.since(at) >= Said::TALLY_EVERY;
        // Of what was wanted no more the parent may have forgotten the tally, too.
        let anew = self.wants == seq && before.asks_nothing();
        if line.tally != before.tally || anew {
            if due {
                self.tally = (seq, now);
            } else {
                line.tally = before.tally;
            }
        }
        self.spoken = seq;
        self.line = line;
    }

    /// Nothing is wanted from report `seq` on.
    fn end(&mut self, seq: Seq) {
        if self.line.asks_nothing() {
            return;
        }
        self.line.demand.clear();
        self.line.floor = Share::EMPTY;
        self.line.largest_wait = Tokens::ZERO;
        self.wants = seq;
    }

    /// What must be said to whoever may know no report after `basis`, if anything.
    fn after(&self, basis: Seq) -> Option<ReportLine> {
        let (returned, tally) = (self.returned > basis, self.tally.0 > basis);
        (returned || tally || self.wants > basis).then(|| ReportLine {
            budget: self.line.budget,
            period: self.line.period,
            returned: match returned {
                true => self.line.returned,
                false => Vector::ZERO,
            },
            demand: self.line.demand.clone(),
            floor: self.line.floor,
            largest_wait: self.line.largest_wait,
            tally: match tally {
                true => self.line.tally,
                false => Tally::default(),
            },
        })
    }
}
