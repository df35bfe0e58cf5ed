//! The parent of the nodes: leadership, a ledger, and the term's pool.
//!
//! One lives on every coordinator node and sleeps until that node is elected.
//! Reports come in, answers go out; what is to change goes through the log,
//! one round at a time, and is booked when it is applied, never before:
//!
//! ```text
//!  report ─► ledger ─► arrived ─► barrier ─► confirmed ─► answer (lease)
//!               │
//!               └─► plan ─► round proposed ─► committed ─► applied ─► answer (given)
//!                             pool debited                 pool credited
//! ```

mod due;
mod office;
mod periods;
mod room;
mod rounds;

use crate::command::{Changes, Command};
use crate::leadership::{Barrier, Leadership};
use crate::lease::child_span;
use crate::ledger::{Child, Ledger, ReportError};
use crate::message::{Answer, AnswerLine, FloorRelease, Report, Terms};
use crate::planted::{self, Bug};
use crate::pool::Pool;
use crate::state::{Generation, State};
use crate::unit::{BudgetId, Edge, Incarnation, NodeId, Round, RuleId, Seq, Span, Term, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use due::Due;

/// How a leader paces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// At most one round is proposed in this time, unless somebody waits.
    pub round: Span,
    /// At most one round is proposed in this time for those who wait.
    pub urgent: Span,
    /// How often a node reports: what a target may be overdue by.
    pub report: Span,
}

impl Default for Pace {
    /// A round every 100 ms, an urgent one after 2 ms, a report every 450 ms.
    fn default() -> Self {
        Self {
            round: Span::from_millis(100),
            urgent: Span::from_millis(2),
            report: Span::from_millis(450),
        }
    }
}

/// What the shell must do for a leader.
#[derive(Clone, Debug, PartialEq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a handful per tick, each consumed at once"
)]
pub enum LeaderOutput {
    /// Ask a quorum whether this node still leads, starting now.
    Barrier(Barrier),
    /// Append this to the log.
    Propose(Command),
}

/// What a quorum last said about a life, so that it can be said again.
#[derive(Clone, Copy, Debug, Hash)]
struct Said {
    seq: Seq,
    lease: Span,
}

/// A floor that somebody no longer uses, of a life that may not be closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unused {
    floor: FloorRelease,
    /// The life's latest report when this was said.
    heard: Option<Seq>,
}

/// The leader's machine.
#[derive(Debug, Hash)]
pub struct Leader {
    pace: Pace,
    leadership: Option<Leadership>,
    ledger: Ledger,
    pools: BTreeMap<BudgetId, Pool>,
    proposed: Option<Changes>,
    round: Round,
    planned: Tick,
    hurried: Tick,
    said: BTreeMap<Incarnation, Said>,
    floors: BTreeMap<(BudgetId, Edge), Unused>,
    /// Budgets that entries have changed, to be looked at for what they wait for.
    changed: BTreeSet<BudgetId>,
    /// Waits of this leader for the booked rest of closed incarnations.
    ghosts: Due<(BudgetId, Incarnation)>,
    /// Waits of this leader for budgets that are clear and may end.
    clear: Due<BudgetId>,
    /// Since when this leader has seen a template cold.
    cold: BTreeMap<RuleId, Tick>,
    removing: BTreeSet<NodeId>,
    told: BTreeSet<Incarnation>,
    periods: periods::Courses,
    /// Changes that go into a round.
    most: usize,
    /// Budgets to be planned until the next paced round: who is never settled is planned
    /// once in that time, however many there are.
    unplanned: usize,
    /// Set if something is due that did not fit into the last round.
    left_over: bool,
}

impl Leader {
    /// So many floor releases may wait for a round; a client that finds no
    /// room says it again with its next report.
    const FLOORS_MAX: usize = 10_000;

    /// Changed budgets that are looked at for one round. After an election it is all of
    /// them, and no look may keep leases waiting.
    const LOOKS_MAX: usize = 4_096;

    /// A machine that leads nothing.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            leadership: None,
            ledger: Ledger::default(),
            pools: BTreeMap::new(),
            proposed: None,
            round: Round::new(0),
            planned: Tick::from_nanos(0),
            hurried: Tick::from_nanos(0),
            said: BTreeMap::new(),
            floors: BTreeMap::new(),
            changed: BTreeSet::new(),
            ghosts: Due::default(),
            clear: Due::default(),
            cold: BTreeMap::new(),
            removing: BTreeSet::new(),
            told: BTreeSet::new(),
            periods: periods::Courses::default(),
            most: Changes::ITEMS_MAX,
            unplanned: 0,
            left_over: false,
        }
    }

    /// Whether the leader is in office.
    #[must_use]
    pub fn in_office(&self) -> bool {
        self.office().is_some()
    }

    fn office(&self) -> Option<Tick> {
        self.leadership.as_ref().and_then(Leadership::office)
    }

    /// The term led, if any.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.leadership.as_ref().map(Leadership::term)
    }

    /// The ledger, to look at.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The undealt part of a budget, to look at.
    #[must_use]
    pub fn pool(&self, budget: BudgetId) -> Option<&Pool> {
        self.pools.get(&budget)
    }

    /// This node was elected in `term`. It is not in office before an entry of
    /// that term is applied: see [`Leader::applied`].
    pub fn elected(&mut self, term: Term, state: &State, now: Tick) {
        let pools = core::mem::take(&mut self.pools);
        let pace = self.pace;
        *self = Self::new(pace);
        if planted::is(Bug::OldPoolKept) {
            self.pools = pools;
        }
        let mut leadership = Leadership::elected(term, state.patience());
        self.ledger = Ledger::new(term);
        for (life, _) in state.members() {
            leadership.begin(life, now);
            self.listen(life, now);
        }
        self.leadership = Some(leadership);
    }

    /// Another node leads, or may lead: nothing is confirmed or proposed any more.
    pub fn deposed(&mut self) {
        self.leadership = None;
        self.proposed = None;
        self.changed.clear();
        self.ghosts = Due::default();
        self.clear = Due::default();
        self.periods = periods::Courses::default();
        if !planted::is(Bug::OldPoolKept) {
            self.pools.clear();
        }
    }

    fn listen(&mut self, life: Incarnation, now: Tick) {
        let edge = Edge {
            parent: State::CLUSTER,
            child: life,
        };
        self.ledger.open(edge, now);
    }

    /// A report arrived at `now`. An answer comes at once only where the edge is closed, or
    /// where the report builds on one that was not heard here; a lease needs a barrier.
    pub fn handle_report(&mut self, report: &Report, state: &State, now: Tick) -> Option<Answer> {
        let life = report.edge.child;
        let (patience, pace) = (self.leadership.as_ref()?.patience(), self.pace);
        let ended = |budget| state.has_ended(budget);
        match self.ledger.take_under(now, report, |_| None, ended) {
            Ok(()) => {}
            Err(ReportError::Stale) => return None,
            // A leader that is new says what it has, and is told everything.
            Err(ReportError::Unfounded) => return self.ledger.ask_whole(life),
            Err(ReportError::Closed) => {
                // A life that this replica never heard of may have begun under a later leader.
                let over = self.in_office() && state.has_issued(life);
                return over.then(|| self.ledger.refuse(report));
            }
        }
        if planted::is(Bug::CreditedBeforeBooked) {
            self.credit_early(report, state, now);
        }
        for &floor in &report.floors {
            let heard = self.heard(floor.former.parent);
            let unused = Unused { floor, heard };
            if self.floors.len() < Self::FLOORS_MAX {
                self.floors.insert((floor.budget, floor.former), unused);
            }
        }
        let overdue = self.ledger.is_overdue(life, now, |budget| {
            let hold = state
                .budget(budget)
                .map_or(Span::ZERO, |of| of.account.hold_of(life));
            patience
                .times_or_max(2)
                .plus_or_max(pace.report.times_or_max(2))
                .plus_or_max(hold)
        });
        // Neither side waits for a quorum to go on with what it has to say.
        if report.is_long() || self.ledger.is_told_more(life) {
            self.told.insert(life);
        }
        if self.ledger.hears(life, now, patience)
            && !overdue
            && let Some(leadership) = &mut self.leadership
        {
            leadership.arrived(life, report.seq, now);
        }
        None
    }

    /// The latest report of a life that is listened to.
    fn heard(&self, life: Incarnation) -> Option<Seq> {
        self.ledger.child(life).map(Child::seq)
    }

    /// A quorum acknowledged a barrier: the answers that carry the leases.
    pub fn acknowledged(&mut self, barrier: Barrier, state: &State, now: Tick) -> Vec<Answer> {
        let Some(leadership) = &mut self.leadership else {
            return Vec::new();
        };
        let lease = child_span(state.lease(), state.drift());
        let mut answers = Vec::new();
        for confirmed in leadership.acknowledged(barrier) {
            let (child, seq) = (confirmed.child, confirmed.seq);
            self.said.insert(child, Said { seq, lease });
            self.told.remove(&child);
            answers.extend(self.answer(child, Said { seq, lease }, state, now));
        }
        answers
    }

    /// A barrier failed; its reports wait for the next.
    pub fn failed(&mut self, barrier: Barrier) {
        if let Some(leadership) = &mut self.leadership {
            leadership.failed(barrier);
        }
    }

    /// Answers for those whose holdings changed since they were last told.
    pub fn poll_answers(&mut self, state: &State, now: Tick) -> Vec<Answer> {
        let mut answers = Vec::new();
        if self.told.is_empty() {
            return answers;
        }
        let told = core::mem::take(&mut self.told);
        if !self.in_office() {
            return answers;
        }
        for child in told {
            let live = self
                .leadership
                .as_ref()
                .is_some_and(|leadership| leadership.is_live(child));
            if let (true, Some(&said)) = (live, self.said.get(&child)) {
                answers.extend(self.answer(child, said, state, now));
            }
        }
        answers
    }

    fn answer(
        &mut self,
        child: Incarnation,
        said: Said,
        state: &State,
        now: Tick,
    ) -> Option<Answer> {
        let books = |budget| state.budget(budget).map(|of| line(budget, of, child));
        self.ledger.answer(child, now, said.seq, said.lease, &books)
    }

    /// Proposes to remove a node: from this moment it is not confirmed and not granted to.
    pub fn remove(&mut self, node: NodeId, state: &State) -> Option<Command> {
        self.office()?;
        self.removing.insert(node);
        let lives = state.members().filter(|(_, member)| member.node == node);
        for (life, _) in lives {
            if !planted::is(Bug::RemovedConfirmed) {
                self.doom(life);
            }
        }
        Some(Command::Remove { node })
    }

    /// When [`Leader::tick`] should be called for those who wait, if not before.
    #[must_use]
    pub fn urgent_at(&self) -> Option<Tick> {
        let due = self.left_over || self.ledger.is_urgent();
        let waits = due && self.in_office() && self.proposed.is_none();
        waits.then(|| self.hurried.after(self.pace.urgent))
    }

    /// Whether nothing is to be planned, proposed or told, so that [`Leader::tick`] can be seldom.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let planned = self.proposed.is_none() && self.ledger.is_at_rest();
        let done = !self.left_over && self.changed.is_empty();
        let idle = planned && done && self.told.is_empty() && self.floors.is_empty();
        self.leadership.is_none() || self.in_office() && idle
    }

    /// Lets time pass: barriers for what arrived, and a round if something is
    /// to change.
    pub fn tick(&mut self, state: &State, now: Tick) -> Vec<LeaderOutput> {
        let mut outputs = Vec::new();
        let Some(leadership) = &mut self.leadership else {
            return outputs;
        };
        outputs.extend(leadership.start_barrier().map(LeaderOutput::Barrier));
        if leadership.office().is_some() && self.proposed.is_none() {
            let rested = now.since(self.hurried) >= self.pace.urgent;
            let changes = if now.since(self.planned) >= self.pace.round {
                (self.planned, self.hurried) = (now, now);
                self.unplanned = self.ledger.dirty(now);
                self.next_round(state, now)
            } else if self.left_over && rested {
                self.hurried = now;
                self.next_round(state, now)
            } else if self.ledger.is_urgent() && rested {
                self.hurried = now;
                self.urgent_round(state, now)
            } else {
                return outputs;
            };
            if !changes.is_empty() {
                self.proposed = Some(changes.clone());
                outputs.push(LeaderOutput::Propose(Command::Round(changes)));
            }
        }
        outputs
    }
}

/// What a life is told of a budget, out of the book.
fn line(budget: BudgetId, generation: &Generation, child: Incarnation) -> AnswerLine {
    let counters = generation.account.counters(child);
    AnswerLine {
        budget,
        period: generation.account.period(),
        given: counters.given,
        target: crate::edge::Vector::ZERO,
        terms: Terms::from(generation.budget.as_ref()),
    }
}
