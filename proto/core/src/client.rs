//! The client's side: one process of a service, which decides requests from the parts that it holds.
//!
//! Every decision is made here, from what is held, without a request to another process. The lease is checked
//! against the decision's own clock reading. Past its end nothing accrues, and the budget's policy takes
//! over.
//!
//! ```text
//!            first grant                     lease over
//!   no edge ────────────► leased ──────────────────────────────► policy
//!      ▲                     ▲    renewed (same edge)               │
//!      │                     └──────────────────────────────────────┤
//!      └───────────────── closed: another edge, at zero ◄───────────┘
//! ```

mod allotment;
mod decide;
mod decider;
mod denial;
mod permits;
mod report_queue;

pub use allotment::{Allotment, Mode};
use allotment::{LeaseEnd, give_back};
pub use decider::{Decider, Plain, Right};
pub use denial::Denial;
pub use permits::{Permit, Permits};

use crate::budget::Claim;
use crate::edge::Vector;
use crate::few::FewMap;
use crate::holder::{Holder, Output};
use crate::lease::{ChildLease, LeaseState};
use crate::message::{Answer, Report};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Drift, Edge, PeriodId, Seq, Span, Tick};
use alloc::vec::Vec;
use report_queue::{Look, Naming, ReportQueue};

/// State machine of one client process, across all edges that it uses.
///
/// `D` decides requests. With [`Plain`], requests are decided through the machine itself. Another decider
/// shares its state with callers, which then decide without the machine. Only the machine changes the right
/// by which they decide.
#[derive(Clone, Debug, Hash)]
pub struct Client<D = Plain> {
    drift: Drift,
    /// Begin of the process, if nodes are told its age.
    began: Option<Tick>,
    holder: Option<Holder>,
    allotments: FewMap<BudgetId, Allotment<D>>,
    /// Set if something was returned that the parent has not been told of.
    owes_report: bool,
    /// Set if some allotment does not use the lease, although it may as soon as the lease holds.
    unrenewed: bool,
    queue: ReportQueue,
    /// Number of budgets for which the last report had demand.
    wanting: usize,
}

impl<D: Decider> Client<D> {
    /// Number of budgets that a report names for the first time even if lines that change all the time fill it, so
    /// that none waits for good.
    const FRESH_LEAST: usize = 16;

    /// Returns a client without a session.
    #[must_use]
    pub fn new(drift: Drift) -> Self {
        Self {
            drift,
            began: None,
            holder: None,
            allotments: FewMap::new(),
            owes_report: false,
            unrenewed: false,
            queue: ReportQueue::default(),
            wanting: 0,
        }
    }

    /// Raises the bound on clock drift to the cluster's new setting. Leases given before stay valid, so the
    /// bound never shrinks.
    pub fn set_drift(&mut self, drift: Drift) {
        self.drift = self.drift.max(drift);
    }

    /// Returns the edge to the client's node, if there is one.
    #[must_use]
    pub fn edge(&self) -> Option<Edge> {
        self.holder.as_ref().map(Holder::edge)
    }

    /// Returns the holder.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Returns the allotments.
    pub fn allotments(&self) -> impl Iterator<Item = (BudgetId, &Allotment<D>)> {
        self.allotments
            .iter()
            .map(|(&budget, allotment)| (budget, allotment))
    }

    /// Returns the allotment of a budget, if it is claimed.
    #[must_use]
    pub fn allotment(&self, budget: BudgetId) -> Option<&Allotment<D>> {
        self.allotments.get(&budget)
    }

    /// Returns the deciders, for settings that are not part of the protocol.
    pub fn deciders_mut(&mut self) -> impl Iterator<Item = &mut D> {
        let all = self.allotments.values_mut();
        all.map(|allotment| allotment.decider_mut())
    }

    /// Returns true if the lease holds at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Tick) -> bool {
        self.holder
            .as_ref()
            .is_some_and(|holder| holder.lease().holds(now))
    }

    /// Claims a budget, to be decided by `decider`, which must hold nothing. From now on demand is observed
    /// and reported. A budget that is claimed already is left unchanged.
    pub fn claim_with(&mut self, budget: BudgetId, claim: Claim, decider: D, now: Tick) {
        if !self.allotments.contains_key(&budget) {
            let mut allotment = Allotment::new(claim, decider, self.drift, now);
            // The parent sends its terms once on an edge, even if the budget was retired since.
            if let Some(holder) = &self.holder
                && let Some(terms) = holder.terms(budget)
            {
                let period = period_of(holder, budget);
                let _ = allotment.take(Vector::ZERO, terms, period, self.drift, now);
                let end = holder.period_end(budget);
                allotment.decider_mut().period_ends(end);
            }
            self.unrenewed |= !self.may_use(now) || !allotment.renewed(true, now);
            if self.holder.as_ref().is_some_and(|of| of.knows(budget)) {
                allotment.naming = Naming::Named;
                self.owes_report = true;
            }
            self.queue.touch(budget, &mut allotment.naming);
            self.allotments.insert(budget, allotment);
        }
    }

    /// Ends the claim on a budget. Returns its decider, which then holds nothing, or `None` if the budget was
    /// not claimed.
    ///
    /// Everything held of the budget is given back. Later grants of it are returned as they arrive. No permit
    /// may be in flight, since it could not be returned any more.
    pub fn retire(&mut self, budget: BudgetId, now: Tick) -> Option<D> {
        let mut allotment = self.allotments.remove(&budget)?;
        self.queue.forget(budget, allotment.naming, allotment.due);
        let wanted = usize::from(allotment.wants_any());
        self.wanting = self.wanting.saturating_sub(wanted);
        if let Some(holder) = &mut self.holder {
            let back = allotment.lapse(lease_end(holder, now), now, true);
            self.owes_report = true;
            give_back(holder, budget, back);
            holder.retire(budget);
            if let Some(release) = allotment.drop_remnant(now) {
                holder.release_floor(release);
            }
        }
        allotment.reset(now);
        Some(allotment.into_decider())
    }

    /// Marks a budget whose decider was used without the machine. Call it before [`Client::is_urgent`] and
    /// [`Client::report`]: they examine only marked budgets, and those whose demand may have fallen.
    pub fn touch(&mut self, budget: BudgetId) {
        if let Some(allotment) = self.allotments.get_mut(&budget) {
            self.queue.touch(budget, &mut allotment.naming);
        }
    }

    fn touch_all(&mut self) {
        for (&budget, allotment) in self.allotments.iter_mut() {
            self.queue.touch(budget, &mut allotment.naming);
        }
    }

    /// Makes all budgets fresh, because no report of the next edge has named any: first those that are wanted.
    fn begin_edge(&mut self) {
        let queue = &mut self.queue;
        let (mut wanted, mut others) = (Vec::new(), Vec::new());
        for (&budget, allotment) in self.allotments.iter_mut() {
            if allotment.naming == Naming::Named {
                allotment.naming = Naming::Unnamed;
            }
            match allotment.asks_for_anything() || queue.is_active(budget) {
                true => wanted.push((budget, allotment)),
                false => others.push((budget, allotment)),
            }
        }
        queue.begin_edge();
        for (budget, allotment) in wanted.into_iter().chain(others) {
            queue.touch(budget, &mut allotment.naming);
        }
    }

    /// Returns the number of entries that the machine keeps. Keys that came and went leave none.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.allotments.len().saturating_add(self.queue.len())
    }

    /// Continues under another edge and with nothing held. Parts held on the old edge end here, except what
    /// the budget's policy lets continue.
    pub fn open(&mut self, edge: Edge, now: Tick) {
        if self.edge() == Some(edge) {
            return;
        }
        if !planted::is(Bug::BothPartsUsed) {
            self.drop_edge(now);
        }
        let mut holder = Holder::new(edge);
        if let Some(began) = self.began {
            holder.tell_age(began);
        }
        self.holder = Some(holder);
        self.begin_edge();
    }

    /// Notes the begin of the process, whose age each node is told when a session is opened.
    pub const fn begin_process(&mut self, now: Tick) {
        self.began = Some(now);
    }

    /// Returns the age of the process that a node is to be told.
    #[must_use]
    pub fn age(&self, now: Tick) -> Option<Span> {
        self.began.map(|began| now.since(began))
    }

    /// Resets the client in a process that was forked. The copy holds nothing. It neither uses nor returns
    /// what the original holds.
    pub fn forked(&mut self) {
        if planted::is(Bug::ForkKeepsEdge) {
            return;
        }
        let now = Tick::ZERO;
        let allotments = core::mem::take(&mut self.allotments);
        *self = Self::new(self.drift);
        for (budget, mut allotment) in allotments.into_entries() {
            let claim = allotment.claim();
            allotment.reset(now);
            self.claim_with(budget, claim, allotment.into_decider(), now);
        }
    }

    /// Leaves: the next report returns everything, and nothing is admitted any more. A grant that arrives later is
    /// returned by another report: see [`Client::owes_report`].
    pub fn leave(&mut self, now: Tick) {
        if let Some(holder) = &mut self.holder {
            holder.leave();
        }
        self.give_everything_back(now, true);
        for allotment in self.allotments.values_mut() {
            if let (Some(release), Some(holder)) = (allotment.drop_remnant(now), &mut self.holder) {
                holder.release_floor(release);
            }
        }
    }

    /// Advances time to `now`.
    pub fn tick(&mut self, now: Tick) {
        let lapsed = self.holder.as_mut().and_then(|holder| holder.tick(now));
        if lapsed.is_some() {
            self.give_everything_back(now, false);
        }
    }

    /// Ends the lease and all floors, because the machine's clocks disagree about how much time passed.
    pub fn clock_jumped(&mut self, now: Tick) {
        let holder = self.holder.as_mut();
        let lapsed = holder.and_then(|holder| holder.clock_jumped(now));
        if lapsed.is_some() {
            self.give_everything_back(now, false);
        }
        for allotment in self.allotments.values_mut() {
            allotment.end_floor(now);
        }
    }

    /// Takes an answer of the node.
    pub fn handle_answer(&mut self, answer: &Answer, now: Tick) {
        // Before the answer: a lapse returns parts by the period and the grants under which they were held.
        if !planted::is(Bug::AnswerBeforeLapse) {
            self.tick(now);
        }
        let Some(holder) = &mut self.holder else {
            return;
        };
        for output in holder.handle_answer(now, answer) {
            self.carry_out(&output, now);
        }
        if self.unrenewed && self.may_use(now) {
            let lease = self.holder.as_ref().map(Holder::lease);
            let confirmed = lease.is_some_and(ChildLease::is_confirmed_anew);
            self.unrenewed = false;
            for allotment in self.allotments.values_mut() {
                self.unrenewed |= !allotment.renewed(confirmed, now);
            }
        }
    }

    /// Returns true if the lease allows to use at `now` what is held.
    fn may_use(&self, now: Tick) -> bool {
        self.is_leased(now) && !self.holder.as_ref().is_some_and(Holder::is_leaving)
    }

    fn carry_out(&mut self, output: &Output, now: Tick) {
        match output {
            Output::Lapsed => self.give_everything_back(now, false),
            Output::Closed => self.drop_edge(now),
            Output::Void { budget, period } => {
                if let Some(allotment) = self.allotments.get_mut(budget) {
                    allotment.begin(*period, now);
                    self.queue.touch_named(*budget, &mut allotment.naming);
                }
            }
            Output::Ends { budget, end } => {
                if let Some(allotment) = self.allotments.get_mut(budget) {
                    allotment.decider_mut().period_ends(Some(*end));
                }
            }
            Output::Adjust {
                budget,
                terms,
                gift,
                owed,
            } => {
                let Some(holder) = &mut self.holder else {
                    return;
                };
                let drift = self.drift;
                let Some(allotment) = self.allotments.get_mut(budget) else {
                    // It was granted before the parent learned that the claim had ended. It goes back as it
                    // came, since nothing decides on it.
                    self.owes_report |= !gift.is_zero();
                    give_back(holder, *budget, *gift);
                    return;
                };
                self.queue.touch_named(*budget, &mut allotment.naming);
                let period = period_of(holder, *budget);
                if let Some(release) = allotment.take(*gift, terms, period, drift, now) {
                    holder.release_floor(release);
                }
                let back = allotment.yield_up(*owed, now);
                self.owes_report |= !owed.is_zero();
                give_back(holder, *budget, back);
                if holder.is_leaving() && !gift.is_zero() && !planted::is(Bug::LateGrantKept) {
                    // It was on its way when everything was handed back.
                    let back = allotment.lapse(lease_end(holder, now), now, true);
                    give_back(holder, *budget, back);
                    self.owes_report = true;
                }
            }
        }
    }

    /// Stops using what the lease allowed, as the policy says, and returns what is provably unused.
    fn give_everything_back(&mut self, now: Tick, leaving: bool) {
        let Some(holder) = &mut self.holder else {
            return;
        };
        (self.owes_report, self.unrenewed) = (true, true);
        let end = lease_end(holder, now);
        for (&budget, allotment) in self.allotments.iter_mut() {
            let back = allotment.lapse(end, now, leaving);
            give_back(holder, budget, back);
        }
        self.touch_all();
    }

    /// Drops the edge, which is closed: nothing can be returned on it any more.
    fn drop_edge(&mut self, now: Tick) {
        let Some(holder) = self.holder.take() else {
            return;
        };
        self.unrenewed = true;
        let end = lease_end(&holder, now);
        for (&budget, allotment) in self.allotments.iter_mut() {
            allotment.orphan(budget, holder.edge(), end, now);
        }
        self.begin_edge();
    }

    /// Returns true if a report should be sent now instead of at the usual interval: none was sent on this
    /// edge yet, something was returned, there is room for budgets that no report has named, or demand rose that
    /// nothing held here serves.
    ///
    /// Examines the marked budgets, and from time to time all active ones and those that are due.
    pub fn is_urgent(&mut self, now: Tick) -> bool {
        let Some(holder) = &self.holder else {
            return false;
        };
        if holder.lease().state() == LeaseState::Closed {
            return false;
        }
        let unheard = holder.lease().last_sent() == Seq::new(0);
        let names_more = self.queue.has_fresh() && holder.room() > 0;
        if unheard || names_more || self.owes_report() {
            // The report examines all of it.
            return true;
        }
        if self.queue.sweeps(now) {
            self.wake_due(now);
        }
        let usable = self.may_use(now);
        for Look { budget, since } in self.queue.take_some(now) {
            let Some(allotment) = self.allotments.get_mut(&budget) else {
                continue;
            };
            if let Some(holder) = self.holder.as_mut().filter(|_| usable) {
                self.owes_report |= allotment.return_permits(budget, holder, now);
            }
            let reported = self
                .holder
                .as_ref()
                .map_or(&[][..], |of| of.demand_of(budget));
            if allotment.is_urgent(reported, since, now) {
                self.queue.mark_urgent(budget);
            }
        }
        self.owes_report || self.is_any_urgent(now)
    }

    /// Returns true if something was returned, or is to be said, that the last report did not have.
    #[must_use]
    pub fn owes_report(&self) -> bool {
        let more = self.holder.as_ref().is_some_and(Holder::has_more);
        more || self.owes_report
    }

    /// Returns true if a budget that was found urgent still is.
    fn is_any_urgent(&mut self, now: Tick) -> bool {
        let since = self.queue.looked();
        while let Some(budget) = self.queue.first_urgent() {
            let reported = self
                .holder
                .as_ref()
                .map_or(&[][..], |of| of.demand_of(budget));
            let allotment = self.allotments.get_mut(&budget);
            if allotment.is_some_and(|of| of.is_urgent(reported, since, now)) {
                return true;
            }
            self.queue.calm(budget);
        }
        false
    }

    /// Returns true if the last report had any demand.
    #[must_use]
    pub const fn wants_any(&self) -> bool {
        self.wanting > 0
    }

    /// Sets the maximum number of lines of the next reports on the present edge. What is left out follows in later
    /// ones, the most urgent lines first. Returns that another holder waits for are never left out.
    pub fn limit_report(&mut self, lines_max: usize) {
        if let Some(holder) = &mut self.holder {
            holder.limit_report(lines_max);
        }
    }

    /// Has the next look examine the budgets whose time has come.
    fn wake_due(&mut self, now: Tick) {
        while let Some(budget) = self.queue.take_due(now) {
            if let Some(allotment) = self.allotments.get_mut(&budget) {
                allotment.due = None;
                self.queue.wake(budget, allotment.naming);
            }
        }
    }

    /// Returns the time after `now` at which the next report is due, if reports usually come every `usual` and the
    /// next one is to come after `pause`. It comes earlier as the end of a lease draws near: a short lease must be
    /// renewed more often, and a report that was lost be repeated in time.
    #[must_use]
    pub fn report_within(&self, usual: Span, pause: Span, now: Tick) -> Span {
        const LEAST: Span = Span::from_millis(20);
        let lease = self.holder.as_ref().map(Holder::lease);
        let until = lease
            .filter(|lease| lease.holds(now))
            .map(ChildLease::until);
        let Some(rest) = until.map(|until| until.since(now)) else {
            return pause;
        };
        if rest >= usual.times_or_max(3) {
            return pause;
        }
        pause.min(Span::from_nanos(rest.nanos() / 3).max(LEAST))
    }

    /// Makes the next report. Returns `None` without an open edge.
    ///
    /// Its cost is proportional to the number of budgets that were used or changed since the last report, and to the
    /// number of those that it names for the first time. Others are examined when their demand may have fallen by much.
    pub fn report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        self.tick(now);
        let usable = self.may_use(now);
        self.holder.as_ref()?;
        self.wake_due(now);
        let holder = self.holder.as_mut()?;
        let mut room = holder.room().max(Self::FRESH_LEAST);
        let mut looks = self.queue.take_all(now).into_iter();
        let (mut wants, mut active) = (Vec::with_capacity(looks.len()), Vec::new());
        loop {
            let fresh = |queue: &mut ReportQueue| (room > 0).then(|| queue.take_fresh()).flatten();
            let Some(Look { budget, since }) = looks.next().or_else(|| fresh(&mut self.queue))
            else {
                break;
            };
            let Some(allotment) = self.allotments.get_mut(&budget) else {
                continue;
            };
            let before = usize::from(allotment.wants_any());
            let owes = allotment.settle(budget, holder, usable, now);
            wants.push((budget, allotment.wants(since, now)));
            if allotment.naming != Naming::Named {
                room = room.saturating_sub(1);
                self.queue.name(&mut allotment.naming);
            }
            let after = usize::from(allotment.wants_any());
            self.wanting = self.wanting.saturating_sub(before).saturating_add(after);
            if owes || allotment.is_busy(now) {
                active.push(budget);
            } else {
                let then = allotment.next_look(now);
                allotment.due = self.queue.put_off(budget, allotment.due, then);
            }
        }
        self.queue.keep(active.into_iter().collect());
        self.owes_report = false;
        holder.report(now, wall_ms, wants.into_iter().collect())
    }
}

fn lease_end(holder: &Holder, now: Tick) -> LeaseEnd {
    let lease = holder.lease();
    LeaseEnd {
        until: lease.until().min(now),
        confirmed: lease.is_confirmed_anew(),
    }
}

fn period_of(holder: &Holder, budget: BudgetId) -> PeriodId {
    let counters = holder.counters_of(budget);
    counters.map_or(PeriodId::new(0), |of| of.period)
}
