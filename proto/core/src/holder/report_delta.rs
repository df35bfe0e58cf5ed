//! The lines of a child's reports, kept so that the next reports need not repeat them.
//!
//! A line is in the [`Window`] from the first report that has it until the parent acknowledges that report or
//! a later one. Every report in between repeats the line with its value at that time. Whichever of them the
//! parent took, it knows the line's value in that report. A line that changes in the window starts again with
//! the report that has the change:
//!
//! ```text
//!  reports    4    5    6    7        the parent took 5
//!  wants      9    9    9    9        since 4: known, and left out of 7
//!  wants      2    8    2    2        since 6: in 7, though 4 had the same
//! ```
//!
//! A parent that lost its state, or another parent, has no basis. Then every line waits again: first the
//! lines with demand, and of these the latest changes first. Of very many lines, each report queues some:
//!
//! ```text
//!  budgets    1 ........ 8192 | 8193 ..................... 50,000
//!             in the window   | `unqueued`: not known to the parent, whatever it acknowledges
//! ```

use crate::edge::{Counters, Vector};
use crate::few::{Few, FewMap};
use crate::ledger::{DemandChange, is_little, total};
use crate::message::{Answer, BandDemand, Heard, ReportLine, Tally};
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{BudgetId, PeriodId, Rate, Seq, Span, Tick, Tokens};
use crate::window::{LineUrgency, Window};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hint;

/// State of one budget's line.
#[derive(Clone, Debug, Hash)]
struct Entry {
    line: Line,
    /// The latest tally. The line's own tally may be older.
    tally: Tally,
    /// The latest demand, if it is not the line's and may wait.
    latest: Option<Box<Few<BandDemand>>>,
    /// Time at which the line was updated.
    counted: Tick,
    /// The first report that has the line as it is, while the line is in the window.
    since: Seq,
    /// Orders entries by their last change.
    changed: u64,
}

/// State of a budget that is not in its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Set if something of it was ever granted.
    pub(super) given: bool,
    /// Set if another holder lacks what the line returns.
    pub(super) urgent: bool,
    /// Maximum demand that is sparse. A small change of it may wait.
    pub(super) sparse: u64,
    /// Set if nothing is held of a rate. Any change of a sparse demand may then wait unless it begins or is over.
    pub(super) empty: bool,
    /// The rate that is held of it. Any change of a demand that is little of this may wait unless it is over.
    pub(super) held: Rate,
}

/// A line without its budget. It is kept for every budget, so what few lines have is boxed.
#[derive(Clone, Debug, PartialEq, Hash)]
struct Line {
    demand: Few<BandDemand>,
    tally: Tally,
    rare: Option<Box<Rare>>,
}

/// The parts of a line that are nearly always empty.
#[derive(Clone, Debug, PartialEq, Hash)]
struct Rare {
    period: PeriodId,
    returned: Vector,
    floor: Share,
    largest_wait: Tokens,
}

impl Rare {
    const NONE: Self = Self {
        period: PeriodId::new(0),
        returned: Vector::ZERO,
        floor: Share::EMPTY,
        largest_wait: Tokens::ZERO,
    };
}

impl Line {
    fn of(line: ReportLine) -> Self {
        let rare = Rare {
            period: line.period,
            returned: line.returned,
            floor: line.floor,
            largest_wait: line.largest_wait,
        };
        Self {
            demand: line.demand.into(),
            tally: line.tally,
            rare: (rare != Rare::NONE).then(|| Box::new(rare)),
        }
    }

    fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&Rare::NONE)
    }

    fn of_budget(&self, budget: BudgetId) -> ReportLine {
        let rare = self.rare();
        ReportLine {
            budget,
            period: rare.period,
            returned: rare.returned,
            demand: self.demand.to_vec(),
            floor: rare.floor,
            largest_wait: rare.largest_wait,
            tally: self.tally,
        }
    }
}

/// Lines that were sent on one edge, and lines that wait to be sent.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct ReportDelta {
    /// Maximum number of lines of a report.
    most: usize,
    /// Maximum number of lines of the next reports, apart from those that return what another holder waits for: a
    /// parent renews no lease of a child that returns too late.
    limit: usize,
    /// The latest report that the parent took, or zero for none.
    basis: Seq,
    /// The answer that acknowledged it.
    by: Heard,
    /// The greatest basis so far. A parent that is behind it has lost its state.
    greatest: Seq,
    entries: FewMap<BudgetId, Entry>,
    window: Window,
    /// The first of the budgets whose lines are not queued yet since the parent lost its state: this one and all later
    /// ones. `None` if all are queued.
    unqueued: Option<BudgetId>,
    /// Set if the last report had no room for a line that waits.
    full: bool,
    /// Lines that are out of date by a little, by the time at which they are updated.
    behind: BTreeSet<(Tick, BudgetId)>,
    /// Time until which the updates that were made use up [`ReportDelta::UPDATES_PER_SECOND`].
    updated: Tick,
    changes: u64,
}

impl ReportDelta {
    /// Minimum interval at which a line is updated that changes by a little: its tally, which is for display alone, or
    /// its demand, as [`changes_little`] says. The estimate of a single request falls with each tick for ten seconds. If
    /// each fall were reported, a key that is asked for now and then would cost fifty lines for each request, at each
    /// level.
    const UPDATE_EVERY: Span = Span::from_secs(1);

    /// Maximum number of such updates a second, in the order in which they are due. A hundred clients with ten thousand
    /// keys each would otherwise send their nodes a million lines a second, and new keys would wait behind these.
    const UPDATES_PER_SECOND: u64 = 100;

    /// Interval at which a demand that is little of what is held is updated, while it falls and is
    /// not over. It is longer than a single request is remembered, so that the end of its demand comes first.
    const FADES: Span = Span::from_secs(12);

    /// Maximum number of lines that one report queues after the parent lost its state. Queueing one takes half a
    /// microsecond, and renewals of leases wait meanwhile.
    const QUEUED_MAX: usize = 8_192;

    /// Returns the state of an edge without reports. A report has at most `most` lines.
    pub(super) fn with_lines(most: usize) -> Self {
        Self {
            most,
            limit: most,
            ..Self::default()
        }
    }

    /// Reads what most reports read first, for [`Holder::fetch`](super::Holder::fetch).
    pub(super) fn fetch(&self) {
        hint::black_box((self.basis, self.by, self.greatest, self.changes));
        hint::black_box((self.most, self.full, self.window.len(), self.behind.len()));
    }

    /// Returns the line that is to be updated first, with its time.
    pub(super) fn first_behind(&self) -> Option<(Tick, BudgetId)> {
        if self.behind.is_empty() {
            return None;
        }
        self.behind.first().copied()
    }

    /// Returns the latest tally of a budget.
    pub(super) fn tally(&self, budget: BudgetId) -> Option<Tally> {
        self.entries.get(&budget).map(|entry| entry.tally)
    }

    /// Sets the maximum number of lines of the next reports.
    pub(super) const fn limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the number of new lines for which the next report has room. Small changes wait behind them.
    pub(super) fn room(&self) -> usize {
        self.window.room(self.limit)
    }

    /// Returns true if there is a line of a budget.
    pub(super) fn has(&self, budget: BudgetId) -> bool {
        self.entries.contains_key(&budget)
    }

    /// Takes the acknowledgement in an answer. `last` is the last report sent.
    ///
    /// The line of an ended claim is kept although the parent knows of the end. Another parent may have taken
    /// an earlier report with the claim, and must be reported too.
    pub(super) fn confirm(&mut self, answer: &Answer, last: Seq) {
        if answer.number < self.by {
            return;
        }
        let (taken, before) = (answer.taken, self.basis);
        self.by = answer.number;
        // A number that was never sent is no basis either.
        let known = self.greatest <= taken && taken <= last;
        self.basis = if known { taken } else { Seq::new(0) };
        self.greatest = self.greatest.max(self.basis);
        if self.basis > before {
            self.acknowledge();
        } else if self.basis < before {
            self.restart();
        }
    }

    fn acknowledge(&mut self) {
        for budget in self.window.in_flight() {
            let Some(entry) = self.entries.get(&budget) else {
                continue;
            };
            if entry.since > self.basis {
                continue;
            }
            self.full = false;
            self.window.forget(budget);
        }
    }

    /// Has every line queued again, because the parent knows none.
    fn restart(&mut self) {
        self.full = false;
        self.window = Window::default();
        self.unqueued = Some(BudgetId::new(0));
    }

    /// Queues the next lines of those that the parent lost. Lines of which nothing is wanted come after all others, and
    /// are not sent before all are queued: with few lines in each report, the rest is queued soon.
    fn queue_some(&mut self) {
        let Some(from) = self.unqueued.take() else {
            return;
        };
        let mut entries = self.entries.entries_from(&from);
        let mut order: Vec<_> = entries
            .by_ref()
            .take(Self::QUEUED_MAX)
            .map(|(&budget, entry)| {
                let waits = !entry.line.rare().largest_wait.is_zero();
                let urgency = match waits || total(&entry.line.demand) > 0 {
                    true => LineUrgency::Usual,
                    false => LineUrgency::Idle,
                };
                (urgency, Reverse(entry.changed), budget)
            })
            .collect();
        self.unqueued = entries.next().map(|(&budget, _)| budget);
        order.sort_unstable();
        for (urgency, _, budget) in order {
            self.window.wait(budget, urgency);
        }
    }

    /// Sets the line of a budget from report `seq` on.
    pub(super) fn follow(&mut self, line: ReportLine, known: Known, seq: Seq, now: Tick) {
        let (budget, tally) = (line.budget, line.tally);
        let Some(entry) = self.entries.get_mut(&budget) else {
            if line.asks_nothing() && !known.given {
                return;
            }
            let begins = total(&line.demand) > 0 || waits(&line) || !line.floor.is_empty();
            let entry = Entry {
                line: Line::of(line),
                tally,
                latest: None,
                counted: now,
                since: seq,
                changed: 0,
            };
            self.entries.insert(budget, entry);
            return self.change(budget, urgency(known.urgent, begins), seq);
        };
        if planted::is(Bug::EndLeftOut) && line.asks_nothing() {
            return;
        }
        let mut line = Line::of(line);
        let before = &entry.line;
        entry.tally = entry.tally.merge(tally);
        line.tally = before.tally;
        if changes_little(before, &line, known) {
            let differs = line.demand != before.demand && !planted::is(Bug::SmallFallUnsaid);
            let counts = entry.tally != entry.line.tally;
            let was = total(&before.demand);
            let fades = was > 0 && is_little(was, known.held);
            let after = match fades && !counts {
                true => Self::FADES,
                false => Self::UPDATE_EVERY,
            };
            entry.latest = differs.then(|| Box::new(line.demand));
            if differs || counts {
                self.behind.insert((entry.counted.after(after), budget));
            }
            return;
        }
        let (was, is) = (total(&before.demand), total(&line.demand));
        let urgent = matches!(DemandChange::of(was, is), DemandChange::Up)
            || matches!(moved(before, &line, known), DemandChange::Up)
            || line.rare().largest_wait > before.rare().largest_wait
            || before.rare().floor.is_empty() && !line.rare().floor.is_empty();
        (entry.line, entry.latest) = (line, None);
        self.update(budget, now);
        self.change(budget, urgency(known.urgent, urgent), seq);
    }

    /// Sets the returned counters of a line, and leaves all else as it is.
    pub(super) fn return_more(
        &mut self,
        budget: BudgetId,
        counters: &Counters,
        urgent: bool,
        (seq, now): (Seq, Tick),
    ) {
        let known = self.line(budget);
        let line = ReportLine {
            period: counters.period,
            returned: counters.returned,
            demand: self.demand(budget).to_vec(),
            ..known.unwrap_or(ReportLine::empty(budget))
        };
        let known = Known {
            given: true,
            urgent,
            sparse: 0,
            empty: false,
            held: Rate::ZERO,
        };
        self.follow(line, known, seq, now);
    }

    /// Copies the latest tally and demand into the line.
    fn update(&mut self, budget: BudgetId, now: Tick) {
        if let Some(entry) = self.entries.get_mut(&budget) {
            for after in [Self::UPDATE_EVERY, Self::FADES] {
                self.behind.remove(&(entry.counted.after(after), budget));
            }
            (entry.line.tally, entry.counted) = (entry.tally, now);
            if let Some(demand) = entry.latest.take() {
                entry.line.demand = *demand;
            }
        }
    }

    /// Marks a line as changed from report `seq` on.
    fn change(&mut self, budget: BudgetId, urgency: LineUrgency, seq: Seq) {
        self.changes = self.changes.saturating_add(1);
        if let Some(entry) = self.entries.get_mut(&budget) {
            (entry.since, entry.changed) = (seq, self.changes);
            self.window.wait(budget, urgency);
        }
    }

    /// Updates the lines that are due at `now`, as many as [`ReportDelta::UPDATES_PER_SECOND`] allows.
    fn update_some(&mut self, seq: Seq, now: Tick) {
        let second = Span::from_secs(1);
        let each = second.nanos().checked_div(Self::UPDATES_PER_SECOND);
        let each = Span::from_nanos(each.unwrap_or(0));
        while let Some((due, budget)) = self.first_behind().filter(|(due, _)| *due <= now) {
            let updated = self.updated.max(now.before(second)).after(each);
            if updated > now && !planted::is(Bug::UpdatesUnbounded) {
                break;
            }
            self.updated = updated;
            self.behind.remove(&(due, budget));
            self.update(budget, now);
            self.change(budget, LineUrgency::Usual, seq);
        }
    }

    /// Returns the basis and the lines of report `seq`: those in the window, and as many of the waiting ones
    /// as there is room for.
    pub(super) fn lines(&mut self, seq: Seq, now: Tick) -> (Seq, Vec<ReportLine>) {
        self.queue_some();
        self.update_some(seq, now);
        let (mut lines, mut bytes) = (Vec::new(), 0_usize);
        for budget in self.window.in_flight() {
            let Some(entry) = self.entries.get(&budget) else {
                continue;
            };
            let line = entry.line.of_budget(budget);
            if planted::is(Bug::LeftOutUnheard) && entry.since < seq {
                continue;
            }
            let after = bytes.saturating_add(line.bytes_max());
            if after > ReportLine::BYTES_MAX {
                // Its demand had fewer segments when it was sent first.
                self.window.requeue(budget);
                continue;
            }
            bytes = after;
            lines.push(line);
        }
        let mut only_idle = false;
        while let Some((budget, urgency)) = self.window.next(self.limit, self.most) {
            only_idle = urgency == LineUrgency::Idle && self.unqueued.is_some();
            if only_idle {
                break;
            }
            let Some(entry) = self.entries.get_mut(&budget) else {
                self.window.forget(budget);
                continue;
            };
            let room = match urgency {
                LineUrgency::Owed | LineUrgency::Urgent => ReportLine::BYTES_MAX,
                LineUrgency::Usual | LineUrgency::Idle => Window::usual(ReportLine::BYTES_MAX),
            };
            let line = entry.line.of_budget(budget);
            let after = bytes.saturating_add(line.bytes_max());
            if after > room {
                break;
            }
            bytes = after;
            entry.since = seq;
            self.window.send(budget);
            lines.push(line);
        }
        self.full = self.window.has_waiting() && !only_idle;
        (self.basis, lines)
    }

    /// Returns true if lines wait that the next report has room for.
    pub(super) fn has_more(&self) -> bool {
        !self.full && (self.window.has_waiting() || self.unqueued.is_some())
    }

    /// Returns true if the line of a budget waits to be sent.
    pub(super) fn is_waiting(&self, budget: BudgetId) -> bool {
        let unqueued = self.unqueued.is_some_and(|first| first <= budget);
        self.window.is_waiting(budget) || (unqueued && self.has(budget))
    }

    /// Removes the line of a budget.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        self.window.forget(budget);
        if let Some(entry) = self.entries.remove(&budget) {
            for after in [Self::UPDATE_EVERY, Self::FADES] {
                self.behind.remove(&(entry.counted.after(after), budget));
            }
        }
    }

    /// Returns the latest demand for a budget. Its line may still have one that differs a little.
    pub(super) fn demand(&self, budget: BudgetId) -> &[BandDemand] {
        let entry = self.entries.get(&budget);
        entry.map_or(&[], |entry| {
            let latest = entry.latest.as_deref();
            latest.unwrap_or(&entry.line.demand)
        })
    }

    /// Returns the line of a budget for the next report.
    pub(super) fn line(&self, budget: BudgetId) -> Option<ReportLine> {
        let entry = self.entries.get(&budget)?;
        Some(entry.line.of_budget(budget))
    }

    /// Returns the budgets that any state is kept of.
    pub(super) fn remembered(&self) -> impl Iterator<Item = BudgetId> {
        let behind = self.behind.iter().map(|&(_, budget)| budget);
        self.entries.keys().copied().chain(behind)
    }
}

/// Returns true if two lines are equal, or differ only by a change of demand that may wait. The demand is not over, did
/// not move among callers, and
///
/// - was and is little of what is held,
/// - or it was and is sparse, and nothing is held: the parent knows that something is wanted,
/// - or it was and is sparse, and did not fall to half or double.
fn changes_little(before: &Line, line: &Line, known: Known) -> bool {
    if (before.tally, &before.rare) != (line.tally, &line.rare) {
        return false;
    }
    if before.demand == line.demand {
        return true;
    }
    let weight = |of: &BandDemand| (of.band, of.curve.weight());
    let same = before
        .demand
        .iter()
        .map(weight)
        .eq(line.demand.iter().map(weight));
    let (was, is) = (total(&before.demand), total(&line.demand));
    if !same || is == 0 || !matches!(moved(before, line, known), DemandChange::None) {
        return false;
    }
    let most = was.max(is);
    let small = known.empty || matches!(DemandChange::of(was, is), DemandChange::None);
    is_little(most, known.held) || (was > 0 && most <= known.sparse && small)
}

/// Compares the callers of two lines.
fn moved(before: &Line, line: &Line, known: Known) -> DemandChange {
    DemandChange::of_callers(&before.demand, &line.demand, known.held.grains())
}

/// Returns true if a request waits.
const fn waits(line: &ReportLine) -> bool {
    !line.largest_wait.is_zero()
}

const fn urgency(is_owed: bool, is_urgent: bool) -> LineUrgency {
    match (is_owed, is_urgent) {
        (true, _) => LineUrgency::Owed,
        (false, true) => LineUrgency::Urgent,
        (false, false) => LineUrgency::Usual,
    }
}
