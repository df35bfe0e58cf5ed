//! Client sessions: opening, renewing, closing.

use super::{Node, NodeOutput, Session};
use crate::budget::Claim;
use crate::lease::{YoungLease, longest_reading};
use crate::ledger::ReportError;
use crate::message::{Answer, AnswerLine, FloorRelease, Intent, PeriodRest, Report};
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::unit::{BudgetId, Edge, Incarnation, Seq, Span, Tick};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::hint;
use core::ops::Bound;

impl Node {
    /// Maximum number of parts of closed sessions that are freed at once. To free one takes about six microseconds, and
    /// fifty if thousands of sessions have parts of the same budget. The reports of the other clients must be read
    /// meanwhile.
    pub(super) const FREED_AT_ONCE: usize = 200;

    /// Maximum number of silent sessions that are closed per tick.
    const CLOSINGS: usize = 1_000;

    /// If this many sessions, and a tenth of all, are overdue at once, this node or its machine probably
    /// could not read: their reports may still be in a socket.
    const MANY: usize = 100;

    /// Number of lines that cost as much as an answer without lines. An answer with more is long.
    const LINES_PER_ANSWER: usize = 32;

    /// Number of lines after which no further long answer is made at once. Making a line takes about five
    /// microseconds, and renewals of leases wait meanwhile.
    const LINES_AT_ONCE: usize = 1_024;

    /// Time after the end of its lease at which a session is closed even if many are overdue at once.
    const AT_LONGEST: Span = Span::from_secs(10);

    /// A session that was granted parts of more budgets, that reports more at once or that asked for more keys, gets
    /// whole leases: its reports are not cheap.
    const YOUNG_BUDGETS_MAX: usize = 32;

    /// Opens a session, with whole leases, of a client that does not send its age. Returns `None` once all
    /// incarnations are issued.
    pub fn open_session(&mut self, now: Tick) -> Option<Edge> {
        self.open(None, now)
    }

    /// Opens a session of a client whose process has run for `age`: see [`YoungLease`]. Returns `None` once all
    /// incarnations are issued.
    pub fn open_session_aged(&mut self, age: Span, now: Tick) -> Option<Edge> {
        self.open(Some(now.before(age)), now)
    }

    fn open(&mut self, began: Option<Tick>, now: Tick) -> Option<Edge> {
        let client = self.next_client;
        self.next_client = client.next()?;
        let edge = Edge {
            parent: self.incarnation(),
            child: client,
        };
        let session = Session {
            began,
            promised: now,
            last_confirmed: None,
            is_slow: false,
            was_given_permits: false,
            given: 0,
        };
        self.sessions.insert(client, session);
        self.deadlines.begin(client, now);
        self.ledger.open(edge, now);
        Some(edge)
    }

    /// Reads the memory of a session that a report reads first. It has no other effect: see
    /// [`Client::fetch`](crate::client::Client::fetch).
    pub fn fetch(&self, client: Incarnation) {
        if let Some(child) = self.ledger.child(client) {
            hint::black_box((child.read_head(), child.read_more()));
        }
        if let Some(session) = self.sessions.get(&client) {
            let (promised, confirmed) = (session.promised, session.last_confirmed);
            let given = session.given;
            hint::black_box((confirmed, given, self.deadlines.has(promised, client)));
        }
    }

    /// Reads what the memory of [`Node::fetch`] points to.
    pub fn fetch_further(&self, client: Incarnation) {
        let Some(child) = self.ledger.child(client) else {
            return;
        };
        hint::black_box(child.read_sent());
        for (budget, claim) in child.claims.iter().take(1) {
            let account = self.budgets.get(budget).map(|of| &of.account);
            let counters = account.map(|account| account.counters(client));
            hint::black_box((claim.read_head(), claim.read_rare(), counters));
        }
    }

    /// Notes that a client has asked for this many keys so far. If they are many, its reports will not be cheap. So from
    /// now on its leases are whole, and the last one is made whole at once, before that work begins.
    pub fn note_keys(&mut self, client: Incarnation, keys: usize, now: Tick) {
        let Some(session) = self.sessions.get_mut(&client) else {
            return;
        };
        if session.is_slow || keys <= Self::YOUNG_BUDGETS_MAX {
            return;
        }
        session.is_slow = true;
        if let Some((seq, _)) = session.last_confirmed
            && self.confirm(client, seq, now)
        {
            self.notify_set.insert(client);
        }
    }

    /// Takes a client's report that arrived at `now`. Its answer is one of the outputs.
    pub fn handle_report(&mut self, report: &Report, now: Tick) {
        self.handle_report_under(report, now, |_| None, |_| false);
    }

    /// Takes a client's report, with the rules of its budgets.
    ///
    /// The client's demand counts with the weight and band that `rules` returns, not with those that it
    /// reports. The client may not know yet that a budget has `ended`: see
    /// [`Ledger::take_under`](crate::ledger::Ledger::take_under).
    pub fn handle_report_under(
        &mut self,
        report: &Report,
        now: Tick,
        rules: impl Fn(BudgetId) -> Option<Claim>,
        ended: impl Fn(BudgetId) -> bool,
    ) {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        let client = report.edge.child;
        match self.ledger.take_under(now, report, rules, ended) {
            Ok(()) => {}
            Err(ReportError::Stale) => return,
            Err(ReportError::Unfounded) => {
                // The answer names the report that the next one may build on.
                self.reply_set.insert(client);
                return;
            }
            Err(ReportError::Closed) => {
                self.outputs
                    .push(NodeOutput::Answer(self.ledger.refuse(report)));
                return;
            }
        }
        // Demand that cannot be served from here must be reported to the leader.
        self.report_urgent |= self.ledger.take_asked();
        for line in &report.lines {
            self.release(client, line.budget, line.period, line.returned, now);
        }
        for floor in &report.floors {
            self.release_floor(floor, now);
        }
        self.note_pace(report, now);
        if self
            .ledger
            .child(client)
            .is_some_and(crate::ledger::Child::is_leaving)
            && self.holds_nothing(client)
        {
            self.close_session(client);
            self.outputs
                .push(NodeOutput::Answer(self.ledger.refuse(report)));
            return;
        }
        self.renew(client, report.seq, now);
    }

    /// Renews the lease of a client whose report waits to be handled, because it is long or others are. Everything else
    /// in the report is handled with [`Node::handle_report_under`].
    ///
    /// The lease is as safe as the one that handling the report gives: it is part of the node's own lease, and all
    /// that the client holds stays booked until it has ended. A client that leaves, or that has to return something
    /// in time, is not renewed early. Neither is one that releases floors: it repeats them until its report is
    /// answered.
    pub fn renew_early(&mut self, report: &Report, now: Tick) {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        let client = report.edge.child;
        let stays = report.intent == Intent::Stay && report.floors.is_empty();
        if !stays || !self.ledger.hear(now, report) {
            return;
        }
        self.note_pace(report, now);
        if !self.confirm(client, report.seq, now) {
            return;
        }
        let session = self.sessions.get(&client);
        let confirmed = session.and_then(|session| session.last_confirmed);
        let answer =
            confirmed.and_then(|(seq, lease)| self.ledger.answer_alone(client, seq, lease));
        self.outputs.extend(answer.map(NodeOutput::Answer));
    }

    /// Applies changed rules of a budget: the demand of each client for which `rule` returns a claim counts
    /// with that claim from now on, whatever the client reported.
    pub fn reweigh(&mut self, budget: BudgetId, rule: impl Fn(Incarnation) -> Option<Claim>) {
        self.ledger.reweigh(budget, rule);
    }

    fn release(
        &mut self,
        client: Incarnation,
        budget: BudgetId,
        period: crate::unit::PeriodId,
        returned: crate::edge::Vector,
        now: Tick,
    ) {
        if returned.is_zero() {
            return;
        }
        let Some(budget_state) = self.budgets.get_mut(&budget) else {
            return;
        };
        let spent = budget_state.account.spent();
        let released = budget_state.account.release(client, period, returned);
        if budget_state.account.spent() != spent {
            self.spent.insert(budget);
        }
        if let Ok(share) = released
            && !share.is_empty()
        {
            if let Some(pool) = &mut budget_state.pool {
                pool.credit(share, now);
            }
            self.refit(budget, now);
            let owed = self.holder.owed(budget);
            self.give_back(budget, owed, now);
            self.ledger.touch(budget);
        }
    }

    /// Handles a floor of a closed edge that is no longer used. If the edge was this node's, the floor is
    /// freed here. If not, it is passed on to the log.
    fn release_floor(&mut self, floor: &FloorRelease, now: Tick) {
        if floor.former.parent != self.incarnation() {
            self.holder.release_floor(*floor);
            return;
        }
        let client = floor.former.child;
        if self.closing.contains_key(&client) {
            // Only what a closed session left behind can be released.
            self.free_closed(usize::MAX, now);
        }
        let Some(budget_state) = self.budgets.get_mut(&floor.budget) else {
            return;
        };
        let share = budget_state
            .account
            .release_floor(client, client, floor.floor);
        if share.is_empty() {
            return;
        }
        if let Some(pool) = &mut budget_state.pool {
            pool.credit(share, now);
        }
        self.refit(floor.budget, now);
        self.ledger.touch(floor.budget);
        self.ledger.sum_again(floor.budget);
    }

    /// Returns true if a session holds permits of any budget, in flight or not.
    #[must_use]
    pub fn holds_permits(&self, client: Incarnation) -> bool {
        // Most clients never have permits, and may have parts of thousands of other budgets.
        let session = self.sessions.get(&client);
        if session.is_none_or(|session| !session.was_given_permits) {
            return false;
        }
        self.ledger.given(client).any(|budget| {
            self.budgets.get(&budget).is_some_and(|budget_state| {
                let account = &budget_state.account;
                account.kind() == Kind::Concurrency && !account.holding(client).is_zero()
            })
        })
    }

    fn holds_nothing(&self, client: Incarnation) -> bool {
        self.debug_given(client);
        self.ledger.given(client).all(|budget| {
            let budget_state = self.budgets.get(&budget);
            budget_state.is_none_or(|budget_state| budget_state.account.holding(client).is_zero())
        })
    }

    /// Checks in debug builds that a session holds nothing of a budget that is missing in [`Ledger::given`](crate::ledger::Ledger::given).
    fn debug_given(&self, client: Incarnation) {
        let noted = |&budget| self.ledger.is_given(client, budget);
        let mut budgets = self.budgets.iter();
        debug_assert!(
            budgets.all(|(budget, budget_state)| {
                noted(budget)
                    || budget_state
                        .account
                        .open()
                        .all(|(child, _)| child != client)
            }),
            "a session holds a part that was not noted"
        );
    }

    /// Renews a session's lease for its report `seq` if possible. The report is answered in either case.
    fn renew(&mut self, client: Incarnation, seq: Seq, now: Tick) {
        self.confirm(client, seq, now);
        self.reply_set.insert(client);
    }

    /// Confirms, when the node's lease begins, the last report of each session that was not confirmed yet, as
    /// if it had arrived now. Clients then need not wait for their next report.
    pub(super) fn confirm_all(&mut self, now: Tick) {
        let sessions = self.sessions.iter().filter_map(|(&client, session)| {
            let last = self.ledger.child(client)?.seq();
            let confirmed = session.last_confirmed.map_or(Seq::new(0), |(seq, _)| seq);
            (last > confirmed).then_some((client, last))
        });
        for (client, seq) in sessions.collect::<Vec<_>>() {
            if self.confirm(client, seq, now) {
                self.notify_set.insert(client);
            }
        }
    }

    /// Confirms a report if its client has received recent answers and is not overdue in returning something.
    /// Returns true if it was confirmed.
    fn confirm(&mut self, client: Incarnation, seq: Seq, now: Tick) -> bool {
        let lease = self.holder.lease();
        let (rest, until) = self.ride(now, self.young_lease(client, now));
        let full = lease.until().since(now);
        let hears = self.ledger.hears(client, now, self.patience());
        let overdue = self.ledger.is_overdue(client, now, |budget| {
            let hold = self
                .budgets
                .get(&budget)
                .map_or(Span::ZERO, |budget_state| {
                    budget_state.account.hold_of(client)
                });
            self.patience().plus_or_max(hold)
        });
        if hears
            && !overdue
            && !full.is_zero()
            && self.is_leased(now)
            && let Some(session) = self.sessions.get_mut(&client)
        {
            let before = session.promised;
            session.promised = before.max(until);
            self.deadlines.renew(client, before, session.promised);
            session.last_confirmed = Some((seq, rest));
            return true;
        }
        false
    }

    /// Notes that a session is slow: its report is long, or came when half of its short lease was over. Clients
    /// report four times in such a lease, so this one, the node or the way between them has too much to do, and the
    /// next report may come too late. All that the client holds would be returned and granted again, which is
    /// more work still.
    fn note_pace(&mut self, report: &Report, now: Tick) {
        let lease = self.young_lease(report.edge.child, now);
        let (Some(lease), Some(session)) = (lease, self.sessions.get_mut(&report.edge.child))
        else {
            return;
        };
        let half = Span::from_nanos(lease.nanos() / 2);
        let is_late = session.last_confirmed.is_some() && now.after(half) > session.promised;
        session.is_slow |= is_late || report.lines.len() > Self::YOUNG_BUDGETS_MAX;
    }

    /// Returns the maximum lease of a client whose process is young.
    ///
    /// A node that has not read all reports might not read the next ones within a short lease.
    fn young_lease(&self, client: Incarnation, now: Tick) -> Option<Span> {
        let session = self.sessions.get(&client)?;
        let age = now.since(session.began?);
        let many = session.given > Self::YOUNG_BUDGETS_MAX;
        if self.behind || session.is_slow || many {
            return None;
        }
        YoungLease::most(age, self.lease)
    }

    /// Returns the time after which a silent or overdue client is given up. A client's lease is at most the
    /// node's, so this is the node's lease.
    pub(super) const fn patience(&self) -> Span {
        self.lease
    }

    /// Closes a session: nothing of it is heard any more. What it held stays booked until [`Node::free_closed`] frees it.
    pub(super) fn close_session(&mut self, client: Incarnation) {
        self.debug_given(client);
        let Some(session) = self.sessions.remove(&client) else {
            return;
        };
        self.deadlines.end(client, session.promised);
        self.closing.insert(client, session.promised);
        self.ledger.begin_closing(client);
        self.notify_set.remove(&client);
        self.reply_set.remove(&client);
    }

    /// Frees at `now` what closed sessions held of the next `most` budgets, except floors and permits. A session may have
    /// had parts of thousands of budgets, and leases of others are renewed in between.
    pub(super) fn free_closed(&mut self, most: usize, now: Tick) {
        for swept in self.ledger.sweep_next(most) {
            if let Some(budget_state) = self.budgets.get_mut(&swept.budget) {
                budget_state.tally = budget_state.tally.plus(swept.tally);
            }
            if swept.given {
                self.free_part(swept.child, swept.budget, now);
            }
        }
        if !self.ledger.has_to_sweep() {
            self.closing.clear();
        }
    }

    /// Frees what a closed session held of a budget, except floors and permits.
    fn free_part(&mut self, client: Incarnation, budget: BudgetId, now: Tick) {
        let Some(budget_state) = self.budgets.get_mut(&budget) else {
            return;
        };
        let spent = budget_state.account.spent();
        let freed = budget_state.account.close(client);
        if budget_state.account.spent() != spent {
            self.spent.insert(budget);
        }
        let linger = budget_state.account.linger_of(client);
        if let (Some(linger), Some(promised)) = (linger, self.closing.get(&client)) {
            let until = promised.after(linger);
            self.kept_until.insert((budget, client), until);
            self.deadlines.keep(budget, client, until);
        }
        if freed.is_empty() && linger.is_none() {
            return;
        }
        // A floor left behind is requested from the leader separately: see `Node::keep`.
        self.ledger.sum_again(budget);
        if let Some(pool) = &mut budget_state.pool
            && planted::is(Bug::ReclaimCarriesTokens)
        {
            let tokens = freed.burst;
            pool.credit(crate::share::Share { tokens, ..freed }, now);
        }
        self.refit(budget, now);
        self.ledger.touch(budget);
    }

    /// Closes sessions whose leases are all over: at most [`Self::CLOSINGS`] now, the rest in later ticks.
    pub(super) fn expire_sessions(&mut self, now: Tick) {
        let over = self.deadlines.over(now);
        let count = over.clone().count();
        let many = count >= Self::MANY && count.saturating_mul(10) >= self.sessions.len();
        let over: BTreeSet<Incarnation> = over
            .filter(|(until, _)| !many || now.since(*until) >= Self::AT_LONGEST)
            .map(|(_, client)| client)
            .collect();
        for client in over.into_iter().take(Self::CLOSINGS) {
            self.close_session(client);
        }
        // A session that never had a lease holds nothing. It may wait this long for its first one.
        let silent = self.patience().times_or_max(2);
        for client in self.deadlines.idle(|opened| now.since(opened) > silent) {
            self.close_session(client);
        }
    }

    /// Forgets what was kept of closed sessions, once the wait for it is over.
    pub(super) fn expire_kept(&mut self, now: Tick) {
        for (budget, client) in self.deadlines.take_kept(now) {
            if self.kept_until.remove(&(budget, client)).is_none() {
                continue;
            }
            if let Some(budget_state) = self.budgets.get_mut(&budget) {
                budget_state.account.forget(client);
            }
            self.refit(budget, now);
            self.ledger.touch(budget);
            self.ledger.sum_again(budget);
        }
    }

    /// Answers clients that reported: first all whose answers are short, and then others in rotation until they have
    /// [`Self::LINES_AT_ONCE`] lines together. Then answers clients whose holdings or targets changed, in rotation and
    /// within the bound of `answering`.
    ///
    /// An answer repeats every line that its client has not echoed. A client with many of those is answered
    /// when it reports: before that, each change of one line would cost as much as all of them.
    pub(super) fn push_answers(&mut self, now: Tick) {
        let mut lines_left = self.push_replies(now);
        if self.notify_set.is_empty() {
            return;
        }
        let left = self.answering.left_at(now);
        let mut done = 0_usize;
        while done < left && lines_left > 0 {
            let Some(client) = take_next(&mut self.notify_set, &mut self.notify_cursor) else {
                break;
            };
            if self.ledger.unechoed(client) > Self::LINES_PER_ANSWER {
                continue;
            }
            let lines = self.push_answer(client, now);
            lines_left = lines_left.saturating_sub(lines);
            done = done
                .saturating_add(1)
                .saturating_add(lines / Self::LINES_PER_ANSWER);
        }
        self.answering.spend(done);
    }

    /// Answers the clients that reported and whose answers are short. Nothing is planned for them before. A node that has
    /// no time for [`Node::flush_urgent`] renews their leases with this.
    pub fn answer_short(&mut self, now: Tick) {
        let is_long =
            |client: &Incarnation| self.ledger.lines_to_examine(*client) > Self::LINES_PER_ANSWER;
        let replies = core::mem::take(&mut self.reply_set);
        let (long, short): (BTreeSet<_>, BTreeSet<_>) = replies.into_iter().partition(is_long);
        self.reply_set = long;
        for client in short {
            self.notify_set.remove(&client);
            self.push_answer(client, now);
        }
    }

    /// Answers clients that reported. Returns the number of lines that may still be made at once.
    fn push_replies(&mut self, now: Tick) -> usize {
        self.answer_short(now);
        let mut lines_left = Self::LINES_AT_ONCE;
        while lines_left > 0 {
            let Some(client) = take_next(&mut self.reply_set, &mut self.reply_cursor) else {
                break;
            };
            self.notify_set.remove(&client);
            let lines = self.push_answer(client, now);
            lines_left = lines_left.saturating_sub(lines.max(1));
        }
        lines_left
    }

    /// Makes the answer to a client. Returns its number of lines.
    fn push_answer(&mut self, client: Incarnation, now: Tick) -> usize {
        let Some(session) = self.sessions.get(&client) else {
            return 0;
        };
        let (seq, lease) = session.last_confirmed.unwrap_or((Seq::new(0), Span::ZERO));
        let Some(answer) = self.answer(client, seq, lease, now) else {
            return 0;
        };
        let lines = answer.lines.len();
        self.outputs.push(NodeOutput::Answer(answer));
        lines
    }

    fn answer(&mut self, client: Incarnation, seq: Seq, lease: Span, now: Tick) -> Option<Answer> {
        let (budgets, holder, drift) = (&self.budgets, &self.holder, self.drift);
        let books = |budget| {
            let budget_state = budgets.get(&budget)?;
            let end = holder.period_end(budget);
            Some(AnswerLine {
                budget,
                period: budget_state.account.period(),
                given: budget_state.account.counters(client).given,
                target: crate::edge::Vector::ZERO,
                terms: *budget_state.terms,
                rest: end.map(|end| PeriodRest {
                    ends_in: longest_reading(end.at.since(now), drift),
                    exhausted: budget_state.exhausted,
                }),
            })
        };
        self.ledger.answer(client, now, seq, lease, &books)
    }
}

/// Takes the next client out of a set in rotation.
fn take_next(set: &mut BTreeSet<Incarnation>, cursor: &mut Incarnation) -> Option<Incarnation> {
    let after = (Bound::Excluded(*cursor), Bound::Unbounded);
    let next = set.range(after).next().or(set.first()).copied()?;
    set.remove(&next);
    *cursor = next;
    Some(next)
}
