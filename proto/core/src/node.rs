//! A coordinator node: a holder above, a ledger below.
//!
//! What the log granted to the node it deals on to its clients' sessions, out
//! of its own memory. A client's lease rides on the node's: it ends with it,
//! scaled for drift, and so needs no quorum of its own. When the node's lease
//! lapses, every session's has lapsed before; the node then closes them all
//! and gives back what is provably unused.
//!
//! ```text
//!   leader ── answer ─► holder ─► account.whole ─► pool ─► grants ─► client
//!          ◄─ report ──        ◄─ give back ◄───── pool ◄─ returns ◄─
//! ```

mod central;
mod deadlines;
mod deal;
mod effort;
mod leave;
mod pace;
mod report;
mod session;

pub use central::{Asked, Released};

use crate::account::Account;
use crate::central::Memory;
use crate::edge::Vector;
use crate::holder::{Holder, Output};
use crate::lease::{LeaseState, child_span};
use crate::ledger::{Child, Ledger};
use crate::message::{Answer, Tally, Terms};
use crate::planted::{self, Bug};
use crate::pool::Pool;
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Drift, Edge, Incarnation, Seq, Span, Term, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use deadlines::Deadlines;
use effort::Effort;

/// One budget at this node.
#[derive(Debug, Hash)]
struct Desk {
    terms: Terms,
    account: Account,
    pool: Option<Pool>,
    /// What became of the requests of sessions that are closed.
    tally: Tally,
    /// For whom tokens are being saved up.
    turn: Option<central::Turn>,
}

/// One client's session.
#[derive(Clone, Debug, Hash)]
struct Session {
    /// Until when, on the node's clock, the client's lease may run: the
    /// greatest end of the node's own lease that any of its leases rode on.
    promised: Tick,
    /// The report that the last lease answered, and the lease.
    said: Option<(Seq, Span)>,
    /// The budgets of which it was ever given something: all that it holds anything of.
    given: BTreeSet<BudgetId>,
}

/// What the shell must do for a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeOutput {
    /// Send this to a client.
    Answer(Answer),
    /// The node's own edge is closed: it must join again, as another life.
    Rejoin,
}

/// The node's machine, for one life.
#[derive(Debug, Hash)]
pub struct Node {
    holder: Holder,
    drift: Drift,
    lease: Span,
    ledger: Ledger,
    desks: BTreeMap<BudgetId, Desk>,
    sessions: BTreeMap<Incarnation, Session>,
    deadlines: Deadlines,
    /// Until when something kept of a closed session must stay booked.
    kept_until: BTreeMap<(BudgetId, Incarnation), Tick>,
    next_client: Incarnation,
    outputs: Vec<NodeOutput>,
    planning: Effort,
    telling: Effort,
    /// Whose report is answered next.
    asking: BTreeSet<Incarnation>,
    /// Who is told of something unasked.
    told: BTreeSet<Incarnation>,
    /// Who was, last.
    turn: Incarnation,
    /// Whether the next report should not wait.
    news: bool,
    /// The quotas of which more is spent than was said.
    spent: BTreeSet<BudgetId>,
    /// When all sums of demand that may have changed were last added up.
    summed: Tick,
    /// The first report that said, while leaving, that nothing is left.
    left: Option<Seq>,
    /// The questions that were decided here, and the permits that are out.
    memory: Memory,
}

impl Node {
    /// So many breakpoints of demand go up per budget and band.
    pub const BREAKPOINTS: usize = 16;

    /// A node that has just joined as `life`, with nothing in hand.
    #[must_use]
    pub fn new(life: Incarnation, drift: Drift) -> Self {
        let edge = Edge {
            parent: crate::state::State::CLUSTER,
            child: life,
        };
        Self {
            holder: Holder::new(edge),
            drift,
            lease: crate::state::State::LEASE_DEFAULT,
            ledger: Ledger::bounded(Term::new(0), Child::CLAIMS_MAX),
            desks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            deadlines: Deadlines::default(),
            kept_until: BTreeMap::new(),
            next_client: Incarnation::new(1),
            outputs: Vec::new(),
            planning: Effort::PLANNING,
            telling: Effort::TELLING,
            asking: BTreeSet::new(),
            told: BTreeSet::new(),
            turn: Incarnation::default(),
            news: false,
            spent: BTreeSet::new(),
            summed: Tick::from_nanos(0),
            left: None,
            memory: Memory::default(),
        }
    }

    /// The life that this machine is.
    #[must_use]
    pub const fn life(&self) -> Incarnation {
        self.holder.edge().child
    }

    /// The edge to the log, to look at.
    #[must_use]
    pub const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The clients' ledger, to look at.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The book of a budget among the clients, to look at.
    #[must_use]
    pub fn account(&self, budget: BudgetId) -> Option<&Account> {
        self.desks.get(&budget).map(|desk| &desk.account)
    }

    /// The undealt part of a budget with its level at `now`, to look at.
    #[must_use]
    pub fn undealt(&self, budget: BudgetId, now: Tick) -> Share {
        let desk = self.desks.get(&budget);
        desk.and_then(|desk| desk.pool.as_ref())
            .map_or(Share::EMPTY, |pool| pool.share_at(now))
    }

    /// The cluster's bound on drift changed.
    pub fn set_drift(&mut self, drift: Drift) {
        self.drift = self.drift.max(drift);
    }

    /// The cluster's lease changed: how long a client may be deaf.
    pub const fn set_lease(&mut self, lease: Span) {
        self.lease = lease;
    }

    /// What to send, in order. Drained by the call.
    #[must_use]
    pub fn poll_outputs(&mut self) -> Vec<NodeOutput> {
        core::mem::take(&mut self.outputs)
    }

    /// Takes an answer of a leader, however it came here.
    pub fn handle_answer(&mut self, answer: &Answer, now: Tick) {
        self.handle_answer_but(answer, now, |_| false);
    }

    /// The same of an answer that may be older than the end of a budget, which the log has told
    /// this node: lines of those that have `ended` say nothing.
    pub fn handle_answer_but(
        &mut self,
        answer: &Answer,
        now: Tick,
        ended: impl Fn(BudgetId) -> bool,
    ) {
        // What a lapse returns counts on the period and the gifts it was held under.
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
        self.news |= self.holder.has_more();
    }

    /// Forgets a budget that has ended by the log: nobody holds anything of it that counts.
    /// A message that names it afterwards must not reach the machine with that line, which the shell sees
    /// to: [`Node::handle_answer_but`], [`Node::handle_report_under`].
    pub fn forget(&mut self, budget: BudgetId) {
        let desk = self.desks.remove(&budget);
        for (client, _) in desk.iter().flat_map(|desk| desk.account.open()) {
            if let Some(session) = self.sessions.get_mut(&client) {
                session.given.remove(&budget);
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

    /// Forgets every budget that has `ended`, where the log was not followed entry by entry.
    pub fn sweep(&mut self, ended: impl Fn(BudgetId) -> bool) {
        for budget in self.remembered() {
            if ended(budget) {
                self.forget(budget);
            }
        }
    }

    /// The budgets of which anything is remembered.
    #[must_use]
    pub fn remembered(&self) -> BTreeSet<BudgetId> {
        let mut all: BTreeSet<BudgetId> = self.desks.keys().copied().collect();
        all.extend(self.kept_until.keys().map(|&(budget, _)| budget));
        all.extend(&self.spent);
        all.extend(self.holder.remembered());
        all.extend(self.ledger.remembered());
        all
    }

    /// The machine's clocks disagree about how much time passed. The node's
    /// lease is over at once; its clients' clocks did not jump, so that what
    /// they hold stays booked until their own leases are over.
    pub fn clock_jumped(&mut self, now: Tick) {
        if self.holder.clock_jumped().is_none() {
            return;
        }
        if planted::is(Bug::JumpEndsSessions) {
            self.lapse(now);
        }
        self.return_undealt(now);
    }

    fn carry_out(&mut self, output: &Output, now: Tick) {
        match output {
            Output::Lapsed => self.lapse(now),
            Output::Closed => {
                self.lapse(now);
                self.outputs.push(NodeOutput::Rejoin);
            }
            Output::Void { budget, period } => {
                if let Some(desk) = self.desks.get_mut(budget) {
                    desk.account.stamp(*period);
                }
                // Who is given nothing in this period has nothing to deal, whatever it had in the last.
                if !planted::is(Bug::PartOutlivesPeriod) {
                    self.refit(*budget, now);
                }
                self.told.extend(self.sessions.keys());
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

    /// Takes a gift in, then gives back what is owed as far as it is not dealt.
    fn adjust(&mut self, budget: BudgetId, terms: &Terms, gift: Vector, owed: Vector, now: Tick) {
        let known = self.desks.get(&budget);
        if known.is_none_or(|desk| desk.terms != *terms) {
            self.ledger.tell(budget);
        }
        let desk = self.desks.entry(budget).or_insert_with(|| Desk {
            terms: *terms,
            account: Account::new(terms.kind, Share::EMPTY, terms.linger()),
            pool: (terms.kind == Kind::Rate).then(|| Pool::empty(Share::EMPTY, now)),
            tally: Tally::default(),
            turn: None,
        });
        desk.terms = *terms;
        if let Some(pool) = &mut desk.pool {
            pool.credit(gift.share(), now);
        }
        self.refit(budget, now);
        self.give_back(budget, owed, now);
        if gift.is_zero() {
            self.ledger.touch(budget);
        } else {
            self.ledger.hurry(budget);
        }
    }

    /// The whole is what the node's edge holds; the pool is what of it is free.
    fn refit(&mut self, budget: BudgetId, now: Tick) {
        let Some(desk) = self.desks.get_mut(&budget) else {
            return;
        };
        let counters = self.holder.counters_of(budget).unwrap_or_default();
        let mut whole = self.holder.holding(budget).share();
        if desk.terms.kind == Kind::Quota {
            // The account takes off what is spent by itself.
            whole.tokens = counters
                .given
                .tokens
                .minus_or_zero(counters.returned.tokens);
            if counters.period > desk.account.period() {
                desk.account.stamp(counters.period);
                self.ledger.tell(budget);
            }
        }
        desk.account.set_whole(whole, desk.terms.linger());
        if let Some(pool) = &mut desk.pool {
            pool.fit(desk.account.free(), now);
        }
    }

    /// Gives back as much of `want` as is free here, at once.
    fn give_back(&mut self, budget: BudgetId, want: Vector, now: Tick) {
        let Some(desk) = self.desks.get_mut(&budget) else {
            return;
        };
        let holding = self.holder.holding(budget);
        let held = desk.account.held();
        let unfloored = holding.ahead_of(held);
        let mut back = Vector {
            floor_rate: want.floor_rate.min(unfloored.floor_rate),
            floor_burst: want.floor_burst.min(unfloored.floor_burst),
            ..want.meet(Vector::of(desk.account.free()))
        };
        // A floor never stays behind without its share.
        let floors = holding.ahead_of(back);
        back.rate = back.rate.min(holding.rate.minus_or_zero(floors.floor_rate));
        back.burst = back
            .burst
            .min(holding.burst.minus_or_zero(floors.floor_burst));
        let permits = desk.terms.kind == Kind::Concurrency;
        if planted::is(Bug::GhostFloorsReturned)
            || (permits && planted::is(Bug::GhostPermitsReturned))
        {
            back = want.meet(holding);
        }
        if let Some(pool) = &mut desk.pool {
            back.tokens = pool.draw(back.rate, back.burst, now).tokens;
        }
        if back.is_zero() || self.holder.give_back(budget, back).is_err() {
            return;
        }
        // Others wait for what was asked back.
        self.news = true;
        self.refit(budget, now);
    }

    /// Everything that is not a floor or a permit in flight comes back.
    fn lapse(&mut self, now: Tick) {
        let until = self.holder.lease().until().min(now);
        let sessions: Vec<Incarnation> = self.sessions.keys().copied().collect();
        for client in sessions {
            self.close_session(client, until);
        }
        self.return_undealt(now);
    }

    /// What is not dealt comes back, with what the lease's time made of it.
    fn return_undealt(&mut self, now: Tick) {
        let until = self.holder.lease().until().min(now);
        let budgets: Vec<BudgetId> = self.desks.keys().copied().collect();
        for budget in budgets {
            self.report_spent(budget);
            let all = self.holder.holding(budget);
            self.give_back(budget, all, until);
        }
    }

    /// Whether the next report should go at once: somebody waits for what it
    /// asks, or for what it returns. Said once.
    #[must_use]
    pub const fn take_news(&mut self) -> bool {
        core::mem::replace(&mut self.news, false)
    }

    /// Whether the node's lease holds at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Tick) -> bool {
        self.holder.lease().state() == LeaseState::Held && self.holder.lease().holds(now)
    }

    /// What of the node's lease a client may count, from the arrival of its report.
    fn ride(&self, received: Tick) -> (Span, Tick) {
        let until = self.holder.lease().until();
        let rest = until.since(received);
        if planted::is(Bug::ClientOutlivesNode) {
            return (rest.plus_or_max(rest), until);
        }
        (child_span(rest, self.drift), until)
    }
}
