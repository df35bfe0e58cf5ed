//! The callers of a service: their arrivals, their requests, and the queue of those that wait.

use super::World;
use super::event::Timer;
use super::host::Service;
use crate::clock::{MS, SEC};
use crate::draw::{Draw, Of};
use crate::mark::Mark;
use crate::oracle::{Admission, Flight, Right};
use crate::scenario::{Shape, Verb};
use aliquot_core::bucket::Refusal;
use aliquot_core::central::SMALL_BURST;
use aliquot_core::client::{Client, Decider, Denial, Mode};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{BudgetId, PeriodId, Span, Tick, Tokens};

/// A decision of a client on tokens of a budget.
type Decide = fn(&mut Client, BudgetId, Tokens, Tick) -> Result<PeriodId, Denial>;

/// Interval at which a load is evaluated again if it varies or is zero at present.
const LOOK: f64 = 50.0 * MS as f64;

impl World {
    /// Schedules the first arrivals of a process.
    pub(super) fn begin_callers(&mut self, of: usize) {
        let service = &self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        let begin = self.now.max(group.start) as f64 + group.phase as f64;
        let flows = group.flows.unwrap_or(1);
        let number = self.hosts.clients.get(of).map_or(0, |&(_, number)| number);
        let (in_step, count) = (group.in_step, group.count);
        if let Shape::Arrivals(times) = &group.shape {
            // A new process takes none of the requests that came while there was no process.
            let past = times.partition_point(|at| *at < self.now);
            let own = past.saturating_sub(number).div_ceil(count);
            let callers = &mut self.services[of].callers;
            callers.count = callers.count.max(own as u64);
            return self.come_as_recorded(of);
        }
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

    /// Schedules the next recorded request of a client.
    fn come_as_recorded(&mut self, of: usize) {
        let number = self.hosts.clients.get(of).map_or(0, |&(_, number)| number);
        let service = &self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        if let Shape::Arrivals(times) = &group.shape
            && let Some(at) = times.get(number + group.count * service.callers.count as usize)
        {
            self.come_at(of, *at as f64);
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

    /// Handles an arrival: decides a request, unless the load is zero or was only to be evaluated.
    pub(super) fn arrive(&mut self, of: usize) {
        let rate = self.rate_of(of);
        let group = self.services[of].group;
        let group = &self.plan.scenario.clients[group];
        let (stop, closed) = (group.stop, group.flows.is_some());
        if self.now >= stop || self.services[of].leaving {
            return;
        }
        if std::mem::take(&mut self.services[of].callers.rechecks) {
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

    /// Schedules the next arrival. A load that varies is evaluated again before a long gap is over.
    fn come_again(&mut self, of: usize, rate: f64) {
        let (seed, now) = (self.seed, self.now);
        let service = &mut self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        let callers = &mut service.callers;
        callers.count += 1;
        if matches!(group.shape, Shape::Arrivals(_)) {
            return self.come_as_recorded(of);
        }
        let mean = SEC as f64 / rate;
        let mut draw = Draw::of(seed, Of::Arrival, of as u64, callers.count);
        let gap = match group.shape {
            Shape::Pareto { alpha } => draw.pareto(mean, alpha),
            _ if group.in_step => mean * (1.0 - std::mem::take(&mut callers.passed)),
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
        // A long gap at a low rate must not skip over a later, higher rate. The exponential distribution has
        // no memory, so drawing the rest of the gap again does not change the arrivals. Of a regular gap, the
        // part that has passed counts.
        let regular = group.in_step && group.flows.is_some();
        callers.rechecks = moves && !regular && at > now as f64 + 4.0 * LOOK;
        if callers.rechecks {
            callers.next = now as f64 + 4.0 * LOOK;
        }
        if callers.rechecks && group.in_step {
            callers.passed = 1.0 - (at - callers.next) / mean;
        }
        let at = if callers.rechecks { callers.next } else { at };
        self.come_at(of, at);
    }

    /// Decides one request at its client. If it is refused, a caller of a closed loop waits.
    fn decide(&mut self, of: usize, closed: bool) {
        let Some(key) = self.pick_key(of) else { return };
        self.observer.offered(self.now, of, key, None);
        if self.try_once(of, key) {
            self.served(of, closed);
        } else if self.services[of].callers.asked.is_empty() || !self.just_asked {
            self.not_served(of, key, closed);
        }
    }

    /// Returns the key of the next request: the client's only one, or one drawn from its many.
    fn pick_key(&mut self, of: usize) -> Option<usize> {
        let service = &mut self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        let keys = &self.keys.of_group[service.group];
        let number = service.callers.pick_key(group, self.seed, of as u64);
        keys.get(number).copied()
    }

    fn cost_of(&self, of: usize) -> u64 {
        self.plan.scenario.clients[self.services[of].group].cost
    }

    /// Schedules the next arrival of a caller that was served, in a closed loop.
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

    fn not_served(&mut self, of: usize, key: usize, closed: bool) {
        let most = self.plan.scenario.clients[self.services[of].group].waiting;
        let queue = self.services[of].callers.queue(key);
        if closed || queue.callers < most {
            queue.callers += 1;
            self.observer.marks.hit(Mark::CallerWaited);
            self.try_later((of, key), self.retry_after);
        } else if self.may_come && self.waits_once(of, key) {
            let gives_up = self.now + Self::ONCE_WAIT;
            self.services[of]
                .callers
                .queue(key)
                .once
                .push_back(gives_up);
            self.observer.marks.hit(Mark::CallerWaited);
            self.try_later((of, key), self.retry_after);
        } else {
            self.observer.marks.hit_if(most > 0, Mark::QueueFull);
        }
    }

    /// Retries the callers that wait for a key one after the other, until one is refused.
    pub(super) fn retry(&mut self, of: usize, key: usize) {
        self.services[of].callers.queue(key).retrying = false;
        self.retry_once(of, key);
        let closed = self.plan.scenario.clients[self.services[of].group]
            .flows
            .is_some();
        while self.services[of].callers.queue(key).callers > 0 {
            if !self.try_once(of, key) {
                if self.just_asked {
                    self.services[of].callers.queue(key).callers -= 1;
                }
                self.try_later((of, key), self.retry_after);
                return;
            }
            self.services[of].callers.queue(key).callers -= 1;
            self.observer.marks.hit(Mark::WaiterServed);
            self.served(of, closed);
        }
    }

    pub(super) fn try_later(&mut self, (of, key): (usize, usize), local: u64) {
        let service = &mut self.services[of];
        let queue = service.callers.queue(key);
        let waits = queue.callers > 0 || !queue.once.is_empty();
        if waits && !queue.retrying {
            queue.retrying = true;
            let wait = service.clock.true_span(local).clamp(MS / 10, 250 * MS);
            self.set(self.hosts.nodes + of, wait, Timer::Retry(key as u32));
        }
    }

    /// Tries to decide one request. After a refusal, `retry_after` says when to try again, and `just_asked`
    /// whether a node decides instead.
    fn try_once(&mut self, of: usize, key: usize) -> bool {
        self.attempt(of, key, Client::try_acquire_at)
    }

    /// Tries again to decide the request of a caller who asked once. Its demand was counted when it came.
    fn try_again(&mut self, of: usize, key: usize) -> bool {
        self.attempt(of, key, Client::retry_acquire_at)
    }

    fn attempt(&mut self, of: usize, key: usize, decide: Decide) -> bool {
        self.events += 1;
        (self.just_asked, self.may_come, self.retry_after) = (false, false, 50 * MS);
        let cost = self.cost_of(of);
        let service = &mut self.services[of];
        let known = service.budget(key).filter(|_| !service.leaving);
        let Some((budget, scale)) = known else {
            self.observer.marks.hit(Mark::RefusedUnknownKey);
            self.refused(of, None, cost);
            self.first_use(of, key);
            return false;
        };
        let now = service.clock.read(self.now);
        let kind = self.keys.budgets[key].kind();
        if kind == Kind::Concurrency {
            return match service.client.try_permit_at(budget, now) {
                Ok(permit) => {
                    self.fly(of, key, Flight::Own(budget, permit));
                    true
                }
                Err(denial) => self.denied((of, key), budget, kind, denial, cost),
            };
        }
        let grains = Tokens::from_grains(scale.grains_per_token().saturating_mul(cost));
        match decide(&mut service.client, budget, grains, now) {
            Ok(period) => {
                let admission = admission(service, budget, grains, period, now);
                let admission = Admission {
                    client: Some(of),
                    ..admission
                };
                self.admitted(of, admission, cost);
                true
            }
            Err(denial) => self.denied((of, key), budget, kind, denial, cost),
        }
    }

    /// Asks for the budget of a key that a client with many keys uses first. A caller that asks once waits for it.
    fn first_use(&mut self, of: usize, key: usize) {
        let service = &mut self.services[of];
        if service.key.is_some() || service.leaving {
            return;
        }
        let group = &self.plan.scenario.clients[service.group];
        self.may_come = group.verb == Verb::Check;
        service.unnamed.entry(key).or_insert(Tick::ZERO);
        let now = service.clock.read(self.now);
        self.name_keys(of, now);
    }

    fn denied(
        &mut self,
        (of, key): (usize, usize),
        budget: BudgetId,
        kind: Kind,
        denial: Denial,
        cost: u64,
    ) -> bool {
        self.observer.marks.hit(mark_of(denial));
        let group = &self.plan.scenario.clients[self.services[of].group];
        let large = matches!(
            denial,
            Denial::NoShare | Denial::Bucket(Refusal::ExceedsBurst { .. })
        );
        let waits = group.flows.is_some() || group.waiting > 0;
        self.may_come = self.may_come((of, key), budget, kind, denial, cost);
        if large && cost > 1 && (waits || self.may_come) {
            // A caller waits for more tokens than this client's part holds. The next report says how many, so
            // that the leader can assign a larger part.
            let service = &mut self.services[of];
            let now = service.clock.read(self.now);
            let grains = service
                .budget(key)
                .map_or(1, |(_, scale)| scale.grains_per_token());
            let grains = Tokens::from_grains(grains.saturating_mul(cost));
            service.client.waits(budget, grains, now);
        }
        let waits = match denial {
            Denial::Bucket(Refusal::NotYet { retry_after }) => {
                self.retry_after = retry_after.nanos();
                !self.has_small_part((of, key), budget)
            }
            Denial::Unknown | Denial::Lapsed => true,
            _ => false,
        };
        self.want(of);
        let asks = self.plan.scenario.clients[self.services[of].group].verb != Verb::TryAcquire;
        let here = matches!(denial, Denial::Escrow | Denial::Permits)
            && !self.is_decided_elsewhere(of, budget);
        if waits || here || !asks || !self.ask_node((of, key), budget, kind, cost) {
            self.refused(of, Some(budget), cost);
        } else {
            self.just_asked = true;
        }
        false
    }
}

impl World {
    /// Maximum wait of a caller that asks once.
    const ONCE_WAIT: u64 = 250 * MS;

    /// Time after the end of a lease in which callers still wait for the next one.
    const LAPSED_WAIT: Span = Span::from_secs(1);

    /// Time for which others are refused at once after one waited in vain.
    const IN_VAIN: u64 = SEC;

    /// Returns true if only a node can decide: nothing is held here, or the budget is in central mode.
    fn is_decided_elsewhere(&self, of: usize, budget: BudgetId) -> bool {
        let client = &self.services[of].client;
        let held = client.holder().map(|holder| holder.holding(budget));
        let found = client.allotment(budget);
        let terms = found.and_then(|allotment| allotment.terms());
        held.is_none_or(|held| held.is_zero()) || terms.is_some_and(|terms| terms.central_mode)
    }

    /// Returns true if more of the budget may be moved to this client, so that a caller who asks once waits, as the
    /// client library's `check` does.
    fn may_come(
        &self,
        (of, key): (usize, usize),
        budget: BudgetId,
        kind: Kind,
        denial: Denial,
        cost: u64,
    ) -> bool {
        let service = &self.services[of];
        let group = &self.plan.scenario.clients[service.group];
        if group.verb != Verb::Check {
            return false;
        }
        let now = service.clock.read(self.now);
        match denial {
            Denial::Lapsed => {
                let holder = service.client.holder();
                return holder.is_some_and(|of| now.since(of.lease().until()) < Self::LAPSED_WAIT);
            }
            Denial::Permits | Denial::Bucket(Refusal::NotYet { .. }) => {}
            _ => return true,
        }
        let found = service.client.allotment(budget);
        let Some((allotment, (_, scale))) = found.zip(service.budget(key)) else {
            return false;
        };
        let share = Decider::share_at(allotment.decider(), now);
        let held = match kind {
            Kind::Concurrency => service
                .client
                .holder()
                .map_or(Tokens::ZERO, |holder| holder.holding(budget).capacity(kind)),
            _ => share.burst,
        };
        let largest = allotment.terms().map_or(Tokens::ZERO, |of| of.largest);
        let elsewhere = scale.whole(largest).saturating_sub(scale.whole(held));
        let queue = service.callers.queues.get(&key);
        let waiting = cost * queue.map_or(0, |queue| queue.once.len()) as u64;
        match kind {
            Kind::Concurrency => elsewhere > 0,
            _ => matches!(allotment.mode(), Mode::Leased) && waiting + cost <= elsewhere,
        }
    }

    /// Returns true if a caller who asks once waits now: not soon after another one waited in vain. Then one waits
    /// again, and the others do once tokens have come.
    fn waits_once(&mut self, of: usize, key: usize) -> bool {
        let now = self.now;
        let in_vain = &mut self.services[of].callers.queue(key).in_vain;
        match *in_vain {
            Some(until) if now < until => false,
            Some(until) if now < until + Self::IN_VAIN => {
                *in_vain = Some(now + Self::ONCE_WAIT);
                true
            }
            _ => {
                *in_vain = None;
                true
            }
        }
    }

    /// Retries the callers who asked once, until one is refused, and lets those go who have waited for too long.
    fn retry_once(&mut self, of: usize, key: usize) {
        while let Some(&gives_up) = self.services[of].callers.queue(key).once.front() {
            let over = gives_up <= self.now;
            // The wait was reported when it began.
            let wanted = std::mem::replace(&mut self.services[of].wanted, true);
            let served = self.try_again(of, key);
            self.services[of].wanted = wanted;
            let queue = self.services[of].callers.queue(key);
            if !served && !over && !self.just_asked {
                return self.try_later((of, key), self.retry_after);
            }
            queue.once.pop_front();
            if served {
                queue.in_vain = None;
                self.observer.marks.hit(Mark::WaiterServed);
            } else if over {
                queue.in_vain = Some(self.now + Self::IN_VAIN);
            }
        }
    }

    /// Returns true if the client's part is so small that a caller who may wait asks a node.
    fn has_small_part(&self, (of, key): (usize, usize), budget: BudgetId) -> bool {
        let service = &self.services[of];
        let found = service.client.allotment(budget);
        found
            .zip(service.budget(key))
            .is_some_and(|(allotment, (_, scale))| {
                let share = Decider::share_at(allotment.decider(), service.clock.read(self.now));
                allotment.terms().is_some_and(|of| of.kind == Kind::Rate)
                    && scale.whole(share.burst) < SMALL_BURST
            })
    }
}

const fn mark_of(denial: Denial) -> Mark {
    match denial {
        Denial::Lapsed => Mark::RefusedLapsed,
        Denial::Bucket(Refusal::ExceedsBurst { .. }) => Mark::CostAbovePart,
        Denial::Bucket(_) => Mark::BucketEmpty,
        Denial::Escrow => Mark::QuotaPartSpent,
        Denial::Permits => Mark::AllPermitsInUse,
        _ => Mark::RefusedWithoutShare,
    }
}

/// Describes an admission by `service` at its own clock reading `now`.
fn admission(
    service: &Service,
    budget: BudgetId,
    cost: Tokens,
    period: PeriodId,
    now: Tick,
) -> Admission {
    let found = service.client.allotment(budget);
    let mode = found.map(|allotment| *allotment.mode());
    let right = match mode {
        Some(Mode::LastShare | Mode::FormerShare) => Right::Kept,
        Some(Mode::Local) => Right::Local,
        Some(Mode::Open) => Right::Open,
        _ => Right::Booked,
    };
    let share = match (right, found) {
        (Right::Booked, _) | (_, None) => Share::EMPTY,
        (_, Some(allotment)) => Decider::share_at(allotment.decider(), now),
    };
    // A floor of an earlier edge does not belong to the present edge. It remains in use until the present
    // edge grants something.
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
