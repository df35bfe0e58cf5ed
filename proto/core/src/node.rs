//! A coordinator node: the child of the leader, and the parent of its clients' sessions.
//!
//! The log grants shares of budgets to the node. The node grants parts of them to its clients' sessions, from
//! its own memory. A client's lease is a part of the node's lease: it ends no later, scaled for clock drift,
//! and therefore needs no quorum of its own. When the node's lease lapses, every session's lease has lapsed
//! before it. The node then closes all sessions and gives back what is provably unused.
//!
//! ```text
//!   leader ── answer ─► holder ─► account.whole ─► pool ─► grants ─► client
//!          ◄─ report ──        ◄─ give back ◄───── pool ◄─ returns ◄─
//! ```

mod central;
mod deadlines;
mod distribute;
mod fair_queue;
mod lapse;
mod leave;
mod pace;
mod report;
mod session;
mod work_budget;

pub use central::{Released, RequestAction};

use crate::account::Account;
use crate::central::Memory;
use crate::edge::Vector;
use crate::few::CompactMap;
use crate::holder::{Holder, Output};
use crate::lease::{LeaseState, child_span};
use crate::ledger::{Child, Ledger};
use crate::message::{Answer, Tally, Terms};
use crate::planted::{self, Bug};
use crate::pool::Pool;
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Drift, Edge, Incarnation, Seq, Span, Term, Tick};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use deadlines::Deadlines;
use fair_queue::FairQueue;
use work_budget::WorkBudget;

/// State of one budget at this node: its terms, the grants to clients, and the ungranted rest.
#[derive(Debug, Hash)]
struct BudgetState {
    terms: Arc<Terms>,
    account: Account,
    pool: Option<Pool>,
    /// Counts of requests reported by sessions that are closed by now.
    tally: Tally,
    /// The order of central decisions, while there are any.
    queue: Option<Box<FairQueue>>,
    /// Set if something of a quota that was recalled has not come back yet, as the last plan left it.
    returning: bool,
    /// Set if everything of a quota's period is given away, by the leader and by this node, and nothing comes back.
    exhausted: bool,
}

/// One client's session.
#[derive(Clone, Debug, Hash)]
struct Session {
    /// Begin of the client's process on the node's clock, if its age is known.
    began: Option<Tick>,
    /// End of the client's lease on the node's clock, at the latest: the greatest end of the node's own lease
    /// that any of the client's leases was derived from.
    promised: Tick,
    /// Sequence number of the last confirmed report, and the lease that was given for it.
    last_confirmed: Option<(Seq, Span)>,
    /// Set once it is known that a short lease might end between two of its reports.
    is_slow: bool,
    /// Set once this session was granted permits.
    was_given_permits: bool,
    /// Number of budgets of which this session was ever granted a part. The ledger knows them: see [`Ledger::given`].
    given: usize,
}

/// A walk through all budgets that gives back what is not granted to a client.
#[derive(Clone, Copy, Debug, Hash)]
struct Returning {
    /// Time until which the parts made tokens.
    until: Tick,
    /// First budget that the walk has not come to.
    next: BudgetId,
}

/// Actions that the shell must carry out for a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeOutput {
    /// Send this answer to a client.
    Answer(Answer),
    /// Join the cluster again under a new incarnation: this one's edge to the leader is closed.
    Rejoin,
}

/// State machine of one coordinator node, for one incarnation.
///
/// It performs no I/O and reads no clock. The shell calls it, and passes the time to each call. An
/// incarnation begins when the log applies the node's `Join` command; the shell then makes a new `Node`. It
/// ends with [`NodeOutput::Rejoin`].
///
/// # Methods
///
/// - **Inputs** take something that arrived and may change state: [`handle_answer`](Self::handle_answer) and
///   [`handle_answer_but`](Self::handle_answer_but) (the leader's answer),
///   [`open_session`](Self::open_session), [`note_keys`](Self::note_keys), [`handle_report`](Self::handle_report) and
///   [`handle_report_under`](Self::handle_report_under) (a client's report), [`renew_early`](Self::renew_early) (one
///   that waits to be handled), [`handle_ask`](Self::handle_ask)
///   and [`handle_release`](Self::handle_release) (requests decided in central mode; their result is returned
///   at once and is not an output), [`reweigh`](Self::reweigh), [`forget`](Self::forget),
///   [`sweep`](Self::sweep), [`set_drift`](Self::set_drift) and [`set_lease`](Self::set_lease) (follow the
///   log), [`leave`](Self::leave).
/// - **Time** is an input as well: [`clock_jumped`](Self::clock_jumped), [`tick`](Self::tick) or
///   [`tick_behind`](Self::tick_behind).
/// - **Work** that follows from inputs: [`flush_urgent`](Self::flush_urgent) plans urgent budgets and makes answers.
///   A node without time for that calls [`answer_short`](Self::answer_short), which renews leases.
/// - **Outputs** are drained: [`poll_outputs`](Self::poll_outputs), [`take_report_urgent`](Self::take_report_urgent) and
///   [`report`](Self::report).
/// - **Queries** change nothing: [`is_leased`](Self::is_leased), [`poll_timeout`](Self::poll_timeout),
///   [`has_left`](Self::has_left), [`incarnation`](Self::incarnation), [`holder`](Self::holder), [`ledger`](Self::ledger),
///   [`account`](Self::account), [`ungranted`](Self::ungranted), [`central_permits`](Self::central_permits) and
///   [`remembered`](Self::remembered).
///
/// # One turn of the shell
///
/// The shell reads the clock once per turn and passes the same `now` to every call of that turn. Readings
/// never go back.
///
/// 1. Inputs: any number of the calls above, in the order of arrival. If the turn was woken by the clock
///    (every 20 ms, or every 100 ms while `poll_timeout` is `None`) instead: `clock_jumped`, only if boot clock and wall
///    clock disagree; then `tick`, or `tick_behind` while client reports may still be unread.
/// 2. If this node leads, the leader's part of the turn: see [`Leader`](crate::leader::Leader). Its answers
///    to this node go to `handle_answer_but`.
/// 3. `flush_urgent`.
/// 4. `poll_outputs`: sends each [`NodeOutput::Answer`]; on [`NodeOutput::Rejoin`] proposes a new `Join`.
/// 5. `take_report_urgent`, and a report if one is due: after a short gap if there is news, else at the usual
///    interval, which is shorter while the node is not leased. `report` makes it. The shell publishes it, and
///    hands it to the leader's machine directly if this node leads.
/// 6. If that report made the leader urgent, steps 2 to 4 once more.
///
/// Between turns the shell sleeps until an input arrives, the next tick or report is due, or the time of
/// `poll_timeout` of either machine has come.
#[derive(Debug, Hash)]
pub struct Node {
    holder: Holder,
    drift: Drift,
    lease: Span,
    ledger: Ledger,
    /// Boxed, since entries are moved to make room for others.
    budgets: CompactMap<BudgetId, Box<BudgetState>>,
    sessions: BTreeMap<Incarnation, Session>,
    deadlines: Deadlines,
    /// Closed sessions whose claims are being dropped, each with the end of its last lease. See [`Node::free_closed`].
    closing: BTreeMap<Incarnation, Tick>,
    /// Set while the node goes through all budgets to return what is not granted.
    returning: Option<Returning>,
    /// Time until which something of a closed session must stay booked.
    kept_until: BTreeMap<(BudgetId, Incarnation), Tick>,
    next_client: Incarnation,
    outputs: Vec<NodeOutput>,
    planning: WorkBudget,
    /// True if client reports may still have been unread at the last tick.
    behind: bool,
    answering: WorkBudget,
    /// Clients whose reports are answered next.
    reply_set: BTreeSet<Incarnation>,
    /// Cursor into `reply_set`: the client that got a long answer last.
    reply_cursor: Incarnation,
    /// Clients that get an answer without having reported.
    notify_set: BTreeSet<Incarnation>,
    /// Cursor into `notify_set`: the client that was answered last.
    notify_cursor: Incarnation,
    /// Set if the next report should be sent at once.
    report_urgent: bool,
    /// Quotas of which more is spent than the node has reported.
    spent: BTreeSet<BudgetId>,
    /// Time at which the demand of all changed budgets was last summed.
    summed: Tick,
    /// Sequence number of the first report of a leaving node that it holds nothing any more.
    left: Option<Seq>,
    /// Central decisions made here, and the permits that they gave out.
    memory: Memory,
}

impl Node {
    /// Maximum number of breakpoints of a demand curve in a report, per budget and band.
    pub const BREAKPOINTS: usize = 16;

    /// Returns a node that has just joined as `incarnation` and holds nothing.
    #[must_use]
    pub fn new(incarnation: Incarnation, drift: Drift) -> Self {
        let edge = Edge {
            parent: crate::state::State::CLUSTER,
            child: incarnation,
        };
        Self {
            holder: Holder::with_lines(edge, Self::LINES_MAX),
            drift,
            lease: crate::state::State::LEASE_DEFAULT,
            ledger: Ledger::bounded(Term::new(0), Child::CLAIMS_MAX),
            budgets: CompactMap::new(),
            sessions: BTreeMap::new(),
            deadlines: Deadlines::default(),
            closing: BTreeMap::new(),
            returning: None,
            kept_until: BTreeMap::new(),
            next_client: Incarnation::new(1),
            outputs: Vec::new(),
            planning: WorkBudget::PLANNING,
            behind: false,
            answering: WorkBudget::ANSWERING,
            reply_set: BTreeSet::new(),
            reply_cursor: Incarnation::default(),
            notify_set: BTreeSet::new(),
            notify_cursor: Incarnation::default(),
            report_urgent: false,
            spent: BTreeSet::new(),
            summed: Tick::ZERO,
            left: None,
            memory: Memory::default(),
        }
    }

    /// Returns this node's incarnation.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.holder.edge().child
    }

    /// Returns the edge to the leader.
    #[must_use]
    pub const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the clients' ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the account of a budget's grants to clients.
    #[must_use]
    pub fn account(&self, budget: BudgetId) -> Option<&Account> {
        self.budgets
            .get(&budget)
            .map(|budget_state| &budget_state.account)
    }

    /// Returns the part of a budget that is not granted to a client, with its level at `now`.
    #[must_use]
    pub fn ungranted(&self, budget: BudgetId, now: Tick) -> Share {
        let budget_state = self.budgets.get(&budget);
        budget_state
            .and_then(|budget_state| budget_state.pool.as_ref())
            .map_or(Share::EMPTY, |pool| pool.share_at(now))
    }

    /// Raises the bound on clock drift to the cluster's new setting. It is never lowered.
    pub fn set_drift(&mut self, drift: Drift) {
        self.drift = self.drift.max(drift);
    }

    /// Sets the cluster's lease: the time that a client may go without an answer.
    pub const fn set_lease(&mut self, lease: Span) {
        self.lease = lease;
    }

    /// Returns the outputs since the last call, in order.
    #[must_use]
    pub fn poll_outputs(&mut self) -> Vec<NodeOutput> {
        core::mem::take(&mut self.outputs)
    }

    /// Takes an answer of the leader, from whichever peer it arrived.
    pub fn handle_answer(&mut self, answer: &Answer, now: Tick) {
        self.handle_answer_but(answer, now, |_| false);
    }

    /// Takes an answer that may be older than the end of a budget. Lines of budgets that have `ended` by the
    /// log are ignored.
    pub fn handle_answer_but(
        &mut self,
        answer: &Answer,
        now: Tick,
        ended: impl Fn(BudgetId) -> bool,
    ) {
        // Before the answer: a lapse returns parts by the period and the grants under which they were held.
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        let leased = self.is_leased(now);
        for output in self.holder.handle_answer_but(now, answer, ended) {
            self.carry_out(&output, now);
        }
        if !leased && self.is_leased(now) {
            self.confirm_all(now);
        }
        self.report_urgent |= self.holder.has_more();
    }

    /// Forgets a budget that has ended by the log: whatever is still held of it counts nothing.
    ///
    /// Later messages must not reach the machine with a line of that budget. The shell passes a filter for
    /// that: see [`Node::handle_answer_but`] and [`Node::handle_report_under`].
    pub fn forget(&mut self, budget: BudgetId) {
        let budget_state = self.budgets.remove(&budget);
        for (client, _) in budget_state
            .iter()
            .flat_map(|budget_state| budget_state.account.open())
        {
            if let Some(session) = self.sessions.get_mut(&client)
                && self.ledger.is_given(client, budget)
            {
                session.given = session.given.saturating_sub(1);
            }
        }
        self.spent.remove(&budget);
        let clients = (budget, Incarnation::new(0))..=(budget, Incarnation::new(u64::MAX));
        let kept: Vec<_> = self.kept_until.range(clients).map(|(&of, _)| of).collect();
        for of in kept {
            self.kept_until.remove(&of);
        }
        self.holder.forget(budget);
        self.ledger.forget(budget);
    }

    /// Forgets every budget that has `ended`, after a snapshot was restored instead of single entries
    /// applied.
    pub fn sweep(&mut self, ended: impl Fn(BudgetId) -> bool) {
        for budget in self.remembered() {
            if ended(budget) {
                self.forget(budget);
            }
        }
    }

    /// Returns the budgets that any state is kept of.
    #[must_use]
    pub fn remembered(&self) -> BTreeSet<BudgetId> {
        let mut all: BTreeSet<BudgetId> = self.budgets.keys().copied().collect();
        all.extend(self.kept_until.keys().map(|&(budget, _)| budget));
        all.extend(&self.spent);
        all.extend(self.holder.remembered());
        all.extend(self.ledger.remembered());
        all
    }

    /// Ends the node's lease at once, because the machine's clocks disagree about how much time passed.
    ///
    /// The clients' clocks did not jump. The parts that clients hold therefore stay booked until their own
    /// leases are over.
    pub fn clock_jumped(&mut self, now: Tick) {
        if self.holder.clock_jumped(now).is_none() {
            return;
        }
        if planted::is(Bug::JumpEndsSessions) {
            self.lapse(now);
        }
        self.return_ungranted(now);
    }

    fn carry_out(&mut self, output: &Output, now: Tick) {
        match output {
            Output::Lapsed => self.lapse(now),
            Output::Closed => {
                self.lapse(now);
                self.outputs.push(NodeOutput::Rejoin);
            }
            Output::Void { budget, period } => {
                if let Some(budget_state) = self.budgets.get_mut(budget) {
                    budget_state.account.stamp(*period);
                    budget_state.exhausted = false;
                }
                // A node that is granted nothing in this period has nothing to deal, whatever it had in the
                // last one.
                if !planted::is(Bug::PartOutlivesPeriod) {
                    self.refit(*budget, now);
                }
                self.notify_set.extend(self.sessions.keys());
                self.ledger.tell(*budget);
                self.ledger.touch(*budget);
            }
            Output::Ends { budget, .. } => {
                // The next plan finds out whether this node has something left.
                self.ledger.tell(*budget);
                self.ledger.touch(*budget);
            }
            Output::Adjust {
                budget,
                terms,
                gift,
                owed,
            } => self.adjust(*budget, terms, *gift, *owed, now),
        }
    }

    /// Adds a grant, then gives back what the leader asks for, as far as it is not dealt to clients.
    fn adjust(
        &mut self,
        budget: BudgetId,
        terms: &Arc<Terms>,
        gift: Vector,
        owed: Vector,
        now: Tick,
    ) {
        let known = self.budgets.get(&budget);
        if known.is_none_or(|budget_state| budget_state.terms != *terms) {
            self.ledger.tell(budget);
        }
        if known.is_none() {
            // Callers wait for the terms of a budget that no one here has used before.
            let claimants = self.ledger.claims_on(budget);
            self.notify_set
                .extend(claimants.map(|(client, _)| client.edge().child));
        }
        let budget_state = self.budgets.get_or_insert_with(budget, || {
            Box::new(BudgetState {
                terms: Arc::clone(terms),
                account: Account::new(terms.kind, Share::EMPTY, terms.linger()),
                pool: (terms.kind == Kind::Rate).then(|| Pool::empty(Share::EMPTY, now)),
                tally: Tally::default(),
                queue: None,
                returning: false,
                exhausted: false,
            })
        });
        budget_state.terms = Arc::clone(terms);
        if let Some(pool) = &mut budget_state.pool {
            pool.credit(gift.share(), now);
        }
        self.refit(budget, now);
        self.give_back(budget, owed, now);
        // Clients hold what is still owed. It must come back within a lease, however many other plans wait.
        let owes = !self.holder.owed(budget).is_zero() && !planted::is(Bug::RecallPlannedLast);
        match gift.is_zero() && !owes {
            true => self.ledger.touch(budget),
            false => self.ledger.mark_urgent(budget),
        }
    }

    /// Sets the account's whole to what the node's edge holds, and the pool to the free part of it.
    fn refit(&mut self, budget: BudgetId, now: Tick) {
        let Some(budget_state) = self.budgets.get_mut(&budget) else {
            return;
        };
        let counters = self.holder.counters_of(budget).unwrap_or_default();
        let mut whole = self.holder.holding(budget).share();
        if budget_state.terms.kind == Kind::Quota {
            // The account subtracts spent tokens itself.
            whole.tokens = counters
                .given
                .tokens
                .minus_or_zero(counters.returned.tokens);
            if counters.period > budget_state.account.period() {
                budget_state.account.stamp(counters.period);
                budget_state.exhausted = false;
                self.ledger.tell(budget);
            }
        }
        budget_state
            .account
            .set_whole(whole, budget_state.terms.linger());
        if let Some(pool) = &mut budget_state.pool {
            pool.fit(budget_state.account.free(), now);
        }
    }

    /// Gives back at once as much of `want` as is free here.
    fn give_back(&mut self, budget: BudgetId, want: Vector, now: Tick) {
        let Some(budget_state) = self.budgets.get_mut(&budget) else {
            return;
        };
        let holding = self.holder.holding(budget);
        let held = budget_state.account.held();
        let unfloored = holding.ahead_of(held);
        let mut back = Vector {
            floor_rate: want.floor_rate.min(unfloored.floor_rate),
            floor_burst: want.floor_burst.min(unfloored.floor_burst),
            ..want.meet(Vector::of(budget_state.account.free()))
        };
        // A floor is never kept without the share that it belongs to.
        let floors = holding.ahead_of(back);
        back.rate = back.rate.min(holding.rate.minus_or_zero(floors.floor_rate));
        back.burst = back
            .burst
            .min(holding.burst.minus_or_zero(floors.floor_burst));
        let permits = budget_state.terms.kind == Kind::Concurrency;
        if planted::is(Bug::LingeringFloorsReturned)
            || (permits && planted::is(Bug::LingeringPermitsReturned))
        {
            back = want.meet(holding);
        }
        if let Some(pool) = &mut budget_state.pool {
            back.tokens = pool.draw(back.rate, back.burst, now).tokens;
        }
        if back.is_zero() || self.holder.give_back(budget, back).is_err() {
            return;
        }
        // Other nodes wait for what was asked back, so the next report is urgent.
        self.report_urgent = true;
        self.refit(budget, now);
    }

    /// Returns true if the next report should be sent at once: a client waits for what the report asks for,
    /// or another node for what it returns. Clears the flag.
    #[must_use]
    pub const fn take_report_urgent(&mut self) -> bool {
        core::mem::replace(&mut self.report_urgent, false)
    }

    /// Returns true if the node's lease holds at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Tick) -> bool {
        self.holder.lease().state() == LeaseState::Held && self.holder.lease().holds(now)
    }

    /// Returns the lease that a client may be given for a report received at `received`, and its end on the node's
    /// clock: the end of the node's own lease, or earlier if the lease is at `most` that long.
    fn ride(&self, received: Tick, most: Option<Span>) -> (Span, Tick) {
        let whole = self.holder.lease().until();
        let until = most.map_or(whole, |most| whole.min(received.after(most)));
        let sent_lease = match planted::is(Bug::YoungLeaseUntold) {
            true => whole,
            false => until,
        };
        let rest = sent_lease.since(received);
        if planted::is(Bug::ClientOutlivesNode) {
            return (rest.plus_or_max(rest), until);
        }
        (child_span(rest, self.drift), until)
    }
}
