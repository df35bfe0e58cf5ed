//! Load of the callers: more than the limit, uneven, and shifting.

use super::clock::{MS, SEC};
use super::net::NODES;
use super::plan::Plan;
use super::rng::Rng;
use super::{Timer, World};
use aliquot_core::bucket::Refusal;
use aliquot_core::client::Denial;
use aliquot_core::share::Kind;
use aliquot_core::unit::{RequestId, Tokens};

#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) budget_asked: Option<RequestId>,
    /// Number of requests that come at once.
    batch: u64,
    /// Mean time between arrivals per client, in nanoseconds.
    gaps: Vec<f64>,
}

impl Load {
    pub(crate) fn draw(plan: &Plan, rng: &mut Rng) -> Self {
        let mut load = Self {
            budget_asked: None,
            batch: 1,
            gaps: Vec::new(),
        };
        load.shift(plan, rng, plan.calm);
        load
    }

    /// Spreads four times the rate over the clients anew. In calm the requests come one by one, and every
    /// client wants more than a fair part.
    pub(crate) fn shift(&mut self, plan: &Plan, rng: &mut Rng, calm: bool) {
        let weights: Vec<f64> = (0..Plan::CLIENTS)
            .map(|_| match (calm, rng.range(0, 10)) {
                (true, _) => 1.0 + 2.0 * rng.unit(),
                (false, 0 | 1) => 0.05,
                (false, 2 | 3) => 8.0,
                (false, _) => 0.5 + 2.0 * rng.unit(),
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        self.batch = if calm { 1 } else { plan.batch };
        let costs = (1.0 + plan.cost as f64) / 2.0;
        let arrivals = 4.0 * plan.rate as f64 / self.batch as f64 / costs;
        self.gaps = weights
            .iter()
            .map(|weight| SEC as f64 * sum / weight / arrivals)
            .collect();
    }
}

impl World {
    /// Maximum number of callers that wait at one client. Callers above it leave.
    const WAITING: u64 = 8;

    pub(super) fn arrive(&mut self, of: usize) {
        for _ in 0..self.load.batch {
            match self.plan.kind {
                Kind::Rate => self.decide(of),
                Kind::Quota | Kind::Concurrency => self.decide_counted(of),
            }
        }
        let gap = self.rng.exponential(self.load.gaps[of]) as u64;
        // No gap is longer than a shift of the load.
        let gap = gap.min(4 * SEC);
        self.set(NODES + of, gap, Timer::Arrival);
    }

    /// Lets the first waiting caller try again.
    pub(super) fn retry(&mut self, of: usize) {
        self.services[of].retrying = false;
        if self.services[of].waiting > 0 {
            self.services[of].waiting -= 1;
            self.decide(of);
        }
    }

    /// Makes one request at one client, decided there.
    fn decide(&mut self, of: usize) {
        let cost = match self.plan.cost {
            1 => 1,
            most => self.rng.range(1, most + 1),
        };
        let service = &mut self.services[of];
        let (Some(budget), Some(scale)) = (service.budget, self.judge.scale) else {
            return;
        };
        if service.leaving {
            return;
        }
        let cost = Tokens::from_grains(scale.grains_per_token() * cost);
        let now = service.clock.read(self.now);
        let decision = service.client.try_acquire_at(budget, cost, now);
        match decision {
            Ok(_) => {
                let leased = service.client.is_leased(now);
                // A floor of a former edge does not belong to this one: it is used until this one grants
                // something.
                let holder = service.client.holder();
                let holds = holder.is_some_and(|holder| !holder.holding(budget).is_zero());
                let edge = service.client.edge().filter(|_| holds);
                self.note(3, of as u64);
                self.judge.admitted(self.now, edge, cost);
                self.inspect_admission(of, edge.filter(|_| leased), budget);
                self.try_later(of, 0);
            }
            Err(denial) if self.plan.small && !waits(denial) => self.ask_node(of, budget),
            Err(denial) => {
                self.note(4, of as u64);
                self.judge.refused(self.now, cost);
                self.wait(of, denial);
            }
        }
    }

    /// Lets a caller wait, if not too many do, and try again once the token may be there.
    fn wait(&mut self, of: usize, denial: Denial) {
        let service = &mut self.services[of];
        let Denial::Bucket(Refusal::NotYet { retry_after }) = denial else {
            return;
        };
        if self.plan.patient && service.waiting < Self::WAITING {
            service.waiting += 1;
            self.try_later(of, retry_after.nanos());
        }
    }

    fn try_later(&mut self, of: usize, local: u64) {
        let service = &mut self.services[of];
        if service.waiting > 0 && !service.retrying {
            service.retrying = true;
            let wait = service.clock.true_span(local);
            self.set(NODES + of, wait.min(500 * MS), Timer::Retry);
        }
    }
}

/// Returns true if the client's own share will suffice in time.
fn waits(denial: Denial) -> bool {
    matches!(denial, Denial::Bucket(Refusal::NotYet { .. }))
}
