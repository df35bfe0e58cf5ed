//! The decision maker of both levels: who asks, who is heard, who gets what.
//!
//! A ledger listens to the children of one parent and keeps what a book
//! cannot: demand, echoes, targets. It never changes an
//! [`Account`]; it proposes, and its owner books: a
//! node at once, a leader through the log. Reports come in with
//! [`Ledger::take`]; what should move comes out of [`Ledger::plan`]; what a
//! child is told comes out of [`Ledger::answer`].
//!
//! Memory is bounded by children × budgets they spoke of that have not ended, and a constant
//! number of remembered answers per child. A node keeps at most [`Child::CLAIMS_MAX`] claims of
//! a client; of a node the leader keeps as many as there are budgets.

mod agenda;
mod child;
mod children;
mod claim;
mod keeping;
mod parts;
mod plan;
mod upward;

pub use child::Child;
pub use claim::Claim;
pub(crate) use claim::{Leap, total};
pub use keeping::Scarce;
pub use plan::{Plan, WholeView, Wish};
pub use upward::{Returned, Spoken};

use crate::account::Account;
use crate::budget;
use crate::message::{Answer, AnswerLine, Heard, Report, Verdict};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Edge, Incarnation, Number, Seq, Span, Term, Tick};
use agenda::Agenda;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use child::Hearing;
use children::Children;
use core::fmt;

/// Why a report was not taken. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportError {
    /// No such edge is open: the sender must open another.
    Closed,
    /// A later report of the edge was taken before.
    Stale,
    /// It builds on a report that was not taken here: the sender must say everything.
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

/// Whom a parent listens to, and what it wants from them.
#[derive(Debug, Default, Hash)]
pub struct Ledger {
    term: Term,
    /// Maximum number of claims of a child; none where its budgets are bounded.
    most: Option<usize>,
    /// Maximum number of lines of an answer, if it is not the usual one.
    lines: Option<usize>,
    children: Children,
    agenda: Agenda,
    standings: BTreeMap<BudgetId, plan::Standing>,
}

impl Ledger {
    /// An empty ledger; a leader's belongs to its term, a node's to none.
    #[must_use]
    pub fn new(term: Term) -> Self {
        Self {
            term,
            ..Self::default()
        }
    }

    /// An empty ledger that keeps at most `most` claims of each child.
    #[must_use]
    pub fn bounded(term: Term, most: usize) -> Self {
        Self {
            most: Some(most),
            ..Self::new(term)
        }
    }

    /// The same ledger, whose answers have at most `most` lines.
    #[must_use]
    pub fn with_lines(self, most: usize) -> Self {
        Self {
            lines: Some(most),
            ..self
        }
    }

    /// Forgets a budget that has ended, and who claimed it.
    pub fn forget(&mut self, budget: BudgetId) {
        for child in self.agenda.claimants(budget).collect::<Vec<_>>() {
            if let Some(child) = self.children.get_mut(child) {
                child.forget(budget);
            }
        }
        self.agenda.forget(budget);
        self.standings.remove(&budget);
    }

    /// The budgets of which anything is remembered, to look at.
    pub fn remembered(&self) -> impl Iterator<Item = BudgetId> {
        let standing = self.standings.keys().copied();
        let claimed = self.children().flat_map(Child::budgets);
        standing.chain(claimed).chain(self.agenda.remembered())
    }

    /// The sum of all claims on a budget is another, though no claim is.
    pub fn sum_again(&mut self, budget: BudgetId) {
        self.agenda.spoken.insert(budget);
    }

    /// What the book says of a budget to everybody has changed: its terms or its
    /// period, or there is one now. Whoever reports only changes is told by this alone.
    pub fn tell(&mut self, budget: BudgetId) {
        for child in self.agenda.claimants(budget) {
            if let Some(child) = self.children.get_mut(child) {
                child.tell(budget);
            }
        }
    }

    /// The same of what the book says to one child.
    pub fn tell_child(&mut self, child: Incarnation, budget: BudgetId) {
        if let Some(child) = self.children.get_mut(child) {
            child.tell(budget);
        }
    }

    /// The rules by which the claims on a budget count have changed: each that
    /// `claim` knows of counts for so much from now on, whatever was reported.
    pub fn reweigh(
        &mut self,
        budget: BudgetId,
        rule: impl Fn(Incarnation) -> Option<budget::Claim>,
    ) {
        for id in self.agenda.claimants(budget).collect::<Vec<_>>() {
            let child = self.children.get_mut(id);
            let claim = child.and_then(|child| child.claims.get_mut(&budget));
            if let (Some(claim), Some(rule)) = (claim, rule(id))
                && claim.reweigh(rule)
            {
                self.agenda.touch(budget);
                self.agenda.spoken.insert(budget);
            }
        }
    }

    /// Begins to listen on `edge`.
    pub fn open(&mut self, edge: Edge, now: Tick) {
        self.children.add(edge.child, || Child::new(edge, now));
    }

    /// Stops listening: the edge is closed.
    pub fn close(&mut self, child: Incarnation) {
        if let Some(closed) = self.children.remove(child) {
            for budget in closed.budgets() {
                self.agenda.touch(budget);
                self.agenda.claims_no_longer(budget, child);
            }
        }
    }

    /// A child gets nothing more: its parent will never confirm it again.
    pub fn mute(&mut self, child: Incarnation) {
        if let Some(child) = self.children.get_mut(child) {
            child.mute();
            self.agenda.dirty.extend(child.budgets());
        }
    }

    /// A child that is listened to.
    #[must_use]
    pub fn child(&self, child: Incarnation) -> Option<&Child> {
        self.children.get(child)
    }

    /// All children that are listened to.
    pub fn children(&self) -> impl Iterator<Item = &Child> {
        self.children.iter()
    }

    /// Takes a report that arrived at `now`.
    ///
    /// # Errors
    ///
    /// [`ReportError`]; nothing was changed.
    pub fn take(&mut self, now: Tick, report: &Report) -> Result<(), ReportError> {
        self.take_under(now, report, |_| None, |_| false)
    }

    /// Takes a report whose claims count for what `rules` say, and not for what they say
    /// themselves. A rule is asked for once, when its budget is first spoken of, and again as long
    /// as there is none; [`Ledger::reweigh`] changes it. Lines of budgets that have `ended` say
    /// nothing: a report may be older than the end.
    ///
    /// # Errors
    ///
    /// [`ReportError`]; nothing was changed.
    pub fn take_under(
        &mut self,
        now: Tick,
        report: &Report,
        rules: impl Fn(BudgetId) -> Option<budget::Claim>,
        ended: impl Fn(BudgetId) -> bool,
    ) -> Result<(), ReportError> {
        let term = self.term;
        let hearing = Hearing {
            rules,
            ended,
            most: self.most.unwrap_or(usize::MAX),
        };
        let child = self
            .children
            .get_mut(report.edge.child)
            .filter(|child| child.edge() == report.edge || planted::is(Bug::ReportNotFenced))
            .ok_or(ReportError::Closed)?;
        child.take(now, term, report, &hearing, &mut self.agenda)
    }

    /// Returns true if a child should be answered at once: lines wait for it, which its echo may have
    /// made room for.
    #[must_use]
    pub fn is_told_more(&self, child: Incarnation) -> bool {
        self.children.get(child).is_some_and(Child::is_told_more)
    }

    /// Whether a child hears its parent: it echoed an answer that was sent
    /// less than `lease` ago, or it has not been listened to for so long yet.
    #[must_use]
    pub fn hears(&self, child: Incarnation, now: Tick, lease: Span) -> bool {
        planted::is(Bug::EchoNotAsked)
            || self
                .children
                .get(child)
                .is_some_and(|child| child.hears(now, lease))
    }

    /// Whether a child has let a target pass: it echoed an answer that asked
    /// for it, and `patience` of a budget later it has still not returned it.
    #[must_use]
    pub fn is_overdue(
        &self,
        child: Incarnation,
        now: Tick,
        patience: impl Fn(BudgetId) -> Span,
    ) -> bool {
        !planted::is(Bug::SquattersRenewed)
            && self
                .children
                .get(child)
                .is_some_and(|child| child.is_overdue(now, patience))
    }

    /// A child was given something of a budget unasked: it must be told, and nothing is
    /// wanted back before it has spoken of it.
    pub fn endow(&mut self, child: Incarnation, budget: BudgetId) {
        if let Some(endowed) = self.children.get_mut(child) {
            endowed.claims.entry(budget).or_default();
            endowed.tell(budget);
            self.agenda.claims(budget, child);
            self.agenda.touch(budget);
        }
    }

    /// Marks a budget as changed, so that the next plan looks at it.
    pub fn touch(&mut self, budget: BudgetId) {
        self.agenda.touch(budget);
    }

    /// Marks a budget as one that somebody waits for.
    pub fn hurry(&mut self, budget: BudgetId) {
        self.agenda.hurry(budget);
    }

    /// Whether somebody waits for a plan: demand began or leapt, or something
    /// came back that others were promised.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        !self.agenda.urgent.is_empty()
    }

    /// Budgets that have changed since they were last planned, or whose last plan held
    /// something back until `now`.
    pub fn dirty(&mut self, now: Tick) -> usize {
        self.agenda.pass(now);
        self.agenda.dirty.len()
    }

    /// Whether there is nothing to plan.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.agenda.is_empty()
    }

    /// The budgets that have changed since they were last planned, and those whose last
    /// plan held something back until `now`.
    #[must_use]
    pub fn take_dirty(&mut self, now: Tick) -> Vec<BudgetId> {
        self.agenda.pass(now);
        self.agenda.take()
    }

    /// Of those that somebody waits for, in turn, as many as have up to `seats`
    /// claimants together, and of the others as many as have what is left of that,
    /// but one at least: a bound on the work of planning them.
    #[must_use]
    pub fn take_some_dirty(&mut self, seats: usize, now: Tick) -> Vec<BudgetId> {
        self.agenda.pass(now);
        self.agenda.take_some(seats)
    }

    /// Of those that somebody waits for, in turn, as many as have up to `seats`
    /// claimants together. `seats` is less by those claimants afterwards.
    #[must_use]
    pub fn take_some_urgent(&mut self, seats: &mut usize) -> Vec<BudgetId> {
        self.agenda.take_some_urgent(seats)
    }

    /// Plans one budget: raises targets where a child holds too much, and
    /// says what should be granted, within what is free.
    pub fn plan(
        &mut self,
        budget: BudgetId,
        account: &Account,
        view: &WholeView,
        now: Tick,
    ) -> Plan {
        let together = self.is_together(budget);
        let standing = self.standings.entry(budget).or_default();
        // Who holds is at the table, whether it claims anything or not.
        let mut around: Vec<Incarnation> = self.agenda.claimants(budget).collect();
        around.extend(account.open().map(|(child, _)| child));
        around.sort_unstable();
        around.dedup();
        let children = (&mut self.children, &around[..]);
        let plan = plan::plan(children, budget, account, view, standing, now);
        for &child in &plan.claimed {
            self.agenda.claims(budget, child);
            self.tell_child(child, budget);
        }
        for &child in &plan.recalled {
            self.tell_child(child, budget);
        }
        if together != self.is_together(budget) {
            self.tell(budget);
        }
        self.agenda.planned(budget, &plan);
        plan
    }

    /// Whether a budget is kept in one piece here.
    fn is_together(&self, budget: BudgetId) -> bool {
        let standing = self.standings.get(&budget);
        standing.is_some_and(|of| of.keeping.is_together())
    }

    /// Makes the answer to report `answers` of a child: what it does not know
    /// yet, keys with targets first.
    pub fn answer(
        &mut self,
        child: Incarnation,
        now: Tick,
        answers: Seq,
        lease: Span,
        books: &impl Fn(BudgetId) -> Option<AnswerLine>,
    ) -> Option<Answer> {
        let term = self.term;
        let most = self.lines.unwrap_or(AnswerLine::LINES_MAX);
        let (child, standings) = (self.children.get_mut(child)?, &self.standings);
        let (number, taken) = (child.next_answer(now)?, child.seq());
        let lines = child.lines(number, most, &|budget| {
            let mut line = books(budget)?;
            let standing = standings.get(&budget);
            line.terms.gathered |= standing.is_some_and(|of| of.keeping.is_together());
            Some(line)
        });
        Some(Answer {
            edge: child.edge(),
            number: Heard { term, number },
            answers,
            taken,
            lease,
            verdict: Verdict::Open,
            lines,
        })
    }

    /// What a child is told whose report builds on one that was not taken here: which one
    /// was. It renews nothing and has no number, so that its echo says nothing of answers
    /// that have one.
    #[must_use]
    pub fn ask_whole(&self, child: Incarnation) -> Option<Answer> {
        let child = self.children.get(child)?;
        Some(Answer {
            edge: child.edge(),
            number: Heard {
                term: self.term,
                number: Number::new(0),
            },
            answers: Seq::new(0),
            taken: child.seq(),
            lease: Span::ZERO,
            verdict: Verdict::Open,
            lines: Vec::new(),
        })
    }

    /// The answer to a report on an edge that is not open.
    #[must_use]
    pub fn refuse(&self, report: &Report) -> Answer {
        Answer {
            edge: report.edge,
            number: Heard {
                term: self.term,
                number: Number::new(0),
            },
            answers: report.seq,
            taken: Seq::new(0),
            lease: Span::ZERO,
            verdict: Verdict::Closed,
            lines: Vec::new(),
        }
    }
}
