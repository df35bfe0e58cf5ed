//! The child's side of an edge: a client's towards its node, a node's towards
//! the log.
//!
//! The machine keeps the counters, the lease and the echo; what the share is
//! *made of* (buckets, permits, children of one's own) is its owner's. The
//! owner feeds [`Holder::handle_answer`] and [`Holder::tick`], carries out
//! each [`Output`] at once and in order, and says what it has lowered with
//! [`Holder::give_back`]; only then is it reported.
//!
//! An answer is taken in this order, and the order is the safety of it:
//!
//! 1. another pair of lives: ignored;
//! 2. the edge is closed: everything ends, and no later line counts;
//! 3. a lease that has meanwhile run out lapses first;
//! 4. the lease is renewed, counted from the sending of the report answered;
//! 5. without a lease nothing else of the answer counts, and it is not echoed;
//! 6. per line: a new period voids the old one's tokens, then targets, then gifts.

mod report;
mod said;

use crate::edge::{Counters, EdgeError, Vector, owed};
use crate::lease::{ChildLease, LeaseState};
use crate::message::{
    Answer, AnswerLine, BandDemand, FloorRelease, Heard, Intent, ReportLine, Tally, Terms, Verdict,
};
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{BudgetId, Edge, PeriodId, Seq, Tick, Tokens};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use said::Said;

/// What the owner must do, at once and in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all outputs are adjustments, and each is dropped as soon as it is carried out"
)]
pub enum Output {
    /// The lease ran out: stop using what is held, apply each budget's policy,
    /// and give back all that is provably unused.
    Lapsed,
    /// The edge is closed: drop everything; only another edge can hold again.
    Closed,
    /// A new period of a quota: tokens of the old one are dead.
    Void {
        /// The budget.
        budget: BudgetId,
        /// The period that begins.
        period: PeriodId,
    },
    /// Go on under `terms`, take `gift` in, then lower by `owed` as far as
    /// possible, and give that back. Either may be nothing.
    Adjust {
        /// The budget.
        budget: BudgetId,
        /// The terms on which it is held from now on.
        terms: Terms,
        /// What is newly given, with the tokens it carries.
        gift: Vector,
        /// What the parent wants back in all, of what was seen given.
        owed: Vector,
    },
}

/// What the owner says of one budget when a report is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wants {
    /// What all callers want, per band.
    pub demand: Vec<BandDemand>,
    /// The floors asked for.
    pub floor: Share,
    /// The largest cost that waits.
    pub largest_wait: Tokens,
    /// What became of requests on this edge so far.
    pub tally: Tally,
}

/// One budget as the holder knows it.
#[derive(Clone, Debug, Hash)]
struct Entry {
    counters: Counters,
    target: Vector,
    terms: Terms,
}

impl Entry {
    /// What is to be returned: never more than was seen given.
    fn owed(&self) -> Vector {
        owed(
            self.counters.returned,
            self.target.meet(self.counters.given),
        )
    }
}

/// The child's side of one edge.
#[derive(Clone, Debug, Hash)]
pub struct Holder {
    edge: Edge,
    lease: ChildLease,
    heard: Heard,
    /// The greatest answer that came, whether or not there was a lease to take its lines under.
    seen: Heard,
    answered: Seq,
    intent: Intent,
    /// Floors of former edges that are not used any more, and the first report that said so.
    floors: Vec<(FloorRelease, Option<Seq>)>,
    entries: BTreeMap<BudgetId, Entry>,
    /// Budgets of which more is wanted back than was returned.
    owing: BTreeSet<BudgetId>,
    /// Budgets of which something was given or returned, or a period began, since the last
    /// report; whether somebody lacks what was.
    moved: BTreeMap<BudgetId, bool>,
    /// Budgets of which nothing is wanted any more since the last report.
    retired: BTreeSet<BudgetId>,
    said: Said,
    /// Set if an answer came since the last report that should be echoed at once.
    echoes: bool,
}

impl Holder {
    /// So many floor releases are said at once.
    pub const FLOORS_MAX: usize = 10_000;

    /// A holder on a new edge, at zero.
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
            entries: BTreeMap::new(),
            owing: BTreeSet::new(),
            moved: BTreeMap::new(),
            retired: BTreeSet::new(),
            said: Said::with_lines(ReportLine::LINES_MAX),
            echoes: false,
        }
    }

    /// A holder on a new edge whose reports have at most `most` lines.
    #[must_use]
    pub fn with_lines(edge: Edge, most: usize) -> Self {
        Self {
            said: Said::with_lines(most),
            ..Self::new(edge)
        }
    }

    /// The pair of lives.
    #[must_use]
    pub const fn edge(&self) -> Edge {
        self.edge
    }

    /// The lease.
    #[must_use]
    pub const fn lease(&self) -> &ChildLease {
        &self.lease
    }

    /// The greatest answer taken.
    #[must_use]
    pub const fn heard(&self) -> Heard {
        self.heard
    }

    /// The greatest of the own reports that was answered.
    #[must_use]
    pub const fn answered(&self) -> Seq {
        self.answered
    }

    /// The counters of a budget; `None` if nothing was ever given of it.
    #[must_use]
    pub fn counters_of(&self, budget: BudgetId) -> Option<Counters> {
        self.entries.get(&budget).map(|entry| entry.counters)
    }

    /// The budgets of which anything was ever given on this edge, with their counters.
    pub fn counters(&self) -> impl Iterator<Item = (BudgetId, &Counters)> {
        self.entries
            .iter()
            .map(|(&budget, entry)| (budget, &entry.counters))
    }

    /// What is held of a budget.
    #[must_use]
    pub fn holding(&self, budget: BudgetId) -> Vector {
        self.entries.get(&budget).map_or(Vector::ZERO, |entry| {
            entry.counters.holding(entry.terms.kind)
        })
    }

    /// What the parent wants back and has not got, of what was seen given.
    #[must_use]
    pub fn owed(&self, budget: BudgetId) -> Vector {
        self.entries.get(&budget).map_or(Vector::ZERO, Entry::owed)
    }

    /// Budgets of which more is wanted back than was returned: [`Holder::owed`] says how much.
    /// Their owner gives it back as soon as it can, and looks at them with every report.
    pub fn owing(&self) -> impl Iterator<Item = BudgetId> {
        self.owing.iter().copied()
    }

    /// The terms on which a budget is held, once anything of it was given.
    #[must_use]
    pub fn terms(&self, budget: BudgetId) -> Option<&Terms> {
        self.entries.get(&budget).map(|entry| &entry.terms)
    }

    /// Leaves: from the next report on, the parent is asked for nothing.
    pub fn leave(&mut self) {
        self.intent = Intent::Leave;
    }

    /// Whether it is leaving.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.intent == Intent::Leave
    }

    /// Lets time pass. [`Output::Lapsed`] once, when the lease has run out.
    pub fn tick(&mut self, now: Tick) -> Option<Output> {
        self.lease.expire(now).then_some(Output::Lapsed)
    }

    /// The machine's clocks disagree about how much time passed (a suspend
    /// that the clock did not count): what is held ends here.
    pub fn clock_jumped(&mut self) -> Option<Output> {
        self.lease.jump().then_some(Output::Lapsed)
    }

    /// Forgets a budget that has ended: nothing of it is held, said or kept any more.
    ///
    /// Its counters are gone, so that no answer may name it afterwards, however late it comes:
    /// what was given once would count as given anew. Whoever calls this sees to that.
    pub fn forget(&mut self, budget: BudgetId) {
        self.entries.remove(&budget);
        self.owing.remove(&budget);
        self.moved.remove(&budget);
        self.retired.remove(&budget);
        self.floors.retain(|(floor, _)| floor.budget != budget);
        self.said.forget(budget);
    }

    /// The budgets of which anything is remembered.
    pub fn remembered(&self) -> impl Iterator<Item = BudgetId> {
        let marked = self.owing.iter().chain(&self.retired);
        let counted = self.entries.keys().chain(self.moved.keys());
        marked.chain(counted).copied().chain(self.said.remembered())
    }

    /// Takes an answer. The outputs are to be carried out at once, in order.
    pub fn handle_answer(&mut self, now: Tick, answer: &Answer) -> Vec<Output> {
        self.handle_answer_but(now, answer, |_| false)
    }

    /// The same of an answer that may be older than the end of a budget: lines of those that
    /// have `ended` say nothing.
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
        // What the parent knows it knows, whatever became of the lease.
        self.said.confirm(answer, self.lease.last_sent());
        if !planted::is(Bug::UnleasedUnseen) {
            self.seen = self.seen.max(answer.number);
        }
        outputs.extend(self.tick(now));
        if !self.lease.confirm(answer.answers, answer.lease, now) {
            return outputs;
        }
        let latest = answer.number >= self.heard;
        self.heard = self.heard.max(answer.number);
        self.seen = self.seen.max(self.heard);
        self.answered = self.answered.max(answer.answers);
        self.echoes |= answer.is_full();
        for line in answer.lines.iter().filter(|line| !ended(line.budget)) {
            self.take_line(line, latest, &mut outputs);
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
        let before = self.entries.get(&line.budget).map(|entry| entry.terms);
        let entry = self.entries.entry(line.budget).or_insert_with(|| Entry {
            counters: Counters::new(line.period),
            target: Vector::ZERO,
            terms: line.terms,
        });
        if line.period < entry.counters.period {
            return;
        }
        // That it has something is said once, though nothing is wanted or returned.
        if before.is_none() || line.period > entry.counters.period {
            self.moved.entry(line.budget).or_default();
        }
        if line.period > entry.counters.period {
            entry.counters = Counters::new(line.period);
            entry.target = Vector::ZERO;
            outputs.push(Output::Void {
                budget: line.budget,
                period: line.period,
            });
        }
        let known = Some(entry.counters.given).filter(|_| !planted::is(Bug::GiftsAddUp));
        let gift = line.given.ahead_of(known.unwrap_or_default());
        entry.counters.given = entry.counters.given.merge(line.given);
        entry.target = entry.target.merge(line.target);
        // Counters merge; terms do not, so an answer that was overtaken has none to give.
        if latest {
            entry.terms = line.terms;
        }
        let owed = match planted::is(Bug::RecallIgnored) {
            true => Vector::ZERO,
            false => entry.owed(),
        };
        match owed.is_zero() {
            true => self.owing.remove(&line.budget),
            false => self.owing.insert(line.budget),
        };
        // Terms alone are news, too: a floor can be asked for only by who knows of it.
        let news = before != Some(entry.terms);
        if news || !gift.is_zero() || !owed.is_zero() {
            outputs.push(Output::Adjust {
                budget: line.budget,
                terms: entry.terms,
                gift,
                owed,
            });
        }
    }

    /// The owner has lowered what it uses by `back`; from now on it is returned.
    ///
    /// # Errors
    ///
    /// [`EdgeError`] if so much was never given; nothing was changed.
    pub fn give_back(&mut self, budget: BudgetId, back: Vector) -> Result<(), EdgeError> {
        let Some(entry) = self.entries.get_mut(&budget) else {
            return if back.is_zero() {
                Ok(())
            } else {
                Err(EdgeError::ReturnedMoreThanGiven)
            };
        };
        let returned = entry
            .counters
            .returned
            .plus(back)
            .ok_or(EdgeError::Exhausted)?;
        entry.counters.admits(entry.terms.kind, returned)?;
        if returned == entry.counters.returned {
            return Ok(());
        }
        // What is wanted back somebody else lacks.
        let lacked = !entry.owed().is_zero();
        entry.counters.returned = returned;
        if entry.owed().is_zero() {
            self.owing.remove(&budget);
        }
        *self.moved.entry(budget).or_default() |= lacked;
        Ok(())
    }
}
