//! The callers of a service: when they come, what they ask for, who waits.

use super::World;
use super::clock::{MS, SEC};
use super::event::Timer;
use super::service::Service;
use crate::draw::{Draw, Of};
use crate::mark::Mark;
use crate::oracle::{Admission, Flight, Right};
use crate::scenario::Shape;
use aliquot_core::bucket::Refusal;
use aliquot_core::client::{Decider, Denial, Mode};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{BudgetId, PeriodId, Tick, Tokens};

/// Who calls one service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callers {
    /// How many have come, for their draws.
    pub(super) count: u64,
    /// When the next one comes, in nanoseconds of true time, not quantised.
    next: f64,
    /// What `walk` has made of the rate so far, and when it steps again.
    pub(super) walked: (f64, u64),
    pub(super) steps: u64,
    /// The next event only looks at the load again.
    looks: bool,
    /// Who waits here for tokens.
    pub(crate) waiting: u64,
    retrying: bool,
    /// Permits in flight, with the true time of their release.
    pub(crate) flights: Vec<(u64, Flight)>,
    /// Who waits for a node's answer.
    pub(super) asked: u64,
}

impl Callers {
    /// One more comes: how many have by now.
    #[cfg(feature = "network")]
    pub(crate) const fn come(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Those of a new process: the load goes on, nobody waits.
    pub(crate) fn reborn(&self) -> Self {
        Self {
            count: self.count,
            walked: self.walked,
            steps: self.steps,
            ..Self::default()
        }
    }
}

/// How often a load that may change, or is nothing now, is looked at again.
const LOOK: f64 = 50.0 * MS as f64;

impl World {
    /// The first arrivals of a process.
    pub(super) fn begin_callers(&mut self, of: usize) {
        let service = &self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        let begin = self.now.max(group.start) as f64 + group.phase as f64;
        let flows = group.flows.unwrap_or(1);
        let number = self.hosts.clients.get(of).map_or(0, |&(_, number)| number);
        let (in_step, count) = (group.in_step, group.count);
        for flow in 0..flows {
            let rate = self.rate_of(of);
            let gap = if rate > 0.0 { SEC as f64 / rate } else { LOOK };
            let part = match in_step {
                true => number as f64 / count as f64 + flow as f64 / flows as f64,
                false => Draw::of(self.seed, Of::Arrival, of as u64, flow).unit(),
            };
            self.services[of].callers.next = begin + gap * part.fract();
            self.come_at(of, begin + gap * part.fract());
        }
    }

    fn come_at(&mut self, of: usize, at: f64) {
        let span = (at as u64).saturating_sub(self.now);
        self.set(self.hosts.nodes + of, span, Timer::Arrival);
    }

    fn rate_of(&mut self, of: usize) -> f64 {
        let (now, seed) = (self.now, self.seed);
        let service = &mut self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        service.callers.rate(group, now, seed, of as u64)
    }

    /// Somebody comes, or it is looked whether somebody may.
    pub(super) fn arrive(&mut self, of: usize) {
        let rate = self.rate_of(of);
        let group = self.services[of].group;
        let group = &self.plan.scenario.clients[group];
        let (stop, closed) = (group.stop, group.flows.is_some());
        if self.now >= stop.min(self.callers_until) || self.services[of].leaving {
            return;
        }
        if std::mem::take(&mut self.services[of].callers.looks) {
            self.come_again(of, rate.max(1e-3));
            return;
        }
        if rate <= 0.0 {
            let from = group.silent_until(self.now).unwrap_or(0) as f64;
            self.come_at(of, from.max(self.now as f64 + LOOK));
            return;
        }
        self.decide(of, closed);
        if !closed {
            self.come_again(of, rate);
        }
    }

    /// When the next one comes. A load that moves is looked at often enough.
    fn come_again(&mut self, of: usize, rate: f64) {
        let (seed, now) = (self.seed, self.now);
        let service = &mut self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        let callers = &mut service.callers;
        callers.count += 1;
        let mean = SEC as f64 / rate;
        let mut draw = Draw::of(seed, Of::Arrival, of as u64, callers.count);
        let gap = match group.shape {
            Shape::Pareto { alpha } => draw.pareto(mean, alpha),
            _ if group.in_step => mean,
            _ => draw.exponential(mean),
        };
        let at = if group.flows.is_some() {
            now as f64 + gap
        } else {
            callers.next = if group.in_step {
                callers.next.max(now as f64 - mean)
            } else {
                callers.next
            } + gap;
            callers.next = callers.next.max(now as f64);
            callers.next
        };
        let moves = !matches!(group.shape, Shape::Constant | Shape::Pareto { .. });
        // A long gap at a low rate must not sleep through a higher one. Chance has
        // no memory: to draw the rest of the gap again changes nothing.
        callers.looks = moves && !group.in_step && at > now as f64 + 4.0 * LOOK;
        if callers.looks {
            callers.next = now as f64 + 4.0 * LOOK;
        }
        let at = if callers.looks { callers.next } else { at };
        self.come_at(of, at);
    }

    /// One request, decided at its client. Who belongs to a closed loop waits if it must.
    fn decide(&mut self, of: usize, closed: bool) {
        self.course.offered(self.now, of, self.cost_of(of));
        if self.try_once(of) {
            self.served(of, closed);
        } else if self.services[of].callers.asked == 0 || !self.just_asked {
            self.not_served(of, closed);
        }
    }

    fn cost_of(&self, of: usize) -> u64 {
        self.plan.scenario.clients[self.services[of].group].cost
    }

    /// In a closed loop, who was served comes again after a while.
    pub(super) fn served(&mut self, of: usize, closed: bool) {
        if closed {
            let rate = self.rate_of(of);
            if rate > 0.0 {
                self.come_again(of, rate);
            } else {
                self.come_at(of, self.now as f64 + LOOK);
            }
        }
    }

    fn not_served(&mut self, of: usize, closed: bool) {
        let most = self.plan.scenario.clients[self.services[of].group].waiting;
        let callers = &mut self.services[of].callers;
        if closed || callers.waiting < most {
            callers.waiting += 1;
            self.marks.hit(Mark::CallerWaited);
            self.try_later(of, self.retry_after);
        } else {
            self.marks.hit_if(most > 0, Mark::QueueFull);
        }
    }

    /// Those who wait try again, one after the other, until one is refused.
    pub(super) fn retry(&mut self, of: usize) {
        self.services[of].callers.retrying = false;
        let closed = self.plan.scenario.clients[self.services[of].group]
            .flows
            .is_some();
        while self.services[of].callers.waiting > 0 {
            if !self.try_once(of) {
                if self.just_asked {
                    self.services[of].callers.waiting -= 1;
                }
                self.try_later(of, self.retry_after);
                return;
            }
            self.services[of].callers.waiting -= 1;
            self.marks.hit(Mark::WaiterServed);
            self.served(of, closed);
        }
    }

    pub(super) fn try_later(&mut self, of: usize, local: u64) {
        let service = &mut self.services[of];
        if service.callers.waiting > 0 && !service.callers.retrying {
            service.callers.retrying = true;
            let wait = service.clock.true_span(local).clamp(MS / 10, 250 * MS);
            self.set(self.hosts.nodes + of, wait, Timer::Retry);
        }
    }

    /// One decision. What a refusal says is kept: when to try again, and
    /// whether a node is asked instead.
    fn try_once(&mut self, of: usize) -> bool {
        self.events += 1;
        (self.just_asked, self.retry_after) = (false, 50 * MS);
        let cost = self.cost_of(of);
        let service = &mut self.services[of];
        let Some((budget, scale)) = service.budget.filter(|_| !service.leaving) else {
            self.marks.hit(Mark::RefusedUnnamed);
            self.refused(of, None, cost);
            return false;
        };
        let now = service.clock.read(self.now);
        let kind = self.claims[service.key].kind();
        if kind == Kind::Concurrency {
            return match service.client.try_permit_at(budget, now) {
                Ok(permit) => {
                    self.fly(of, Flight::Own(budget, permit));
                    true
                }
                Err(denial) => self.denied(of, budget, kind, denial, cost),
            };
        }
        let grains = Tokens::from_grains(scale.grains_per_token().saturating_mul(cost));
        match service.client.try_acquire_at(budget, grains, now) {
            Ok(period) => {
                let admission = admission(service, budget, grains, period, now);
                let admission = Admission {
                    client: Some(of),
                    ..admission
                };
                self.admitted(of, admission, cost);
                true
            }
            Err(denial) => self.denied(of, budget, kind, denial, cost),
        }
    }

    fn denied(
        &mut self,
        of: usize,
        budget: BudgetId,
        kind: Kind,
        denial: Denial,
        cost: u64,
    ) -> bool {
        self.marks.hit(mark_of(denial));
        let group = &self.plan.scenario.clients[self.services[of].group];
        let large = matches!(
            denial,
            Denial::NoShare | Denial::Bucket(Refusal::ExceedsBurst { .. })
        );
        if large && cost > 1 && (group.flows.is_some() || group.waiting > 0) {
            // Somebody waits for more than any part holds: so much is to be gathered.
            let service = &mut self.services[of];
            let now = service.clock.read(self.now);
            let grains = service
                .budget
                .map_or(1, |(_, scale)| scale.grains_per_token());
            let grains = Tokens::from_grains(grains.saturating_mul(cost));
            service.client.waits(budget, grains, now);
        }
        let waits = match denial {
            Denial::Bucket(Refusal::NotYet { retry_after }) => {
                self.retry_after = retry_after.nanos();
                true
            }
            Denial::Unknown | Denial::Lapsed => true,
            _ => false,
        };
        self.want(of);
        if waits || !self.ask_node(of, budget, kind, cost) {
            self.refused(of, Some(budget), cost);
        } else {
            self.just_asked = true;
        }
        false
    }
}

const fn mark_of(denial: Denial) -> Mark {
    match denial {
        Denial::Lapsed => Mark::RefusedLapsed,
        Denial::Bucket(Refusal::ExceedsBurst { .. }) => Mark::CostAbovePart,
        Denial::Bucket(_) => Mark::BucketEmpty,
        Denial::Escrow => Mark::EscrowSpent,
        Denial::Permits => Mark::PermitsAllOut,
        _ => Mark::RefusedWithoutShare,
    }
}

/// What `service` has just admitted, decided at its own clock reading `now`.
fn admission(
    service: &Service,
    budget: BudgetId,
    cost: Tokens,
    period: PeriodId,
    now: Tick,
) -> Admission {
    let found = service.client.allotments().find(|&(id, _)| id == budget);
    let mode = found.map(|(_, allotment)| *allotment.mode());
    let right = match mode {
        Some(Mode::Kept) => Right::Kept,
        Some(Mode::Local) => Right::Local,
        Some(Mode::Open) => Right::Open,
        _ => Right::Booked,
    };
    let share = match (right, found) {
        (Right::Booked, _) | (_, None) => Share::EMPTY,
        (_, Some((_, allotment))) => Decider::share_at(allotment.decider(), now),
    };
    // A floor of a former edge is not of this one: it goes on until this one gives.
    let holder = service.client.holder();
    let holds = holder.is_some_and(|holder| !holder.holding(budget).is_zero());
    Admission {
        client: None,
        budget,
        edge: service.client.edge().filter(|_| holds),
        cost,
        period,
        right,
        share,
    }
}
