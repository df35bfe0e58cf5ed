//! The child's side of an edge: a client's edge to its node, or a node's edge to the leader.
//!
//! The machine keeps the counters, the lease and the echo. The parts themselves (buckets, permits, grants to
//! the owner's own children) belong to its owner. The owner passes answers to [`Holder::handle_answer`] and
//! time to [`Holder::tick`], carries out each [`Output`] at once and in order, and reports reductions with
//! [`Holder::give_back`]. Only then does a report have them.
//!
//! An answer is taken in this order, and safety depends on the order:
//!
//! 1. If it is for another edge (another pair of incarnations), it is ignored.
//! 2. If the edge is closed, everything ends, and no later line counts.
//! 3. A lease that has run out in the meantime lapses first.
//! 4. The lease is renewed, counted from the sending of the report that was answered.
//! 5. Without a lease nothing else of the answer counts, and it is not echoed.
//! 6. For each line: a new period voids the tokens of the old one, then come targets, then grants.

mod report;
mod report_delta;

use crate::edge::{Counters, EdgeError, PackedCounters, Vector, owed};
use crate::few::FewMap;
use crate::interner::Interner;
use crate::lease::{ChildLease, LeaseState};
use crate::message::{
    Answer, AnswerLine, BandDemand, FloorRelease, Heard, Intent, ReportLine, Tally, Terms, Verdict,
};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Edge, PeriodId, Rate, Seq, Tick, Tokens};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hint;
use report_delta::ReportDelta;

/// Actions that the owner must carry out, at once and in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// The lease ran out: stop using what is held, apply each budget's policy, and give back all that is
    /// provably unused.
    Lapsed,
    /// The edge is closed: drop everything. Only another edge can hold again.
    Closed,
    /// A new period of a quota began: tokens of the old one are void.
    Void {
        /// The budget.
        budget: BudgetId,
        /// The period that begins.
        period: PeriodId,
    },
    /// The end of a quota's period is known, or known better.
    Ends {
        /// The budget.
        budget: BudgetId,
        /// The end.
        end: PeriodEnd,
    },
    /// Use `terms` from now on, add `gift`, then reduce by `owed` as far as possible, and give that back.
    /// Either may be zero.
    Adjust {
        /// The budget.
        budget: BudgetId,
        /// The terms under which it is held from now on.
        terms: Arc<Terms>,
        /// The new grant, with the tokens in it.
        gift: Vector,
        /// The total that the parent wants back, of the grants that have arrived.
        owed: Vector,
    },
}

/// The end of a quota's running period, on the child's own clock.
///
/// It is never early, unless the wall clocks of a quorum are set: each parent lengthens the time that it sends by the
/// drift bound. At a client it is late by at most three times the drift bound of the time since the leader sent it, and
/// by the time that messages took. The next period is sent as it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeriodEnd {
    /// The end.
    pub at: Tick,
    /// Set if the parent has given everything of the period away.
    pub exhausted: bool,
}

/// The owner's values of one budget for a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wants {
    /// Demand of all callers, per band.
    pub demand: Vec<BandDemand>,
    /// The requested floors.
    pub floor: Share,
    /// The largest cost of a waiting request.
    pub largest_wait: Tokens,
    /// Counts of requests on this edge so far.
    pub tally: Tally,
}

/// The holder's state of one budget.
#[derive(Clone, Debug, Hash)]
struct Entry {
    counters: PackedCounters,
    /// The total that the parent wants back. Nothing of most budgets is ever asked back.
    target: Option<Box<Vector>>,
    terms: Arc<Terms>,
    /// End of the running period. Only quotas have one.
    end: Option<Box<PeriodEnd>>,
}

impl Entry {
    /// Returns the amount to return: never more than the grants that have arrived.
    fn owed(&self) -> Vector {
        self.target.as_ref().map_or(Vector::ZERO, |target| {
            let counters = self.counters.get();
            owed(counters.returned, target.meet(counters.given))
        })
    }

    /// Returns the rate that is held and not recalled.
    fn held_rate(&self) -> Rate {
        match self.terms.kind {
            Kind::Rate if self.owed().is_zero() => self.counters.get().holding(Kind::Rate).rate,
            _ => Rate::ZERO,
        }
    }

    /// Returns true if nothing is held of a rate.
    fn lacks_rate(&self) -> bool {
        self.terms.kind == Kind::Rate && self.counters.get().holding(Kind::Rate).rate.is_zero()
    }

    fn raise_target(&mut self, target: Vector) {
        if !target.is_zero() {
            let known = self.target.get_or_insert_default();
            **known = known.merge(target);
        }
    }
}

/// The child's side of one edge.
#[derive(Clone, Debug, Hash)]
pub struct Holder {
    edge: Edge,
    lease: ChildLease,
    heard: Heard,
    /// The greatest answer that arrived, with or without a lease to take its lines.
    seen: Heard,
    answered: Seq,
    intent: Intent,
    /// Floors of former edges that are not used any more, each with the first report that released it.
    floors: Vec<(FloorRelease, Option<Seq>)>,
    entries: FewMap<BudgetId, Entry>,
    terms: Interner<Terms>,
    /// Budgets of which the parent wants back more than was returned.
    owing: BTreeSet<BudgetId>,
    /// Budgets of which something was granted or returned, or a period began, since the last report. True if
    /// another holder lacks the returned part.
    moved: BTreeMap<BudgetId, bool>,
    /// Budgets of which nothing is wanted any more since the last report.
    retired: BTreeSet<BudgetId>,
    delta: ReportDelta,
    /// Set if an answer since the last report should be echoed at once.
    echoes: bool,
}

impl Holder {
    /// Maximum number of floor releases in one report.
    pub const FLOORS_MAX: usize = 10_000;

    /// Returns a holder on a new edge, with all counters at zero.
    #[must_use]
    pub fn new(edge: Edge) -> Self {
        Self {
            edge,
            lease: ChildLease::new(),
            heard: Heard::default(),
            seen: Heard::default(),
            answered: Seq::new(0),
            intent: Intent::Stay,
            floors: Vec::new(),
            entries: FewMap::new(),
            terms: Interner::default(),
            owing: BTreeSet::new(),
            moved: BTreeMap::new(),
            retired: BTreeSet::new(),
            delta: ReportDelta::with_lines(ReportLine::LINES_MAX),
            echoes: false,
        }
    }

    /// Returns a holder on a new edge whose reports have at most `most` lines.
    #[must_use]
    pub fn with_lines(edge: Edge, most: usize) -> Self {
        Self {
            delta: ReportDelta::with_lines(most),
            ..Self::new(edge)
        }
    }

    /// Returns the edge: the incarnations of parent and child.
    #[must_use]
    pub const fn edge(&self) -> Edge {
        self.edge
    }

    /// Reads what reports and answers read first, for [`Client::fetch`](crate::client::Client::fetch).
    pub(crate) fn fetch(&self) {
        hint::black_box((self.edge, self.heard, self.seen, self.answered, self.intent));
        hint::black_box((
            self.lease.until(),
            self.lease.last_sent(),
            self.lease.state(),
        ));
        hint::black_box((self.moved.len(), self.owing.len(), self.retired.len()));
        hint::black_box((self.floors.len(), self.echoes, self.entries.len()));
        self.delta.fetch();
    }

    /// Reads what that memory points to.
    pub(crate) fn fetch_further(&self) {
        hint::black_box((self.lease.sent_last(), self.delta.first_behind()));
    }

    /// Reads what a report that examines a budget reads of it.
    pub(crate) fn held(&self, budget: BudgetId) -> Option<(Rate, Tally)> {
        let entry = self.entries.get(&budget)?;
        Some((entry.held_rate(), self.delta.tally(budget)?))
    }

    /// Records the time at which the child's process began, and that its age was sent to the parent.
    pub(crate) const fn tell_age(&mut self, began: Tick) {
        self.lease.tell_age(began);
    }

    /// Returns the lease.
    #[must_use]
    pub const fn lease(&self) -> &ChildLease {
        &self.lease
    }

    /// Returns the greatest answer taken.
    #[must_use]
    pub const fn heard(&self) -> Heard {
        self.heard
    }

    /// Returns the greatest of its own reports that was answered.
    #[must_use]
    pub const fn answered(&self) -> Seq {
        self.answered
    }

    /// Returns the counters of a budget, or `None` if nothing was ever granted of it.
    #[must_use]
    pub fn counters_of(&self, budget: BudgetId) -> Option<Counters> {
        let entry = self.entries.get(&budget);
        entry.map(|entry| entry.counters.get())
    }

    /// Returns the budgets of which something was ever granted on this edge, with their counters.
    pub fn counters(&self) -> impl Iterator<Item = (BudgetId, Counters)> {
        self.entries
            .iter()
            .map(|(&budget, entry)| (budget, entry.counters.get()))
    }

    /// Returns the held part of a budget.
    #[must_use]
    pub fn holding(&self, budget: BudgetId) -> Vector {
        self.entries.get(&budget).map_or(Vector::ZERO, |entry| {
            entry.counters.get().holding(entry.terms.kind)
        })
    }

    /// Returns what the parent wants back and has not got, of the grants that have arrived.
    #[must_use]
    pub fn owed(&self, budget: BudgetId) -> Vector {
        self.entries
            .get(&budget)
            .map_or(Vector::ZERO, |entry| entry.owed())
    }

    /// Returns the budgets of which more is wanted back than was returned. [`Holder::owed`] returns how much.
    /// The owner examines them with every report, and gives back as soon as it can.
    pub fn owing(&self) -> impl Iterator<Item = BudgetId> {
        self.owing.iter().copied()
    }

    /// Returns the terms under which a budget is held, once something of it was granted.
    #[must_use]
    pub fn terms(&self, budget: BudgetId) -> Option<&Terms> {
        self.entries.get(&budget).map(|entry| &*entry.terms)
    }

    /// Returns the end of a quota's running period, if it is known.
    #[must_use]
    pub fn period_end(&self, budget: BudgetId) -> Option<PeriodEnd> {
        let entry = self.entries.get(&budget)?;
        entry.end.as_deref().copied()
    }

    /// Leaves: from the next report on, nothing is requested.
    pub fn leave(&mut self) {
        self.intent = Intent::Leave;
    }

    /// Returns true if it is leaving.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.intent == Intent::Leave
    }

    /// Advances time to `now`. Returns [`Output::Lapsed`] once, when the lease has run out.
    pub fn tick(&mut self, now: Tick) -> Option<Output> {
        self.lease.expire(now).then_some(Output::Lapsed)
    }

    /// Ends the lease, because the machine's clocks disagree about how much time passed, for example after a
    /// suspend that the clock did not count.
    pub fn clock_jumped(&mut self, now: Tick) -> Option<Output> {
        self.lease.jump(now).then_some(Output::Lapsed)
    }

    /// Forgets a budget that has ended: no part, line or mark of it is kept.
    ///
    /// Its counters are gone. The caller ensures that no later answer names the budget, however late it
    /// arrives: grants would be taken a second time.
    pub fn forget(&mut self, budget: BudgetId) {
        self.entries.remove(&budget);
        self.owing.remove(&budget);
        self.moved.remove(&budget);
        self.retired.remove(&budget);
        self.floors.retain(|(floor, _)| floor.budget != budget);
        self.delta.forget(budget);
    }

    /// Returns the budgets that any state is kept of.
    pub fn remembered(&self) -> impl Iterator<Item = BudgetId> {
        let marked = self.owing.iter().chain(&self.retired);
        let counted = self.entries.keys().chain(self.moved.keys());
        marked
            .chain(counted)
            .copied()
            .chain(self.delta.remembered())
    }

    /// Takes an answer. The caller carries out the outputs at once, in order.
    pub fn handle_answer(&mut self, now: Tick, answer: &Answer) -> Vec<Output> {
        self.handle_answer_but(now, answer, |_| false)
    }

    /// Takes an answer that may be older than the end of a budget. Lines of budgets that have `ended` are
    /// ignored.
    pub fn handle_answer_but(
        &mut self,
        now: Tick,
        answer: &Answer,
        ended: impl Fn(BudgetId) -> bool,
    ) -> Vec<Output> {
        let mut outputs = Vec::new();
        if !self.is_mine(answer.edge) || self.lease.state() == LeaseState::Closed {
            return outputs;
        }
        if answer.verdict == Verdict::Closed {
            self.lease.close();
            outputs.push(Output::Closed);
            return outputs;
        }
        // The acknowledged report counts even if the lease is over.
        self.delta.confirm(answer, self.lease.last_sent());
        if !planted::is(Bug::UnleasedUnseen) {
            self.seen = self.seen.max(answer.number);
        }
        outputs.extend(self.tick(now));
        if !self.lease.confirm(answer.answers, answer.lease, now) {
            return outputs;
        }
        let (latest, later) = (answer.number >= self.heard, answer.number > self.heard);
        self.heard = self.heard.max(answer.number);
        self.seen = self.seen.max(self.heard);
        self.answered = self.answered.max(answer.answers);
        self.echoes |= answer.is_full();
        for line in answer.lines.iter().filter(|line| !ended(line.budget)) {
            let begins = self
                .counters_of(line.budget)
                .is_none_or(|of| of.period < line.period);
            self.take_line(line, latest, &mut outputs);
            if later || begins {
                self.take_rest(line, now, &mut outputs);
            }
        }
        outputs
    }

    fn is_mine(&self, edge: Edge) -> bool {
        if planted::is(Bug::PairNotFenced) {
            return true;
        }
        edge == self.edge
    }

    fn take_line(&mut self, line: &AnswerLine, latest: bool, outputs: &mut Vec<Output>) {
        let known = self.entries.get(&line.budget);
        let before = known.map(|entry| Arc::clone(&entry.terms));
        let terms = self.terms.share(&line.terms);
        let entry = self.entries.get_or_insert_with(line.budget, || Entry {
            counters: Counters::new(line.period).into(),
            target: None,
            terms: Arc::clone(&terms),
            end: None,
        });
        let mut counters = entry.counters.get();
        if line.period < counters.period {
            return;
        }
        // A new budget or period is reported once, even if nothing is wanted or returned.
        if before.is_none() || line.period > counters.period {
            self.moved.entry(line.budget).or_default();
        }
        if line.period > counters.period {
            counters = Counters::new(line.period);
            entry.target = None;
            entry.end = None;
            outputs.push(Output::Void {
                budget: line.budget,
                period: line.period,
            });
        }
        let known = Some(counters.given).filter(|_| !planted::is(Bug::GiftsAddUp));
        let gift = line.given.ahead_of(known.unwrap_or_default());
        counters.given = counters.given.merge(line.given);
        entry.counters = counters.into();
        entry.raise_target(line.target);
        // Counters merge and terms do not, so an answer that was overtaken changes no terms.
        if latest {
            entry.terms = terms;
        }
        let owed = match planted::is(Bug::RecallIgnored) {
            true => Vector::ZERO,
            false => entry.owed(),
        };
        match owed.is_zero() {
            true => self.owing.remove(&line.budget),
            false => self.owing.insert(line.budget),
        };
        // Changed terms are reported even alone: an owner requests a floor only after it knows the terms.
        let is_new = before.as_ref() != Some(&entry.terms);
        if is_new || !gift.is_zero() || !owed.is_zero() {
            outputs.push(Output::Adjust {
                budget: line.budget,
                terms: Arc::clone(&entry.terms),
                gift,
                owed,
            });
        }
    }

    /// Takes the end of the period from the first answer that has it: a repeated one may be of any age. A parent
    /// that does not know the end leaves it as it is, and may have something to give.
    fn take_rest(&mut self, line: &AnswerLine, now: Tick, outputs: &mut Vec<Output>) {
        let entry = self.entries.get_mut(&line.budget);
        let Some(entry) = entry.filter(|entry| entry.counters.get().period == line.period) else {
            return;
        };
        let known = entry.end.as_deref().map(|known| PeriodEnd {
            exhausted: false,
            ..*known
        });
        let stated = line.rest.map(|rest| PeriodEnd {
            at: now.after(rest.ends_in),
            exhausted: rest.exhausted,
        });
        let Some(end) = stated.or(known) else {
            return;
        };
        if entry.end.as_deref() != Some(&end) {
            entry.end = Some(Box::new(end));
            outputs.push(Output::Ends {
                budget: line.budget,
                end,
            });
        }
    }

    /// Counts `back` as returned, after the owner has stopped using it.
    ///
    /// # Errors
    ///
    /// [`EdgeError`] if so much was never granted; nothing was changed.
    pub fn give_back(&mut self, budget: BudgetId, back: Vector) -> Result<(), EdgeError> {
        let Some(entry) = self.entries.get_mut(&budget) else {
            return if back.is_zero() {
                Ok(())
            } else {
                Err(EdgeError::ReturnedMoreThanGiven)
            };
        };
        let mut counters = entry.counters.get();
        let returned = counters.returned.plus(back).ok_or(EdgeError::Exhausted)?;
        counters.admits(entry.terms.kind, returned)?;
        if returned == counters.returned {
            return Ok(());
        }
        // If the parent wants the part back, another holder lacks it.
        let lacked = !entry.owed().is_zero();
        counters.returned = returned;
        entry.counters = counters.into();
        if entry.owed().is_zero() {
            self.owing.remove(&budget);
        }
        *self.moved.entry(budget).or_default() |= lacked;
        Ok(())
    }
}
