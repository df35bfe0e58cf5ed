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
mod denial;
mod permits;

pub use allotment::{Allotment, Mode};
pub use denial::Denial;
pub use permits::{Permit, Permits};

use crate::budget::Claim;
use crate::demand::{DemandCurve, Observed};
use crate::edge::Vector;
use crate::holder::{Holder, Output, Wants};
use crate::message::{Answer, BandDemand, Report};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Drift, Edge, PeriodId, Tick, Tokens};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A client's machine: one process, whatever edges it goes through.
#[derive(Clone, Debug)]
pub struct Client {
    drift: Drift,
    holder: Option<Holder>,
    allotments: BTreeMap<BudgetId, Allotment>,
}

impl Client {
    /// A client that has no session yet.
    #[must_use]
    pub const fn new(drift: Drift) -> Self {
        Self {
            drift,
            holder: None,
            allotments: BTreeMap::new(),
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
    pub fn allotments(&self) -> impl Iterator<Item = (BudgetId, &Allotment)> {
        self.allotments
            .iter()
            .map(|(&budget, allotment)| (budget, allotment))
    }

    /// Whether its lease holds at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Tick) -> bool {
        self.holder
            .as_ref()
            .is_some_and(|holder| holder.lease().holds(now))
    }

    /// Claims a budget: from now on demand is observed and reported.
    pub fn claim(&mut self, budget: BudgetId, claim: Claim, now: Tick) {
        self.allotments
            .entry(budget)
            .or_insert_with(|| Allotment::new(claim, now));
    }

    /// Goes on under another edge, at zero. What is held on the old one ends
    /// here, except what its policy lets go on.
    pub fn open(&mut self, edge: Edge, now: Tick) {
        if self.edge() == Some(edge) {
            return;
        }
        self.drop_edge(now);
        self.holder = Some(Holder::new(edge));
    }

    /// This process is a copy of another: it holds nothing, and what the
    /// original holds it neither uses nor gives up.
    pub fn forked(&mut self) {
        if planted::is(Bug::ForkKeepsEdge) {
            return;
        }
        let claims: Vec<_> = self
            .allotments
            .iter()
            .map(|(&budget, allotment)| (budget, allotment.claim()))
            .collect();
        let now = Tick::from_nanos(0);
        *self = Self::new(self.drift);
        for (budget, claim) in claims {
            self.claim(budget, claim, now);
        }
    }

    /// Leaves: everything goes back with the next report, and nothing is admitted any more.
    pub fn leave(&mut self, now: Tick) {
        if let Some(holder) = &mut self.holder {
            holder.leave();
        }
        self.give_everything_back(now, true);
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
    }

    fn carry_out(&mut self, output: &Output, now: Tick) {
        match output {
            Output::Lapsed => self.give_everything_back(now, false),
            Output::Closed => self.drop_edge(now),
            Output::Void { budget, period } => {
                if let Some(allotment) = self.allotments.get_mut(budget) {
                    allotment.begin(*period);
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
                let allotment = self
                    .allotments
                    .entry(*budget)
                    .or_insert_with(|| Allotment::new(Claim::default(), now));
                let period = period_of(holder, *budget);
                if let Some(release) = allotment.take(*gift, terms, period, now) {
                    holder.release_floor(release);
                }
                let back = allotment.yield_up(*owed, now);
                give_back(holder, *budget, back);
            }
        }
    }

    /// Stops using what the lease allowed, per policy, and returns what is provably unused.
    fn give_everything_back(&mut self, now: Tick, leaving: bool) {
        let Some(holder) = &mut self.holder else {
            return;
        };
        let until = holder.lease().until().min(now);
        for (&budget, allotment) in &mut self.allotments {
            let back = allotment.lapse(until, now, leaving, self.drift);
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
            allotment.orphan(budget, holder.edge(), until, now, self.drift);
        }
    }

    /// Decides on `n` tokens of a rate or a quota at `now`, and counts the demand.
    /// The period that an admission of a quota is stamped with comes along.
    ///
    /// # Errors
    ///
    /// [`Denial`]; nothing was taken.
    pub fn try_acquire_at(
        &mut self,
        budget: BudgetId,
        n: Tokens,
        now: Tick,
    ) -> Result<PeriodId, Denial> {
        let leased = self.look_at_lease(now);
        let allotment = self.allotments.get_mut(&budget).ok_or(Denial::Unknown)?;
        let decision = allotment.try_acquire_at(n, now, leased);
        allotment.observe(
            Observed {
                admitted: if decision.is_ok() { n.grains() } else { 0 },
                denied: if decision.is_ok() { 0 } else { n.grains() },
                ..Observed::default()
            },
            now,
        );
        decision
    }

    /// Whether the lease holds at the decision's own clock reading.
    fn look_at_lease(&mut self, now: Tick) -> bool {
        if planted::is(Bug::LeaseUnchecked) {
            return self.holder.is_some();
        }
        self.tick(now);
        self.is_leased(now) && !self.holder.as_ref().is_some_and(Holder::is_leaving)
    }

    /// Somebody waits for `n` tokens: says so with the next report.
    pub fn waits(&mut self, budget: BudgetId, n: Tokens, now: Tick) {
        if let Some(allotment) = self.allotments.get_mut(&budget) {
            let waiting = n.grains();
            allotment.observe(
                Observed {
                    waiting,
                    waiting_largest: waiting,
                    ..Observed::default()
                },
                now,
            );
        }
    }

    /// Takes a permit.
    ///
    /// # Errors
    ///
    /// [`Denial`]; nothing was taken.
    pub fn try_permit_at(&mut self, budget: BudgetId, now: Tick) -> Result<Permit, Denial> {
        let leased = self.look_at_lease(now);
        let drift = self.drift;
        let allotment = self.allotments.get_mut(&budget).ok_or(Denial::Unknown)?;
        let decision = allotment.try_permit_at(now, leased, drift);
        let one = |taken: bool| u64::from(taken);
        allotment.observe(
            Observed {
                admitted: one(decision.is_ok()),
                denied: one(decision.is_err()),
                ..Observed::default()
            },
            now,
        );
        decision
    }

    /// A permit is over. What its parent wants back goes back.
    pub fn release_permit(&mut self, budget: BudgetId, permit: Permit, now: Tick) {
        let leased = self.is_leased(now);
        let (Some(allotment), holder) = (self.allotments.get_mut(&budget), &mut self.holder) else {
            return;
        };
        allotment.release_permit(permit);
        let Some(holder) = holder else { return };
        let owed = if leased {
            holder.owed(budget)
        } else {
            allotment.idle_after_lapse(holder.holding(budget))
        };
        let back = allotment.yield_up(owed, now);
        give_back(holder, budget, back);
    }

    /// Makes the next report. `None` without an open edge.
    pub fn report(&mut self, now: Tick, wall_ms: i64) -> Option<Report> {
        self.tick(now);
        let leased = self.is_leased(now);
        let holder = self.holder.as_mut()?;
        let mut wants = BTreeMap::new();
        for (&budget, allotment) in &mut self.allotments {
            allotment.cancel_overheld(now);
            let spent = Vector {
                spent: allotment.take_unreported(),
                ..Vector::ZERO
            };
            give_back(holder, budget, spent);
            let owed = if leased {
                holder.owed(budget)
            } else {
                Vector::ZERO
            };
            let back = allotment.yield_up(owed, now);
            give_back(holder, budget, back);
            wants.insert(budget, wants_of(allotment, now));
        }
        holder.report(now, wall_ms, wants)
    }
}

fn period_of(holder: &Holder, budget: BudgetId) -> PeriodId {
    let found = holder.counters().find(|&(id, _)| id == budget);
    found.map_or(PeriodId::new(0), |(_, counters)| counters.period)
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

fn wants_of(allotment: &mut Allotment, now: Tick) -> Wants {
    let claim = allotment.claim();
    let demand = allotment.demand_at(now);
    let terms = allotment.terms();
    let floor = match terms {
        Some(terms) if terms.on_lease_expiry == crate::budget::OnLeaseExpiry::Floor => terms.floor,
        _ => Share::EMPTY,
    };
    let most = terms.and_then(|terms| {
        let ceiling = terms.ceiling?;
        Some(match terms.kind {
            Kind::Rate => ceiling.rate.grains(),
            Kind::Quota => ceiling.tokens.grains(),
            Kind::Concurrency => ceiling.burst.grains(),
        })
    });
    let demand = most.map_or(demand, |most| demand.min(most));
    Wants {
        demand: [BandDemand {
            band: claim.band,
            curve: DemandCurve::of(demand, claim.weight),
        }]
        .into(),
        floor,
        largest_wait: allotment.largest_wait_at(now),
    }
}
