//! One child of a parent, as far as it is known from its reports.

use super::claim::{Claim, Urgency};
use super::planning_queue::PlanningQueue;
use crate::budget;
use crate::few::FewMap;
use crate::interner::Interner;
use crate::message::{AnswerLine, Heard, Intent, Report, ReportLine, Terms};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Edge, Number, Seq, Span, Term, Tick};
use crate::window::{LineUrgency, Window};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

/// Reason why a report was not taken. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportError {
    /// No such edge is open. The sender must open another.
    Closed,
    /// A later report of the edge was taken before.
    Stale,
    /// It builds on a report that was not taken here. The sender must send everything.
    Unfounded,
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the edge is closed; open another",
            Self::Stale => "a later report of the edge was taken before",
            Self::Unfounded => "it builds on a report that was not taken here; send a whole one",
        })
    }
}

impl core::error::Error for ReportError {}

/// The parent's knowledge of one child.
#[derive(Clone, Debug, Hash)]
pub struct Child {
    edge: Edge,
    opened: Tick,
    seq: Seq,
    received: Tick,
    heard: Number,
    seen: Number,
    number: Number,
    /// Sending times of some answers, in the order of their numbers.
    sent: VecDeque<(Number, Tick)>,
    wall_ms: i64,
    intent: Intent,
    fenced: bool,
    /// Budgets that were planned without this child because it was silent.
    skipped: BTreeSet<BudgetId>,
    /// Its claims, by budget.
    pub claims: FewMap<BudgetId, Claim>,
    /// Claims that an answer may have a line for: those whose line was sent and not echoed yet, and those
    /// that [`Child::tell`] marked.
    window: Window,
    /// Budgets whose targets were sent and not met: all for which [`Claim::is_watched`] is true, and perhaps
    /// more.
    watched: BTreeSet<BudgetId>,
}

impl Child {
    /// Maximum number of sent answers whose time is remembered for the echo.
    const REMEMBERED: usize = 128;

    /// Minimum time between two remembered answers, however many were sent between them. Together they cover
    /// more time than any echo that still counts may take, in little memory.
    const APART: Span = Span::from_millis(100);

    /// Maximum number of a client's claims that its node keeps: as many as a session may have keys. Lines of
    /// further budgets are ignored, so nothing of them is granted.
    pub const CLAIMS_MAX: usize = 16_384;

    pub(super) fn new(edge: Edge, now: Tick) -> Self {
        Self {
            edge,
            opened: now,
            seq: Seq::new(0),
            received: now,
            heard: Number::new(0),
            seen: Number::new(0),
            number: Number::new(0),
            sent: VecDeque::new(),
            wall_ms: 0,
            intent: Intent::Stay,
            fenced: false,
            skipped: BTreeSet::new(),
            claims: FewMap::new(),
            window: Window::default(),
            watched: BTreeSet::new(),
        }
    }

    /// Returns the edge: the incarnations of parent and child.
    #[must_use]
    pub const fn edge(&self) -> Edge {
        self.edge
    }

    /// Returns the number of the latest report taken.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the arrival of that report.
    #[must_use]
    pub const fn received(&self) -> Tick {
        self.received
    }

    /// Returns the wall clock of that report, in milliseconds since the Unix epoch.
    #[must_use]
    pub const fn wall_ms(&self) -> i64 {
        self.wall_ms
    }

    /// Returns true if the child is leaving.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.intent == Intent::Leave
    }

    /// Returns true if the child is granted nothing more. Its parts stay booked until it is reclaimed.
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Returns true if the child's present demand is unknown: it has not reported to this ledger, or not for
    /// longer than `silence`.
    pub(super) fn is_silent(&self, now: Tick, silence: Span) -> bool {
        self.seq == Seq::new(0) || now.since(self.received) > silence
    }

    /// Reads some of its fields, for [`fetch`](super::children::fetch).
    pub(crate) fn read_head(&self) -> u64 {
        let head = self.seq.get() ^ self.received.nanos() ^ self.edge.child.get();
        head ^ u64::from(self.fenced) ^ u64::try_from(self.claims.len()).unwrap_or(0)
    }

    /// Reads more of its fields, for [`Node::fetch`](crate::node::Node::fetch).
    pub(crate) fn read_more(&self) -> u64 {
        let more = self.number.get() ^ self.heard.get() ^ self.seen.get() ^ self.opened.nanos();
        let window = self.window.len() ^ self.watched.len() ^ self.skipped.len();
        more ^ u64::try_from(window).unwrap_or(0)
    }

    /// Reads the sending time of the latest answer, for [`Node::fetch`](crate::node::Node::fetch).
    pub(crate) fn read_sent(&self) -> u64 {
        self.sent.back().map_or(0, |&(_, sent)| sent.nanos())
    }

    pub(super) fn skip(&mut self, budget: BudgetId) {
        self.skipped.insert(budget);
    }

    /// Has the budgets planned again that were planned without this child: at once those of which it lacks something.
    fn plan_skipped(&mut self, queue: &mut PlanningQueue) {
        for budget in core::mem::take(&mut self.skipped) {
            match self.claims.get(&budget) {
                Some(claim) if claim.lacks() && !planted::is(Bug::SkippedPlannedLast) => {
                    queue.mark_urgent(budget);
                }
                Some(_) => queue.touch(budget),
                // It has ended, or the child does not know it.
                None => {}
            }
        }
    }

    pub(super) fn fence(&mut self) {
        self.fenced = true;
    }

    pub(super) fn budgets(&self) -> impl Iterator<Item = BudgetId> {
        self.claims.keys().copied()
    }

    /// Takes a report, whose lines are taken by the rules in `terms`.
    pub(super) fn take(
        &mut self,
        now: Tick,
        term: Term,
        report: &Report,
        terms: &Hearing<impl Fn(BudgetId) -> Option<budget::Claim>, impl Fn(BudgetId) -> bool>,
        queue: &mut PlanningQueue,
    ) -> Result<(), ReportError> {
        if report.seq <= self.seq {
            return Err(ReportError::Stale);
        }
        // A planted bug that accepts a report of another incarnation ignores its basis as well.
        let asks = !planted::is(Bug::BasisNotAsked) && !planted::is(Bug::ReportNotFenced);
        if asks && report.basis > self.seq {
            return Err(ReportError::Unfounded);
        }
        self.seq = report.seq;
        self.received = now;
        self.wall_ms = report.wall_ms;
        if report.intent != self.intent {
            self.intent = report.intent;
            queue.touch_all(self.claims.keys());
            queue.unsummed.extend(self.claims.keys());
        }
        // An echo counts only if an answer of that number was sent.
        if report.heard.term == term && report.heard.number <= self.number {
            self.heard = self.heard.max(report.heard.number);
        }
        self.note_seen(term, report.seen);
        for line in &report.lines {
            self.take_line(line, now, terms, queue);
        }
        let claims = &mut self.claims;
        if !self.watched.is_empty() {
            self.watched.retain(|budget| {
                let claim = claims.get_mut(budget);
                claim.is_some_and(|claim| {
                    claim.echo(self.heard, now);
                    claim.is_watched()
                })
            });
            if self.watched.is_empty() {
                // An empty tree may still have a node, and there is one for each session.
                self.watched = BTreeSet::new();
            }
        }
        if !self.skipped.is_empty() {
            self.plan_skipped(queue);
        }
        Ok(())
    }

    fn take_line(
        &mut self,
        line: &ReportLine,
        now: Tick,
        terms: &Hearing<impl Fn(BudgetId) -> Option<budget::Claim>, impl Fn(BudgetId) -> bool>,
        queue: &mut PlanningQueue,
    ) {
        let (id, budget) = (self.edge.child, line.budget);
        let full = self.claims.len() >= terms.most;
        if (full && !self.claims.contains_key(&budget)) || (terms.ended)(budget) {
            return;
        }
        let claim = self.claims.get_or_insert_with(budget, || {
            queue.claims(budget, id);
            self.window.wait(budget, LineUrgency::Usual);
            Claim::default()
        });
        queue.unsummed.insert(budget);
        if claim.rule().is_none() {
            claim.set_rule((terms.rules)(budget));
        }
        debug_assert!(
            (terms.rules)(budget).is_none_or(|rule| claim.rule() == Some(rule)),
            "a rule changed without a call of `tell`"
        );
        let before = (claim.period(), claim.returned());
        let urgency = claim.take(line, now);
        let returns = (claim.period(), claim.returned()) != before;
        if returns || planted::is(Bug::ReturnCrossesStamps) {
            queue.returned.insert(budget);
        }
        match urgency {
            Urgency::None => {}
            Urgency::Changed => queue.touch(budget),
            Urgency::Returned => queue.came_back(budget),
            Urgency::Fell => queue.fell(budget),
            Urgency::Asked => queue.ask(budget),
        }
        // A budget that the parent does not know leaves no claim.
        if line.asks_nothing() && claim.is_over() {
            self.claims.remove(&budget);
            self.window.forget(budget);
            queue.touch(budget);
            queue.claims_no_longer(budget, id);
        }
    }

    /// Forgets a budget that has ended.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        self.claims.remove(&budget);
        self.window.forget(budget);
        self.watched.remove(&budget);
        self.skipped.remove(&budget);
    }

    /// Returns true if claims wait for an answer that has room for their lines.
    pub(super) fn has_lines_waiting(&self) -> bool {
        self.window.has_waiting()
    }

    /// Returns the number of lines that were sent and not echoed, or echoed since the last answer.
    pub(super) fn unechoed(&self) -> usize {
        self.window.in_flight_len()
    }

    /// Returns the number of lines that its next answers examine.
    pub(super) fn lines_to_examine(&self) -> usize {
        self.window.len()
    }

    /// Takes from a report that it is there and which answers it received, and nothing else. Returns false if a
    /// later report was taken.
    pub(super) fn hear(&mut self, now: Tick, term: Term, report: &Report) -> bool {
        let is_later = report.seq > self.seq;
        if is_later {
            self.received = now;
            self.note_seen(term, report.seen);
        }
        is_later
    }

    /// Notes an answer that it received. One counts only if an answer of that number was sent.
    fn note_seen(&mut self, term: Term, seen: Heard) {
        if seen.term == term && seen.number <= self.number {
            self.seen = self.seen.max(seen.number);
        }
    }

    /// Has the next answer examine this budget.
    pub(super) fn tell(&mut self, budget: BudgetId) {
        let claim = self.claims.get(&budget);
        let recalled = claim.is_some_and(|claim| claim.has_target());
        let haste = match recalled {
            true => LineUrgency::Urgent,
            false => LineUrgency::Usual,
        };
        self.window.wait(budget, haste);
    }

    /// Returns true if the child echoed an answer sent less than `lease` ago, or was added less than `lease`
    /// ago.
    pub(super) fn hears(&self, now: Tick, lease: Span) -> bool {
        // If the echoed answer is between two remembered ones, the time of the earlier one is used.
        now.since(self.opened) < lease || {
            // The echoed one is among the last, which are in the cache.
            let mut latest = self.sent.iter().rev();
            let echoed = latest.find(|(number, _)| *number <= self.seen);
            echoed.is_some_and(|&(_, sent)| now.since(sent) < lease)
        }
    }

    pub(super) fn is_overdue(&self, now: Tick, patience: impl Fn(BudgetId) -> Span) -> bool {
        self.watched.iter().any(|&budget| {
            let claim = self.claims.get(&budget);
            let heard = claim.and_then(|claim| claim.heard_at());
            heard.is_some_and(|at| now.since(at) >= patience(budget))
        })
    }

    pub(super) fn next_answer(&mut self, now: Tick) -> Option<Number> {
        self.number = self.number.next()?;
        let last = self.sent.back();
        if last.is_none_or(|&(_, sent)| now.since(sent) >= Self::APART) {
            // The echo names an answer that is at least as late as the latest one that was seen, so that earlier ones are
            // of no use any more.
            let seen = |&(number, _): &(Number, Tick)| number <= self.seen;
            while self.sent.get(1).is_some_and(seen) || self.sent.len() >= Self::REMEMBERED {
                self.sent.pop_front();
            }
            self.sent.push_back((self.number, now));
        }
        Some(self.number)
    }

    /// Returns the lines of answer `number`: those that the child has not echoed, and of the waiting ones as
    /// many as `most` allows. Lines with targets come first. Their terms are kept as shared by `terms`.
    pub(super) fn lines(
        &mut self,
        number: Number,
        most: usize,
        terms: &mut Interner<Terms>,
        books: &impl Fn(BudgetId) -> Option<AnswerLine>,
    ) -> Vec<AnswerLine> {
        let mut lines = Lines::default();
        for budget in self.window.in_flight() {
            self.tell_now(budget, number, terms, books, &mut lines);
        }
        while let Some((budget, _)) = self.window.next(most, most) {
            self.window.send(budget);
            self.tell_now(budget, number, terms, books, &mut lines);
        }
        debug_assert!(
            planted::any() || self.knows_the_rest(books),
            "the book changed without a call of `tell`"
        );
        lines.urgent.append(&mut lines.rest);
        lines.urgent
    }

    /// Adds the line of a budget in the window to answer `number`, if it must be sent to the child. If not, the
    /// budget leaves the window.
    fn tell_now(
        &mut self,
        budget: BudgetId,
        number: Number,
        terms: &mut Interner<Terms>,
        books: &impl Fn(BudgetId) -> Option<AnswerLine>,
        lines: &mut Lines,
    ) {
        let line = self.claims.get_mut(&budget).zip(books(budget));
        let claimed_line = line.and_then(|(claim, mut line)| {
            claim.begin(line.period);
            claim.complete(&mut line);
            let must = claim.must_send(number, self.heard, &line, terms);
            must.then_some((claim, line))
        });
        let Some((claim, line)) = claimed_line else {
            return self.window.forget(budget);
        };
        if claim.is_watched() {
            self.watched.insert(budget);
        }
        match claim.has_target() {
            true => lines.urgent.push(line),
            false => lines.rest.push(line),
        }
        if planted::is(Bug::ToldOnce) {
            self.window.forget(budget);
        }
    }

    /// Returns true if the child knows the line of every claim outside the window. Checks only a child with
    /// few claims: checking many with every answer would make tests too slow.
    fn knows_the_rest(&self, books: &impl Fn(BudgetId) -> Option<AnswerLine>) -> bool {
        const MANY: usize = 256;
        let rest = |budget: &BudgetId| !self.window.has(*budget);
        let mut claims = self.claims.iter().filter(|(budget, _)| rest(budget));
        self.claims.len() > MANY
            || claims.all(|(&budget, claim)| {
                books(budget).is_none_or(|mut line| {
                    claim.complete(&mut line);
                    claim.knows(self.heard, &line)
                })
            })
    }
}

/// Rules by which the lines of reports are taken.
pub(super) struct Hearing<R, E> {
    /// Returns the claim with which the demand on a budget counts, whatever is reported.
    pub(super) rules: R,
    /// Returns true if a budget has ended.
    pub(super) ended: E,
    /// Maximum number of claims of a child.
    pub(super) most: usize,
}

/// The lines of an answer that is being made.
#[derive(Default)]
struct Lines {
    urgent: Vec<AnswerLine>,
    rest: Vec<AnswerLine>,
}
