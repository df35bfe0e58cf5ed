//! The parent of the nodes: leadership, the nodes' ledger, and the ungranted pools of a term.
//!
//! Each coordinator node has one `Leader`. It is inactive until that node is elected. Reports come in and
//! answers go out. Changes go through the log, one round at a time. A change is booked when its round is
//! applied, never before:
//!
//! ```text
//!  report ─► ledger ─► arrived ─► barrier ─► confirmed ─► answer (lease)
//!               │
//!               └─► plan ─► round proposed ─► committed ─► applied ─► answer (given)
//!                             pool debited                 pool credited
//! ```

mod applied;
mod due;
mod periods;
mod room;
mod rounds;
mod running_period;

use crate::budget::{NoZones, WallTime, Zones};
use crate::command::{Changes, Command};
use crate::few::CompactMap;
use crate::leadership::{Barrier, Leadership};
use crate::lease::{child_span, longest_reading};
use crate::ledger::{Child, Ledger, ReportError};
use crate::message::{Answer, AnswerLine, FloorRelease, PeriodRest, Report, Terms};
use crate::node::Node;
use crate::planted::{self, Bug};
use crate::pool::Pool;
use crate::state::{Generation, State};
use crate::unit::{BudgetId, Edge, Incarnation, Round, RuleId, Seq, Span, Term, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use due::Due;
use running_period::{RunningPeriods, rest_of_period};

/// Intervals at which a leader works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// Minimum time between two rounds, unless a node waits for one.
    pub round: Span,
    /// Minimum time between two rounds if nodes wait for them.
    pub urgent: Span,
    /// Interval of a node's reports. It bounds how long a node may take to meet a target.
    pub report: Span,
}

impl Default for Pace {
    /// Returns a round every 100 ms, an urgent one after 2 ms, and a report every 450 ms.
    fn default() -> Self {
        Self {
            round: Span::from_millis(100),
            urgent: Span::from_millis(2),
            report: Span::from_millis(450),
        }
    }
}

/// Actions that the shell must carry out for a leader.
#[derive(Clone, Debug, PartialEq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a handful per tick, each consumed at once"
)]
pub enum LeaderOutput {
    /// Ask a quorum whether this node still leads, starting now.
    Barrier(Barrier),
    /// Append this command to the log.
    Propose(Command),
}

/// The last confirmed report of an incarnation and the lease given for it, kept to repeat it in later
/// answers.
#[derive(Clone, Copy, Debug, Hash)]
struct LastConfirmed {
    seq: Seq,
    lease: Span,
}

/// A floor that is no longer used, of an incarnation that may not be closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unused {
    floor: FloorRelease,
    /// Sequence number of the incarnation's latest report at that time.
    heard: Option<Seq>,
}

/// State machine of the leader, for one term at a time.
///
/// It performs no I/O and reads no clock. A leader is *ready* (to confirm and grant) once an entry
/// of its own term was applied; before that it neither confirms reports nor proposes rounds. While it does not
/// lead, the inputs other than `elected` may be called and have no effect.
///
/// # Methods
///
/// - **Inputs from the log**: [`elected`](Self::elected) and [`deposed`](Self::deposed) (elections),
///   [`applied`](Self::applied) (one committed entry), [`refused`](Self::refused) and [`halve`](Self::halve)
///   (the proposed round was certainly not appended).
/// - **Inputs from nodes and quorums**: [`handle_report`](Self::handle_report),
///   [`acknowledged`](Self::acknowledged) and [`failed`](Self::failed) (a barrier ended). The answers that
///   they return are sent at once.
/// - **Time and outputs**: [`tick`](Self::tick) returns barriers and rounds,
///   [`poll_answers`](Self::poll_answers) the answers to nodes whose holdings changed.
/// - **Queries** change nothing: [`is_ready`](Self::is_ready), [`term`](Self::term),
///   [`poll_timeout`](Self::poll_timeout), [`ledger`](Self::ledger) and [`pool`](Self::pool).
///
/// # One turn of the shell
///
/// All calls of a turn get the same `now` and the replica's [`State`].
///
/// 1. If Raft's leader or term changed: `deposed` if this node led before, `elected` if it leads now. After
///    `elected` the shell proposes an empty [`Command::Round`], so that an entry of the new term exists.
/// 2. For each committed entry, in order: [`State::apply`](crate::state::State::apply), then `applied` with
///    the effects and the changed state.
/// 3. `handle_report` for each report, of this node too. `acknowledged` or `failed` for each barrier that
///    ended; every barrier must end in one of them. `refused` or `halve` for a round that was certainly not
///    appended. A round whose fate is unknown is proposed again unchanged: its counters are absolute, so a
///    repeat moves nothing.
/// 4. `tick`. For [`LeaderOutput::Barrier`] the shell starts a quorum read after this call. For
///    [`LeaderOutput::Propose`] it appends the command.
/// 5. `poll_answers`, and sends the answers.
/// 6. The node's part of the turn: see [`Node`]. If that made `poll_timeout` due, steps 4 and
///    5 once more.
#[derive(Debug, Hash)]
pub struct Leader {
    pace: Pace,
    zones: &'static dyn Zones,
    leadership: Option<Leadership>,
    ledger: Ledger,
    pools: CompactMap<BudgetId, Pool>,
    proposed: Option<Changes>,
    round: Round,
    planned: Tick,
    last_round: Tick,
    last_confirmed: BTreeMap<Incarnation, LastConfirmed>,
    /// Silences in the log, each with the entry by which it began and the time since which it has lasted by this
    /// replica's clock. It outlives the term.
    silences: BTreeMap<Incarnation, (u64, Tick)>,
    floors: BTreeMap<(BudgetId, Edge), Unused>,
    /// Budgets that entries have changed and whose waits must be set again.
    changed: BTreeSet<BudgetId>,
    /// Waits of this leader until the booked rests of closed incarnations may be forgotten.
    lingering: Due<(BudgetId, Incarnation)>,
    /// Waits of this leader until clear budgets may end.
    clear: Due<BudgetId>,
    /// Instances of templates that clients have asked for, and that no node has reported a claim on since.
    unclaimed: BTreeSet<BudgetId>,
    /// Time at which this leader first saw a template cold.
    cold: BTreeMap<RuleId, Tick>,
    notify_set: BTreeSet<Incarnation>,
    periods: RunningPeriods,
    /// The latest time of a quorum's clocks that a round saw, and when it did.
    wall: Option<(WallTime, Tick)>,
    /// Quotas of whose period everything is given away, and nothing comes back, as the last plan left it.
    exhausted: BTreeSet<BudgetId>,
    /// Quotas of whose period the last plan grants everything that is free. They are exhausted once its grants are
    /// applied, so that the answer that carries the last grant says so as well.
    granting_all: BTreeSet<BudgetId>,
    /// Maximum number of changes in a round.
    most: usize,
    /// Number of budgets to plan before the next paced round. A budget that is changed again after each plan
    /// is thereby planned once per paced round, however many budgets there are.
    unplanned: usize,
    /// Set if something is due that did not fit into the last round.
    left_over: bool,
    /// The first budget that this leader has not begun to lead, if there is one left.
    to_begin: Option<BudgetId>,
}

impl Leader {
    /// Maximum number of floor releases that wait for a round. Above it, a release is dropped, and the client
    /// repeats it with its next report.
    const FLOORS_MAX: usize = 10_000;

    /// Maximum number of claims of closed or fenced nodes that one tick goes through.
    const SWEPT_MAX: usize = 256;

    /// Maximum number of budgets that a new leader begins to lead in one tick.
    const BEGUN_MAX: usize = 2_048;

    /// Maximum number of changed budgets examined for one round. After an election all budgets are changed,
    /// and examining them must not delay leases.
    const LOOKS_MAX: usize = 1_024;

    /// Minimum time for which an instance that a client has asked for is kept although no node reports a claim on it.
    ///
    /// A client with 10,000 keys on a busy machine names them to its node a few hundred at a time, over a minute.
    /// Instances that ended meanwhile would be asked for and created again, and so on: such a client would never have
    /// all of them.
    const CLAIMED_WITHIN: Span = Span::from_secs(120);

    /// Returns a machine that does not lead, and that knows no time zones.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            zones: &NoZones,
            leadership: None,
            ledger: Ledger::default(),
            pools: CompactMap::new(),
            proposed: None,
            round: Round::new(0),
            planned: Tick::ZERO,
            last_round: Tick::ZERO,
            last_confirmed: BTreeMap::new(),
            silences: BTreeMap::new(),
            floors: BTreeMap::new(),
            changed: BTreeSet::new(),
            lingering: Due::default(),
            clear: Due::default(),
            unclaimed: BTreeSet::new(),
            cold: BTreeMap::new(),
            notify_set: BTreeSet::new(),
            periods: RunningPeriods::default(),
            wall: None,
            exhausted: BTreeSet::new(),
            granting_all: BTreeSet::new(),
            most: Changes::ITEMS_MAX,
            unplanned: 0,
            left_over: false,
            to_begin: None,
        }
    }

    /// Makes the leader begin the periods of quotas by the local clocks of these zones. Replicas may have different
    /// databases: what begins is in the log. A quota in a zone that the leader's database does not have keeps its
    /// period, and begins no other.
    #[must_use]
    pub fn in_zones(self, zones: &'static dyn Zones) -> Self {
        Self { zones, ..self }
    }

    /// Returns true if the leader is ready: elected, and an entry of its term is applied.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready_since().is_some()
    }

    fn ready_since(&self) -> Option<Tick> {
        self.leadership.as_ref().and_then(Leadership::ready_since)
    }

    /// Returns the term that this node leads, if any.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.leadership.as_ref().map(Leadership::term)
    }

    /// Returns the nodes' ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the ungranted part of a budget.
    #[must_use]
    pub fn pool(&self, budget: BudgetId) -> Option<&Pool> {
        self.pools.get(&budget)
    }

    /// Begins a term in which this node was elected. It is not ready before an entry of that term is
    /// applied: see [`Leader::applied`].
    pub fn elected(&mut self, term: Term, state: &State, now: Tick) {
        let pools = core::mem::take(&mut self.pools);
        let silences = core::mem::take(&mut self.silences);
        *self = Self::new(self.pace).in_zones(self.zones);
        self.silences = silences;
        self.follow_silences(state, now);
        if planted::is(Bug::OldPoolKept) {
            self.pools = pools;
        }
        let mut leadership = Leadership::elected(term, state.patience());
        self.ledger = Ledger::new(term).with_lines(Node::LINES_MAX);
        for (incarnation, _) in state.members() {
            leadership.know(incarnation, now);
            self.listen(incarnation, now);
        }
        self.leadership = Some(leadership);
    }

    /// Ends the term: another node leads, or may lead. Nothing is confirmed or proposed any more.
    pub fn deposed(&mut self) {
        self.leadership = None;
        self.proposed = None;
        self.changed.clear();
        self.lingering = Due::default();
        self.clear = Due::default();
        self.unclaimed.clear();
        self.periods = RunningPeriods::default();
        self.to_begin = None;
        if !planted::is(Bug::OldPoolKept) {
            self.pools = CompactMap::new();
        }
    }

    fn listen(&mut self, incarnation: Incarnation, now: Tick) {
        let edge = Edge {
            parent: State::CLUSTER,
            child: incarnation,
        };
        self.ledger.open(edge, now);
    }

    /// Learns that no leader of an earlier term confirmed a report that arrived after `until`, of any node: see
    /// [`EarlierTerms`](crate::earlier_terms::EarlierTerms). `None` if no quorum has answered, or a voter that does
    /// not know silences. Call it before every [`tick`](Self::tick).
    pub fn learn_earlier(&mut self, until: Option<Tick>) {
        if let Some(leadership) = &mut self.leadership {
            leadership.learn_earlier(until);
        }
    }

    /// Takes a report that arrived at `now`. Returns an answer only if the edge is closed, or if the report
    /// builds on one that was not received here. A lease is given only after a barrier.
    pub fn handle_report(&mut self, report: &Report, state: &State, now: Tick) -> Option<Answer> {
        let incarnation = report.edge.child;
        let (patience, pace) = (self.leadership.as_ref()?.patience(), self.pace);
        let ended = |budget| state.has_ended(budget);
        match self.ledger.take_under(now, report, |_| None, ended) {
            Ok(()) => {}
            Err(ReportError::Stale) => return None,
            // A new leader names the report that it has, and the node sends everything.
            Err(ReportError::Unfounded) => return self.ledger.ask_whole(incarnation),
            Err(ReportError::Closed) => {
                // An incarnation that this replica does not know may have begun under a later leader.
                let over = self.is_ready() && state.has_issued(incarnation);
                return over.then(|| self.ledger.refuse(report));
            }
        }
        if planted::is(Bug::CreditedBeforeBooked) {
            self.credit_early(report, state, now);
        }
        if !self.unclaimed.is_empty() {
            for line in report.lines.iter().filter(|line| !line.asks_nothing()) {
                self.unclaimed.remove(&line.budget);
            }
        }
        for &floor in &report.floors {
            let heard = self.heard(floor.former.parent);
            let unused = Unused { floor, heard };
            if self.floors.len() < Self::FLOORS_MAX {
                self.floors.insert((floor.budget, floor.former), unused);
            }
        }
        let overdue = self.ledger.is_overdue(incarnation, now, |budget| {
            let only_floors = self.ledger.owes_only_floors(incarnation, budget);
            let hold = state
                .budget(budget)
                .map_or(Span::ZERO, |of| match only_floors {
                    true => of.account.floor_linger_of(incarnation),
                    false => of.account.hold_of(incarnation),
                });
            patience
                .times_or_max(2)
                .plus_or_max(pace.report.times_or_max(2))
                .plus_or_max(hold)
        });
        // Answers with lines need no quorum: neither side waits for one to send more.
        if report.is_long() || self.ledger.has_lines_waiting(incarnation) {
            self.notify_set.insert(incarnation);
        }
        if self.ledger.hears(incarnation, now, patience)
            && !overdue
            && let Some(leadership) = &mut self.leadership
        {
            leadership.arrived(incarnation, report.seq, now);
        }
        None
    }

    /// Returns the sequence number of the latest report of an incarnation that is listened to.
    fn heard(&self, incarnation: Incarnation) -> Option<Seq> {
        self.ledger.child(incarnation).map(Child::seq)
    }

    /// Confirms the reports that an acknowledged barrier covers. Returns the answers that carry their leases.
    pub fn acknowledged(&mut self, barrier: Barrier, state: &State, now: Tick) -> Vec<Answer> {
        let Some(leadership) = &mut self.leadership else {
            return Vec::new();
        };
        let lease = child_span(state.lease(), state.drift());
        let mut answers = Vec::new();
        for confirmed in leadership.acknowledged(barrier) {
            let (child, seq) = (confirmed.child, confirmed.seq);
            self.last_confirmed
                .insert(child, LastConfirmed { seq, lease });
            self.notify_set.remove(&child);
            answers.extend(self.answer(child, LastConfirmed { seq, lease }, state, now));
        }
        answers
    }

    /// Ends a barrier that failed. Its reports wait for the next one.
    pub fn failed(&mut self, barrier: Barrier) {
        if let Some(leadership) = &mut self.leadership {
            leadership.failed(barrier);
        }
    }

    /// Returns the interval at which the node that this machine runs on reports, if nothing is urgent.
    ///
    /// While it leads, it reports to itself three times as often. The leases of a leader's node and of its clients
    /// then end soon before another leader may reclaim what they held, so that little of it lies idle meanwhile.
    #[must_use]
    pub fn report_every(&self) -> Span {
        match self.is_ready() && !planted::is(Bug::LeaderReportsSeldom) {
            true => Span::from_nanos(self.pace.report.nanos() / 3),
            false => self.pace.report,
        }
    }

    /// Returns answers to the nodes whose holdings or targets changed since their last answer.
    pub fn poll_answers(&mut self, state: &State, now: Tick) -> Vec<Answer> {
        let mut answers = Vec::new();
        if self.notify_set.is_empty() {
            return answers;
        }
        let notify_set = core::mem::take(&mut self.notify_set);
        if !self.is_ready() {
            return answers;
        }
        for child in notify_set {
            let live = self
                .leadership
                .as_ref()
                .is_some_and(|leadership| leadership.is_live(child));
            if let (true, Some(&last_confirmed)) = (live, self.last_confirmed.get(&child)) {
                answers.extend(self.answer(child, last_confirmed, state, now));
            }
        }
        answers
    }

    fn answer(
        &mut self,
        child: Incarnation,
        last_confirmed: LastConfirmed,
        state: &State,
        now: Tick,
    ) -> Option<Answer> {
        let (wall, drift) = (self.wall_at(now), state.drift());
        let (zones, exhausted) = (self.zones, &self.exhausted);
        let books = |budget| {
            let generation = state.budget(budget)?;
            let rest = || {
                let rest = rest_of_period(generation, Some(wall?), zones).unwrap_or(Span::ZERO);
                Some(PeriodRest {
                    ends_in: longest_reading(rest, drift),
                    exhausted: exhausted.contains(&budget),
                })
            };
            let rest = generation.budget.period().and_then(|_| rest());
            Some(line(budget, generation, child, rest))
        };
        self.ledger
            .answer(child, now, last_confirmed.seq, last_confirmed.lease, &books)
    }

    /// Returns the time at which [`Leader::tick`] must be called at the latest if no input arrives:
    ///
    /// - that of the next urgent round if a node waits for one;
    /// - `now` if work was left that is done in slices;
    /// - [`Node::TICK`] after `now` if there is something to plan, to propose or to answer;
    /// - `None` if time alone changes nothing soon.
    #[must_use]
    pub fn poll_timeout(&self, now: Tick) -> Option<Tick> {
        let sliced = self.is_sliced().then_some(now);
        let urgent = self.urgent_at().into_iter().chain(sliced).min();
        urgent.or_else(|| (!self.is_at_rest()).then(|| now.after(Node::TICK)))
    }

    /// Returns true if [`Leader::tick`] has left work that it does in slices.
    fn is_sliced(&self) -> bool {
        self.leadership.is_some() && (self.ledger.has_to_sweep() || self.to_begin.is_some())
    }

    fn urgent_at(&self) -> Option<Tick> {
        let due = self.left_over || self.ledger.is_urgent();
        let waits = due && self.is_ready() && self.proposed.is_none();
        waits.then(|| self.last_round.after(self.pace.urgent))
    }

    fn is_at_rest(&self) -> bool {
        let planned = self.proposed.is_none() && self.ledger.is_at_rest() && !self.is_sliced();
        let done = !self.left_over && self.changed.is_empty();
        let idle = planned && done && self.notify_set.is_empty() && self.floors.is_empty();
        self.leadership.is_none() || self.is_ready() && idle
    }

    /// Advances time to `now`. Returns a barrier for reports that arrived, and a round if something is to
    /// change.
    pub fn tick(&mut self, state: &State, now: Tick) -> Vec<LeaderOutput> {
        let mut outputs = Vec::new();
        let Some(leadership) = &mut self.leadership else {
            return outputs;
        };
        outputs.extend(leadership.start_barrier().map(LeaderOutput::Barrier));
        let is_ready = leadership.ready_since().is_some();
        self.ledger.sweep_some(Self::SWEPT_MAX);
        self.begin_some(state, now);
        if is_ready && self.to_begin.is_none() && self.proposed.is_none() {
            // A reclaim is half applied only before this leader is ready, or while it is proposed. So what the log has freed
            // bit by bit is granted after the last bit.
            debug_assert!(!state.is_half_applied(), "an entry is half applied");
            let rested = now.since(self.last_round) >= self.pace.urgent;
            let changes = if now.since(self.planned) >= self.pace.round {
                (self.planned, self.last_round) = (now, now);
                self.unplanned = self.ledger.dirty(now);
                self.next_round(state, now)
            } else if self.left_over && rested {
                self.last_round = now;
                self.next_round(state, now)
            } else if self.ledger.is_urgent() && rested {
                self.last_round = now;
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

/// Returns the line about a budget for one incarnation, from the account.
fn line(
    budget: BudgetId,
    generation: &Generation,
    child: Incarnation,
    rest: Option<PeriodRest>,
) -> AnswerLine {
    let counters = generation.account.counters(child);
    AnswerLine {
        budget,
        period: generation.account.period(),
        given: counters.given,
        target: crate::edge::Vector::ZERO,
        terms: Terms::from(generation.budget.as_ref()),
        rest,
    }
}
