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
    pub(super) fn ask_node(
        &mut self,
        (of, key): (usize, usize),
        budget: BudgetId,
        kind: Kind,
        cost: u64,
    ) -> bool {
        const ASKED_MOST: usize = 32;
        let group = &self.plan.scenario.clients[self.services[of].group];
        let waits = group.flows.is_some() || group.waiting > 0;
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        let (Some(holder), Some(node)) = (service.client.holder(), service.link()) else {
            return false;
        };
        if service.callers.asked.len() >= ASKED_MOST {
            self.observer.marks.hit(Mark::CentralRequestsFull);
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
        service.callers.asked.push((ask.request, key));
        self.observer.marks.hit(Mark::CentralRequestSent);
        self.send(self.hosts.nodes + of, node, Message::DecisionRequest(ask));
        true
    }

    /// Ends requests that will not be answered. Their callers give up, or try again in a closed loop.
    pub(super) fn requests_void(&mut self, of: usize, void: &[RequestId]) {
        for &request in void {
            self.observer.marks.hit(Mark::CentralRequestVoid);
            self.request_over(of, request, false, 50 * MS);
        }
    }

    /// Drops the requests of a session that is over. None of them will be answered.
    pub(super) fn end_requests(&mut self, of: usize) {
        let service = &mut self.services[of];
        service.requests.end_session();
        let asked = service.callers.asked.clone();
        for (request, _) in asked {
            self.observer.marks.hit(Mark::CentralRequestVoid);
            self.request_over(of, request, false, 50 * MS);
        }
    }

    /// Ends a request that a node was asked for. Its caller may wait if it was not served.
    fn request_over(&mut self, of: usize, request: RequestId, served: bool, again: u64) {
        let group = &self.plan.scenario.clients[self.services[of].group];
        let closed = group.flows.is_some();
        let callers = &mut self.services[of].callers;
        let place = callers.asked.iter().position(|(id, _)| *id == request);
        let Some((_, key)) = place.map(|place| callers.asked.remove(place)) else {
            return;
        };
        if served {
            self.served(of, closed);
        } else if closed || callers.queue(key).callers < group.waiting {
            callers.queue(key).callers += 1;
            self.try_later((of, key), again);
        }
    }

    /// Returns the key of a request that a node was asked for.
    fn asked_key(&self, of: usize, request: RequestId) -> Option<usize> {
        let asked = &self.services[of].callers.asked;
        let found = asked.iter().find(|(id, _)| *id == request);
        found.map(|(_, key)| *key)
    }

    pub(super) fn receive_reply(&mut self, of: usize, reply: &DecisionReply, now: Tick) {
        let service = &mut self.services[of];
        match service.requests.handle(reply, now) {
            Verdict::Counts(request, Outcome::Admitted { hold, .. }) => {
                if let Some(key) = self.asked_key(of, request).filter(|_| !hold.is_zero()) {
                    self.fly(of, key, Flight::Central(request));
                }
                self.observer.marks.hit(Mark::AdmittedCentrally);
                self.request_over(of, request, true, 0);
            }
            Verdict::Counts(request, Outcome::Refused { retry_after, .. }) => {
                self.observer.marks.hit(Mark::RefusedCentrally);
                let again = retry_after.map_or(50 * MS, |span| span.nanos());
                self.request_over(of, request, false, again);
            }
            Verdict::Counts(request, Outcome::Moved { .. }) => {
                self.observer.marks.hit(Mark::HomeMoved);
                self.request_over(of, request, false, 10 * MS);
            }
            Verdict::Ignored => self.observer.marks.hit(Mark::CentralAnswerLate),
            Verdict::Undo(release) => {
                self.observer.marks.hit(Mark::CentralPermitReturned);
                if let Some(node) = self.services[of].link() {
                    self.send(self.hosts.nodes + of, node, Message::Release(release));
                }
            }
        }
    }

    /// Holds a permit for a random, exponentially distributed time.
    pub(super) fn fly(&mut self, of: usize, key: usize, flight: Flight) {
        let group = &self.plan.scenario.clients[self.services[of].group];
        let mean = group.hold as f64;
        let callers = &mut self.services[of].callers;
        callers.count += 1;
        let span = Draw::of(self.seed, Of::Hold, of as u64, callers.count).exponential(mean);
        let span = quantised(span as u64 + MS / 10);
        callers.flights.push((self.now + span, key, flight));
        self.permit_taken(of, key, flight);
        self.set(self.hosts.nodes + of, span, Timer::Done);
    }

    /// Releases the permits whose callers are done.
    pub(super) fn release_permits(&mut self, of: usize) {
        self.events += 1;
        let true_now = self.now;
        let service = &mut self.services[of];
        let now = service.clock.read(true_now);
        let over = |flight: &(u64, usize, Flight)| flight.0 <= true_now;
        let done: Vec<Flight> = service
            .callers
            .flights
            .extract_if(.., |f| over(f))
            .map(|f| f.2)
            .collect();
        for flight in done {
            let service = &mut self.services[of];
            let over = match flight {
                Flight::Own(budget, permit) => {
                    let found = service.client.allotment(budget);
                    !found.is_some_and(|found| found.permits().is_valid(permit, now))
                }
                Flight::Central(request) => !service.requests.is_valid(request, now),
            };
            if over {
                self.observer.marks.hit(Mark::PermitOverrun);
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
        let keys: Vec<usize> = self.services[of].callers.queues.keys().copied().collect();
        for key in keys {
            self.retry(of, key);
        }
    }
}
