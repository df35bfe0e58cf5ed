//! Requests that a client sends to its node for a decision in central mode, and permits that it holds.

use super::World;
use super::event::{Message, Timer};
use crate::clock::{MS, quantised};
use crate::draw::{Draw, Of};
use crate::mark::Mark;
use crate::oracle::Flight;
use aliquot_core::central::{DecisionReply, Outcome, RetryPolicy};
use aliquot_core::decision_requests::{NewRequest, Verdict};
use aliquot_core::share::Kind;
use aliquot_core::unit::{BudgetId, RequestId, Tick};
use std::num::NonZeroU64;

impl World {
    /// Asks the node to decide on the client's behalf. Returns false if the request could not be sent.
    pub(super) fn ask_node(&mut self, of: usize, budget: BudgetId, kind: Kind, cost: u64) -> bool {
        const ASKED_MOST: u64 = 32;
        let group = &self.plan.scenario.clients[self.services[of].group];
        let waits = group.flows.is_some() || group.waiting > 0;
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        let (Some(holder), Some(node)) = (service.client.holder(), service.link()) else {
            return false;
        };
        if service.callers.asked >= ASKED_MOST {
            self.observer.marks.hit(Mark::QuestionsTooMany);
            return false;
        }
        let new_request = NewRequest {
            budget,
            kind,
            cost: NonZeroU64::new(cost).unwrap_or(NonZeroU64::MIN),
            retry_policy: if waits {
                RetryPolicy::Waits
            } else {
                RetryPolicy::Once
            },
        };
        let (edge, lease) = (holder.edge(), holder.lease().until());
        let Ok(ask) = service.requests.ask(new_request, edge, lease, now) else {
            return false;
        };
        service.callers.asked += 1;
        self.observer.marks.hit(Mark::NodeAsked);
        self.send(self.hosts.nodes + of, node, Message::DecisionRequest(ask));
        true
    }

    /// Ends requests that will not be answered. Their callers give up, or try again in a closed loop.
    pub(super) fn questions_void(&mut self, of: usize, void: &[RequestId]) {
        for _ in void {
            self.observer.marks.hit(Mark::QuestionVoid);
            self.question_over(of, false, 50 * MS);
        }
    }

    /// Drops the requests of a session that is over. None of them will be answered.
    pub(super) fn end_questions(&mut self, of: usize) {
        let requests = &mut self.services[of].requests;
        let pending = requests.pending();
        requests.end_session();
        for _ in 0..pending {
            self.observer.marks.hit(Mark::QuestionVoid);
            self.question_over(of, false, 50 * MS);
        }
    }

    pub(super) fn question_over(&mut self, of: usize, served: bool, again: u64) {
        let group = &self.plan.scenario.clients[self.services[of].group];
        let closed = group.flows.is_some();
        let callers = &mut self.services[of].callers;
        callers.asked = callers.asked.saturating_sub(1);
        if served {
            self.served(of, closed);
        } else if closed || callers.waiting < group.waiting {
            callers.waiting += 1;
            self.try_later(of, again);
        }
    }

    pub(super) fn service_is_told(&mut self, of: usize, told: &DecisionReply, now: Tick) {
        let service = &mut self.services[of];
        match service.requests.handle(told, now) {
            Verdict::Counts(request, Outcome::Admitted { hold, .. }) => {
                if !hold.is_zero() {
                    self.fly(of, Flight::Central(request));
                }
                self.observer.marks.hit(Mark::AdmittedCentrally);
                self.question_over(of, true, 0);
            }
            Verdict::Counts(_, Outcome::Refused { retry_after, .. }) => {
                self.observer.marks.hit(Mark::QuestionRefused);
                let again = retry_after.map_or(50 * MS, |span| span.nanos());
                self.question_over(of, false, again);
            }
            Verdict::Counts(_, Outcome::Moved { .. }) => {
                self.observer.marks.hit(Mark::HomeMoved);
                self.question_over(of, false, 10 * MS);
            }
            Verdict::Ignored => self.observer.marks.hit(Mark::VerdictLate),
            Verdict::Undo(release) => {
                self.observer.marks.hit(Mark::VerdictUndone);
                if let Some(node) = self.services[of].link() {
                    self.send(self.hosts.nodes + of, node, Message::Release(release));
                }
            }
        }
    }

    /// Holds a permit for a random, exponentially distributed time.
    pub(super) fn fly(&mut self, of: usize, flight: Flight) {
        let group = &self.plan.scenario.clients[self.services[of].group];
        let mean = group.hold as f64;
        let callers = &mut self.services[of].callers;
        callers.count += 1;
        let span = Draw::of(self.seed, Of::Hold, of as u64, callers.count).exponential(mean);
        let span = quantised(span as u64 + MS / 10);
        callers.flights.push((self.now + span, flight));
        self.permit_taken(of, flight);
        self.set(self.hosts.nodes + of, span, Timer::Done);
    }

    /// Releases the permits whose callers are done.
    pub(super) fn release_permits(&mut self, of: usize) {
        self.events += 1;
        let true_now = self.now;
        let service = &mut self.services[of];
        let now = service.clock.read(true_now);
        let over = |flight: &(u64, Flight)| flight.0 <= true_now;
        let done: Vec<Flight> = service
            .callers
            .flights
            .extract_if(.., |f| over(f))
            .map(|f| f.1)
            .collect();
        for flight in done {
            let service = &mut self.services[of];
            let over = match flight {
                Flight::Own(budget, permit) => {
                    let mut of_budget = service.client.allotments().filter(|(id, _)| *id == budget);
                    !of_budget.any(|(_, allotment)| allotment.permits().is_valid(permit, now))
                }
                Flight::Central(request) => !service.requests.is_valid(request, now),
            };
            if over {
                self.observer.marks.hit(Mark::PermitCut);
            }
            match flight {
                Flight::Own(budget, permit) => service.client.release_permit(budget, permit, now),
                Flight::Central(request) => {
                    let release = service.requests.release(request);
                    if let (Some(release), Some(node)) = (release, service.link()) {
                        self.send(self.hosts.nodes + of, node, Message::Release(release));
                    }
                }
            }
        }
        self.land();
        self.retry(of);
    }
}
