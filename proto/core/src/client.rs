//! A service's side: a holder with allotments that decide.
//!
//! Every decision is made here, from what is held, without asking anybody. The
//! lease is checked at the decision's own clock reading; past it nothing
//! accrues, and the budget's policy takes over.
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

pub use allotment::{Allotment, Mode};
pub use decider::{Decider, Plain, Right};
pub use denial::Denial;
pub use permits::{Permit, Permits};

use crate::budget::Claim;
use crate::edge::Vector;
use crate::holder::{Holder, Output};
use crate::lease::LeaseState;
use crate::message::{Answer, Report};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Drift, Edge, PeriodId, Seq, Tick};
use alloc::collections::BTreeMap;

/// A client's machine: one process, whatever edges it goes through.
///
/// `D` is what decides. With [`Plain`] requests are decided through the machine
/// itself; another decider shares its state with callers, who then decide
/// without the machine, which alone changes what they may decide by.
#[derive(Clone, Debug, Hash)]
pub struct Client<D = Plain> {
    drift: Drift,
    holder: Option<Holder>,
    allotments: BTreeMap<BudgetId, Allotment<D>>,
    /// Something came back that the parent has not been told of.
    owes_report: bool,
}

impl<D: Decider> Client<D> {
    /// A client that has no session yet.
    #[must_use]
    pub const fn new(drift: Drift) -> Self {
        Self {
            drift,
            holder: None,
            allotments: BTreeMap::new(),
            owes_report: false,
        }
    }

    /// The cluster's bound on drift changed. Promises made before hold on, so it never shrinks.
    pub fn set_drift(&mut self, drift: Drift) {
        self.drift = self.drift.max(drift);
    }

    /// The edge it holds on, if it has one.
    #[must_use]
    pub fn edge(&self) -> Option<Edge> {
        self.holder.as_ref().map(Holder::edge)
    }

    /// The holder, to look at.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Its allotments, to look at.
    pub fn allotments(&self) -> impl Iterator<Item = (BudgetId, &Allotment<D>)> {
        self.allotments
            .iter()
            .map(|(&budget, allotment)| (budget, allotment))
    }

    /// What decides, to be told what is no part of the protocol.
    pub fn deciders_mut(&mut self) -> impl Iterator<Item = &mut D> {
        self.allotments.values_mut().map(Allotment::decider_mut)
    }

    /// Whether its lease holds at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Tick) -> bool {
        self.holder
            .as_ref()
            .is_some_and(|holder| holder.lease().holds(now))
    }

    /// Claims a budget that `decider`, which holds nothing, is to decide: from now on
    /// demand is observed and reported. A budget that is claimed already stays as it is.
    pub fn claim_with(&mut self, budget: BudgetId, claim: Claim, decider: D, now: Tick) {
        if !self.allotments.contains_key(&budget) {
            let mut allotment = Allotment::new(claim, decider, self.drift, now);
            // The parent says its terms once on an edge, whoever claimed the budget then.
            if let Some(holder) = &self.holder
                && let Some(terms) = holder.terms(budget)
            {
                let period = period_of(holder, budget);
                let _ = allotment.take(Vector::ZERO, terms, period, self.drift, now);
            }
            if self.may_use(now) {
                allotment.renewed(now);
            }
            self.allotments.insert(budget, allotment);
            self.owes_report = true;
        }
    }

    /// Claims a budget no longer: all that it holds goes back, and its decider,
    /// which then holds nothing, to the caller. `None` if it was not claimed. What is given of
    /// it later goes back as it comes. No permit may be in flight: nobody would return it.
    pub fn retire(&mut self, budget: BudgetId, now: Tick) -> Option<D> {
        let mut allotment = self.allotments.remove(&budget)?;
        if let Some(holder) = &mut self.holder {
            let until = holder.lease().until().min(now);
            let back = allotment.lapse(until, now, true);
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

    /// Goes on under another edge, at zero. What is held on the old one ends
    /// here, except what its policy lets go on.
    pub fn open(&mut self, edge: Edge, now: Tick) {
        if self.edge() == Some(edge) {
            return;
        }
        if !planted::is(Bug::BothPartsUsed) {
            self.drop_edge(now);
        }
        self.holder = Some(Holder::new(edge));
    }

    /// This process is a copy of another: it holds nothing, and what the
    /// original holds it neither uses nor gives up.
    pub fn forked(&mut self) {
        if planted::is(Bug::ForkKeepsEdge) {
            return;
        }
        let now = Tick::from_nanos(0);
        let allotments = core::mem::take(&mut self.allotments);
        *self = Self::new(self.drift);
        for (budget, mut allotment) in allotments {
            let claim = allotment.claim();
            allotment.reset(now);
            self.claim_with(budget, claim, allotment.into_decider(), now);
        }
    }

    /// Leaves: everything goes back with the next report, and nothing is admitted any more.
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

    /// Lets time pass.
    pub fn tick(&mut self, now: Tick) {
        let lapsed = self.holder.as_mut().and_then(|holder| holder.tick(now));
        if lapsed.is_some() {
            self.give_everything_back(now, false);
        }
    }

    /// The machine's clocks disagree about how much time passed.
    pub fn clock_jumped(&mut self, now: Tick) {
        let lapsed = self.holder.as_mut().and_then(Holder::clock_jumped);
        if lapsed.is_some() {
            self.give_everything_back(now, false);
        }
    }

    /// Takes an answer.
    pub fn handle_answer(&mut self, answer: &Answer, now: Tick) {
        // What a lapse returns counts on the period and the gifts it was held under.
        if !planted::is(Bug::AnswerBeforeLapse) {
            self.tick(now);
        }
        let Some(holder) = &mut self.holder else {
            return;
        };
        for output in holder.handle_answer(now, answer) {
            self.carry_out(&output, now);
        }
        if self.may_use(now) {
            for allotment in self.allotments.values_mut() {
                allotment.renewed(now);
            }
        }
    }

    /// Whether the lease lets what is held be used at `now`.
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
                    // It was given before the parent heard that nobody claims it any more: as it
                    // came it goes back, for nobody decides on it.
                    self.owes_report |= !gift.is_zero();
                    give_back(holder, *budget, *gift);
                    return;
                };
                let period = period_of(holder, *budget);
                if let Some(release) = allotment.take(*gift, terms, period, drift, now) {
                    holder.release_floor(release);
                }
                let back = allotment.yield_up(*owed, now);
                self.owes_report |= !owed.is_zero();
                give_back(holder, *budget, back);
            }
        }
    }

    /// Stops using what the lease allowed, per policy, and returns what is provably unused.
    fn give_everything_back(&mut self, now: Tick, leaving: bool) {
        let Some(holder) = &mut self.holder else {
            return;
        };
        self.owes_report = true;
        let until = holder.lease().until().min(now);
        for (&budget, allotment) in &mut self.allotments {
            let back = allotment.lapse(until, now, leaving);
            give_back(holder, budget, back);
        }
    }

    /// The edge is gone: nothing can be returned on it any more.
    fn drop_edge(&mut self, now: Tick) {
        let Some(holder) = self.holder.take() else {
            return;
        };
        let until = holder.lease().until().min(now);
        for (&budget, allotment) in &mut self.allotments {
            allotment.orphan(budget, holder.edge(), until, now);
        }
    }

    /// Whether the parent should have a report now rather than when the next one
    /// is due: nothing was said on this edge yet, something came back, or demand
    /// rose that nothing here serves. Looks at every budget.
    pub fn is_urgent(&mut self, now: Tick) -> bool {
        let Some(holder) = &self.holder else {
            return false;
        };
        if holder.lease().state() == LeaseState::Closed {
            return false;
        }
        let unheard = holder.lease().last_sent() == Seq::new(0);
        let rising = |allotment: &mut Allotment<D>| allotment.is_urgent(now);
        unheard || self.owes_report || holder.has_more() || self.allotments.values_mut().any(rising)
    }

    /// Whether the last report said that anything is wanted.
    #[must_use]
    pub fn wants_any(&self) -> bool {
        self.allotments.values().any(Allotment::wants_any)
    }

    /// Makes the next report. `None` without an open edge.
    pub fn report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        self.tick(now);
        let usable = self.may_use(now);
        let holder = self.holder.as_mut()?;
        let mut wants = BTreeMap::new();
        for (&budget, allotment) in &mut self.allotments {
            allotment.cancel_overheld(now);
            let spent = Vector {
                spent: allotment.take_unreported(now),
                ..Vector::ZERO
            };
            give_back(holder, budget, spent);
            let owed = match usable {
                true => holder.owed(budget),
                false if allotment.has_permits() => {
                    allotment.idle_after_lapse(holder.holding(budget))
                }
                false => Vector::ZERO,
            };
            let back = allotment.yield_up(owed, now);
            give_back(holder, budget, back);
            wants.insert(budget, allotment.wants(now));
        }
        self.owes_report = false;
        holder.report(now, wall_ms, wants)
    }
}

fn period_of(holder: &Holder, budget: BudgetId) -> PeriodId {
    let counters = holder.counters_of(budget);
    counters.map_or(PeriodId::new(0), |of| of.period)
}

fn give_back(holder: &mut Holder, budget: BudgetId, back: Vector) {
    if !back.is_zero() {
        let accepted = holder.give_back(budget, back);
        debug_assert!(
            accepted.is_ok() || planted::any(),
            "an allotment gave back what its edge never had: {back}"
        );
    }
}
