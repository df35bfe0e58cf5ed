//! Planning for one parent: which children claim a budget, and what each of them should hold.
//!
//! A ledger keeps what an account cannot: the demand, echoes and targets of one parent's children. It never
//! changes an [`Account`]. It proposes, and its owner books: a node at once, a leader through the log.
//!
//! - [`Ledger::take`] takes reports.
//! - [`Ledger::plan`] returns what should move.
//! - [`Ledger::answer`] makes the answer to a child.
//!
//! Memory is bounded by children × budgets that they reported and that have not ended, and a constant number
//! of remembered answers per child. A node keeps at most [`Child::CLAIMS_MAX`] claims of a client. The leader
//! keeps as many claims of a node as there are budgets.

mod candidate;
mod central_mode;
mod child;
mod children;
mod claim;
mod headroom;
mod parts;
mod plan;
mod plan_changes;
mod planning_queue;
mod sweep;
mod upward;

pub use candidate::{Dealing, WholeView};
pub use central_mode::CentralPlacement;
use central_mode::SmallPart;
pub use child::{Child, ReportError};
pub use claim::Claim;
pub(crate) use claim::{DemandChange, is_little, total};
pub use plan_changes::{GrantRequest, Plan};
pub use planning_queue::SumScope;
pub use upward::Returned;

use crate::account::Account;
use crate::allocate::Warm;
use crate::budget;
use crate::edge::Vector;
use crate::interner::Interner;
use crate::message::{Answer, AnswerLine, Heard, Report, Terms, Verdict};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Edge, Incarnation, Number, Seq, Span, Term, Tick};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use child::Hearing;
use children::Children;
use planning_queue::PlanningQueue;
use sweep::{Sweep, Swept};

/// The children of one parent, their claims, and what the parent wants back from them.
#[derive(Debug, Default, Hash)]
pub struct Ledger {
    term: Term,
    /// Maximum number of claims of a child, or `None` if its budgets are bounded in another way.
    most: Option<usize>,
    /// Maximum number of lines of an answer, or `None` for the usual one.
    lines: Option<usize>,
    children: Children,
    queue: PlanningQueue,
    /// Claims of children that were fenced or closed, in this order.
    sweep: VecDeque<Sweep>,
    memories: BTreeMap<BudgetId, plan::PlanMemory>,
    terms: Interner<Terms>,
    /// Working memory of all plans: one for each budget would take more than the claims.
    warm: Warm,
}

impl Ledger {
    /// Returns an empty ledger. A leader's belongs to its term, a node's to term 0.
    #[must_use]
    pub fn new(term: Term) -> Self {
        Self {
            term,
            ..Self::default()
        }
    }

    /// Returns an empty ledger that keeps at most `most` claims of each child.
    #[must_use]
    pub fn bounded(term: Term, most: usize) -> Self {
        Self {
            most: Some(most),
            ..Self::new(term)
        }
    }

    /// Returns the same ledger, with answers of at most `most` lines.
    #[must_use]
    pub fn with_lines(self, most: usize) -> Self {
        Self {
            lines: Some(most),
            ..self
        }
    }

    /// Forgets a budget that has ended, and all claims on it.
    pub fn forget(&mut self, budget: BudgetId) {
        for child in self.queue.claimants(budget).collect::<Vec<_>>() {
            if let Some(child) = self.children.get_mut(child) {
                child.forget(budget);
            }
        }
        for sweep in &mut self.sweep {
            sweep.forget(budget);
        }
        self.queue.forget(budget);
        self.memories.remove(&budget);
    }

    /// Returns the budgets that any state is kept of.
    pub fn remembered(&self) -> impl Iterator<Item = BudgetId> {
        let memory = self.memories.keys().copied();
        let claimed = self.children().flat_map(Child::budgets);
        let closed = self.sweep.iter().flat_map(Sweep::remembered);
        let claimed = claimed.chain(closed);
        memory.chain(claimed).chain(self.queue.remembered())
    }

    /// Sums the claims on a budget again for the next report, although no claim changed.
    pub fn sum_again(&mut self, budget: BudgetId) {
        self.queue.unsummed.insert(budget);
    }

    /// Tells every claimant of a budget in its next answer that the book has changed: the terms, the period,
    /// or the existence of the budget. A child that reports only changes learns of it in no other way.
    pub fn tell(&mut self, budget: BudgetId) {
        for child in self.queue.claimants(budget) {
            if let Some(child) = self.children.get_mut(child) {
                child.tell(budget);
            }
        }
    }

    /// Tells one child in its next answer that its line in the book has changed.
    pub fn tell_child(&mut self, child: Incarnation, budget: BudgetId) {
        if let Some(child) = self.children.get_mut(child) {
            child.tell(budget);
        }
    }

    /// Applies changed rules of a budget: the demand of each child for which `rule` returns a claim counts
    /// with that claim from now on, whatever the child reported.
    pub fn reweigh(
        &mut self,
        budget: BudgetId,
        rule: impl Fn(Incarnation) -> Option<budget::Claim>,
    ) {
        for id in self.queue.claimants(budget).collect::<Vec<_>>() {
            let child = self.children.get_mut(id);
            let claim = child.and_then(|child| child.claims.get_mut(&budget));
            if let (Some(claim), Some(rule)) = (claim, rule(id))
                && claim.reweigh(rule)
            {
                self.queue.touch(budget);
                self.queue.unsummed.insert(budget);
            }
        }
    }

    /// Begins to listen on `edge`.
    pub fn open(&mut self, edge: Edge, now: Tick) {
        self.children.add(edge.child, || Child::new(edge, now));
    }

    /// Stops listening to a child whose edge is closed.
    pub fn close(&mut self, child: Incarnation) {
        self.begin_closing(child);
        self.sweep_some(usize::MAX);
    }

    /// Stops listening to a child whose edge is closed. [`Ledger::sweep_some`] drops its claims and plans their budgets
    /// again.
    pub fn begin_closing(&mut self, child: Incarnation) {
        let closed = self.children.remove(child);
        self.sweep.extend(closed.map(Sweep::of_closed));
    }

    /// Grants a child nothing more, because its parent will never confirm it again. [`Ledger::sweep_some`] plans its
    /// budgets again.
    pub fn fence(&mut self, child: Incarnation) {
        if let Some(child) = self.children.get_mut(child) {
            child.fence();
            self.sweep.push_back(Sweep::of_fenced(child));
        }
    }

    /// Goes through claims of children that were fenced or closed, at most `most`, and has their budgets planned again.
    ///
    /// A plan in between is safe. It gives nothing to a child that is fenced or not listened to, and takes what the
    /// child's edge holds for booked as long as the book says so. It comes once more when the claim's turn comes.
    pub fn sweep_some(&mut self, most: usize) {
        let _ = self.sweep_next(most);
    }

    /// Does the same. Returns the dropped claims of closed children.
    pub(crate) fn sweep_next(&mut self, mut most: usize) -> Vec<Swept> {
        let mut swept = Vec::new();
        while let Some(sweep) = self.sweep.front_mut().filter(|_| most > 0) {
            let done = sweep.some(most, &self.children, &mut self.queue, &mut swept);
            most = most.saturating_sub(done);
            if most > 0 {
                self.sweep.pop_front();
            }
        }
        swept
    }

    /// Returns true if [`Ledger::sweep_some`] has claims to go through.
    #[must_use]
    pub fn has_to_sweep(&self) -> bool {
        !self.sweep.is_empty()
    }

    /// Returns the number of claims of closed children that [`Ledger::sweep_some`] has to go through.
    #[must_use]
    pub fn to_sweep(&self) -> usize {
        let left = self.sweep.iter().map(|sweep| sweep.remembered().count());
        left.sum()
    }

    /// Returns a child that is listened to.
    #[must_use]
    pub fn child(&self, child: Incarnation) -> Option<&Child> {
        self.children.get(child)
    }

    /// Returns all children that are listened to.
    pub fn children(&self) -> impl Iterator<Item = &Child> {
        self.children.iter()
    }

    /// Visits all children in order, for a walk over their claims. It is fastest for the claims on `budget`.
    pub(crate) fn visit_children<'a>(&'a self, budget: BudgetId, visit: impl FnMut(&'a Child)) {
        self.children.visit(budget, visit);
    }

    /// Takes a report that arrived at `now`.
    ///
    /// # Errors
    ///
    /// [`ReportError`]; nothing was changed.
    pub fn take(&mut self, now: Tick, report: &Report) -> Result<(), ReportError> {
        self.take_under(now, report, |_| None, |_| false)
    }

    /// Takes a report whose demand counts with the claims that `rules` returns, not with those that it
    /// reports.
    ///
    /// A rule is asked for when its budget is first reported, and again as long as there is none.
    /// [`Ledger::reweigh`] changes it. Lines of budgets that have `ended` are ignored: a report may be older
    /// than the end.
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
        child.take(now, term, report, &hearing, &mut self.queue)
    }

    /// Returns true if a child should be answered at once: lines wait for it, and its echo may have made room
    /// for them.
    #[must_use]
    pub fn has_lines_waiting(&self, child: Incarnation) -> bool {
        self.children
            .get(child)
            .is_some_and(Child::has_lines_waiting)
    }

    /// Returns the number of lines that were sent to a child and that it has not echoed. Lines that it echoed
    /// count until its next answer is made.
    #[must_use]
    pub fn unechoed(&self, child: Incarnation) -> usize {
        self.children.get(child).map_or(0, Child::unechoed)
    }

    /// Returns the number of lines that the next answers to a child examine.
    #[must_use]
    pub fn lines_to_examine(&self, child: Incarnation) -> usize {
        self.children.get(child).map_or(0, Child::lines_to_examine)
    }

    /// Takes from a report that its child is there and which answers it received, and nothing else. Returns false if
    /// its edge is not open, or a later report was taken.
    pub fn hear(&mut self, now: Tick, report: &Report) -> bool {
        let term = self.term;
        let child = self.children.get_mut(report.edge.child);
        let child = child.filter(|child| child.edge() == report.edge);
        child.is_some_and(|child| child.hear(now, term, report))
    }

    /// Returns true if a child receives its parent's answers: it echoed one that was sent less than `lease`
    /// ago, or has been listened to for a shorter time than that.
    #[must_use]
    pub fn hears(&self, child: Incarnation, now: Tick, lease: Span) -> bool {
        planted::is(Bug::EchoNotAsked)
            || self
                .children
                .get(child)
                .is_some_and(|child| child.hears(now, lease))
    }

    /// Returns true if a child missed a target: it echoed an answer with the target, and has not returned it
    /// within the budget's `patience` since.
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

    /// Returns true if all that a child was asked for and has not returned of a budget are floors. A node cannot return
    /// the floors of its former clients before their time.
    #[must_use]
    pub fn owes_only_floors(&self, child: Incarnation, budget: BudgetId) -> bool {
        let claim = self.child(child).and_then(|of| of.claims.get(&budget));
        claim.is_some_and(|claim| {
            let owed = claim.target().ahead_of(claim.returned());
            let floors = Vector {
                rate: owed.floor_rate,
                burst: owed.floor_burst,
                floor_rate: owed.floor_rate,
                floor_burst: owed.floor_burst,
                ..Vector::ZERO
            };
            !owed.is_zero() && floors.covers(owed) && !planted::is(Bug::FloorsOverdue)
        })
    }

    /// Adds a claim for a part that a child was granted without a request. It is sent to the child, and nothing is
    /// asked back before it has reported the budget.
    pub fn endow(&mut self, child: Incarnation, budget: BudgetId) {
        if let Some(endowed) = self.children.get_mut(child) {
            endowed.claims.get_or_insert_with(budget, Claim::default);
            endowed.tell(budget);
            self.queue.claims(budget, child);
            self.queue.touch(budget);
        }
    }

    /// Records that the parent itself has granted a child something of a budget that the child claims. Returns true if
    /// nothing was granted before.
    pub fn note_given(&mut self, child: Incarnation, budget: BudgetId) -> bool {
        let child = self.children.get_mut(child);
        let claim = child.and_then(|child| child.claims.get_mut(&budget));
        claim.is_some_and(Claim::note_given)
    }

    /// Returns true if that was recorded.
    #[must_use]
    pub fn is_given(&self, child: Incarnation, budget: BudgetId) -> bool {
        let child = self.children.get(child);
        let claim = child.and_then(|child| child.claims.get(&budget));
        claim.is_some_and(Claim::is_given)
    }

    /// Returns the budgets of which that was recorded of a child, in order. It holds nothing of any other one.
    pub fn given(&self, child: Incarnation) -> impl Iterator<Item = BudgetId> {
        let child = self.children.get(child);
        let claims = child.into_iter().flat_map(|child| child.claims.iter());
        let given = claims.filter(|(_, claim)| claim.is_given());
        given.map(|(&budget, _)| budget)
    }

    /// Marks a budget as changed: the next plan includes it.
    pub fn touch(&mut self, budget: BudgetId) {
        self.queue.touch(budget);
    }

    /// Marks a budget as urgent: something waits for its plan.
    pub fn mark_urgent(&mut self, budget: BudgetId) {
        self.queue.mark_urgent(budget);
    }

    /// Returns true if some budget is urgent: demand began or rose sharply, or something was returned that
    /// others lack.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        !self.queue.urgent.is_empty()
    }

    /// Returns the number of budgets to plan: those that have changed since their last plan, and those whose
    /// last plan held something back until `now`.
    pub fn dirty(&mut self, now: Tick) -> usize {
        self.queue.pass(now);
        self.queue.dirty.len()
    }

    /// Returns true if there is nothing to plan, now or later.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes all budgets to plan: those that have changed since their last plan, and those whose last plan
    /// held something back until `now`.
    #[must_use]
    pub fn take_dirty(&mut self, now: Tick) -> Vec<BudgetId> {
        self.queue.pass(now);
        self.queue.take()
    }

    /// Takes some of the budgets to plan, as a bound on the work: urgent ones in rotation, until they have
    /// `claimants_left` claimants together, and then others up to what is left of that number, but at least one.
    #[must_use]
    pub fn take_some_dirty(&mut self, claimants_left: usize, now: Tick) -> Vec<BudgetId> {
        self.queue.pass(now);
        self.queue.take_some(claimants_left)
    }

    /// Takes urgent budgets in rotation until they have `claimants_left` claimants together. Subtracts their claimants
    /// from `claimants_left`.
    #[must_use]
    pub fn take_some_urgent(&mut self, claimants_left: &mut usize) -> Vec<BudgetId> {
        self.queue.take_some_urgent(claimants_left)
    }

    /// Plans one budget: raises targets of children that hold too much, and returns the grants to make,
    /// within what is free.
    pub fn plan(
        &mut self,
        budget: BudgetId,
        account: &Account,
        view: &WholeView,
        now: Tick,
    ) -> Plan {
        let is_central = self.is_central(budget);
        let mut memory = self.memories.remove(&budget).unwrap_or_default();
        // A child that holds something takes part, whether it has a claim or not.
        let mut around: Vec<Incarnation> = self.queue.claimants(budget).collect();
        around.extend(account.open().map(|(child, _)| child));
        // Two sorted lists: a stable sort merges them.
        around.sort();
        around.dedup();
        let children = (&mut self.children, &around[..], &mut self.warm);
        let plan = plan::plan(children, budget, account, view, &mut memory, now);
        if !memory.is_empty() {
            self.memories.insert(budget, memory);
        }
        for &child in &plan.claimed {
            self.queue.claims(budget, child);
            self.tell_child(child, budget);
        }
        for &child in plan.recalled.iter().chain(&plan.switched) {
            self.tell_child(child, budget);
        }
        if is_central != self.is_central(budget) {
            self.tell(budget);
        }
        self.queue.planned(budget, &plan);
        plan
    }

    /// Records that a child asked its parent to decide a request for a budget. A child that does so may be
    /// better served centrally, so the budget is planned again.
    pub fn asked(&mut self, child: Incarnation, budget: BudgetId, now: Tick) {
        let child = self.children.get_mut(child);
        if let Some(claim) = child.and_then(|child| child.claims.get_mut(&budget)) {
            let before = claim.asked();
            if !SmallPart::is_recent(before, now) {
                self.queue.touch(budget);
            }
            if before.is_none_or(|at| now.since(at) >= SmallPart::NOTED) {
                claim.set_asked(Some(now));
            }
        }
    }

    /// Returns true if this parent has put a budget in central mode.
    fn is_central(&self, budget: BudgetId) -> bool {
        let memory = self.memories.get(&budget);
        memory.is_some_and(|of| of.central_mode.is_central())
    }

    /// Makes the answer to report `answers` of a child: the lines that it does not know yet, those with
    /// targets first.
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
        let (child, memories) = (self.children.get_mut(child)?, &self.memories);
        let (number, taken) = (child.next_answer(now)?, child.seq());
        let lines = child.lines(number, most, &mut self.terms, &|budget| {
            let mut line = books(budget)?;
            let memory = memories.get(&budget);
            line.terms.central_mode |= memory.is_some_and(|of| of.central_mode.is_central());
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

    /// Makes the answer to a child whose report builds on one that was not taken here. It names the last
    /// report that was taken, and renews nothing.
    #[must_use]
    pub fn ask_whole(&self, child: Incarnation) -> Option<Answer> {
        self.answer_alone(child, Seq::new(0), Span::ZERO)
    }

    /// Makes an answer without lines that gives `lease` for report `answers`, before that report is taken. It has
    /// number 0, so that its echo confirms no numbered answer, and acknowledges nothing new.
    #[must_use]
    pub fn answer_alone(&self, child: Incarnation, answers: Seq, lease: Span) -> Option<Answer> {
        let child = self.children.get(child)?;
        Some(Answer {
            edge: child.edge(),
            number: Heard {
                term: self.term,
                number: Number::new(0),
            },
            answers,
            taken: child.seq(),
            lease,
            verdict: Verdict::Open,
            lines: Vec::new(),
        })
    }

    /// Makes the answer to a report on an edge that is not open.
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
