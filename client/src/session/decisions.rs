//! Requests in central mode, the session's side: asks nodes, repeats, and answers callers.

use super::Session;
use super::central_requests::{CentralRequests, Waiter};
use crate::limiter::session_requests::{Answer, Booking, DecisionCall, Grant, SessionRequest};
use aliquot_core::central::{DecisionReply, DecisionRequest, Outcome};
use aliquot_core::decision_requests::{self, Verdict};
use aliquot_core::unit::{RequestId, Span, Tick};
use aliquot_wire::session::ClientMessage;

impl Session {
    /// Maximum number of requests handled before the work that follows from them.
    const REQUESTS_AT_ONCE: usize = 64;

    pub(super) fn run_all(&mut self, first: SessionRequest) {
        let now = self.look();
        self.run_one(first, now);
        self.run_waiting(Self::REQUESTS_AT_ONCE - 1, now);
    }

    /// Handles queued requests, at most `most`.
    pub(super) fn run_waiting(&mut self, most: usize, now: Tick) {
        for _ in 0..most {
            let Ok(request) = self.inbox.requests.try_recv() else {
                break;
            };
            self.run_one(request, now);
        }
    }

    fn run_one(&mut self, request: SessionRequest, now: Tick) {
        match request {
            SessionRequest::Decide(call) => self.ask(call, now),
            SessionRequest::GiveUp(ticket) => self.central_requests.give_up(ticket),
            SessionRequest::Release(request) => {
                if let Some(release) = self.central_requests.requests.release(request) {
                    self.central_requests.owe(release);
                }
            }
        }
    }

    fn ask(&mut self, call: DecisionCall, now: Tick) {
        if call.reply.is_closed() {
            return;
        }
        match self.put(&call, now) {
            Some(ask) => {
                let waiter = Waiter {
                    ticket: call.ticket,
                    edge: ask.edge,
                    kind: ask.kind,
                    asked_at: now,
                    reply: call.reply,
                    _room: call.room,
                };
                if self.central_requests.waiters.is_empty() {
                    self.central_requests.repeat_at = now.after(CentralRequests::REPEAT);
                }
                self.central_requests.waiters.insert(ask.request, waiter);
                self.shared.unanswered_since.asked(now);
                self.say(&ClientMessage::DecisionRequest(ask));
            }
            None => {
                let _ = call.reply.send(Answer::NoLease);
            }
        }
    }

    /// Voids all requests, without knowing whether they would have been answered.
    pub(super) fn ask_no_more(&mut self) {
        self.central_requests.end_session();
        self.shared.unanswered_since.clear();
    }

    /// Returns the request as it is sent, if there is a lease to ask under and a budget to ask for.
    fn put(&mut self, call: &DecisionCall, now: Tick) -> Option<DecisionRequest> {
        if self.closing || self.leaving.is_some() {
            return None;
        }
        let budget = self.keys.budget(call.key_state.name())?;
        let (edge, holder) = (self.machine.edge()?, self.machine.holder()?);
        let lease = holder.lease().until();
        let leased = self.machine.is_leased(now);
        let asked = decision_requests::NewRequest {
            budget,
            kind: call.kind,
            cost: call.cost,
            retry_policy: call.retry_policy,
        };
        let requests = &mut self.central_requests.requests;
        leased.then(|| requests.ask(asked, edge, lease, now).ok())?
    }

    /// Sends a message, if there is a connection that keeps up. Returns true if it was sent.
    fn say(&mut self, message: &ClientMessage) -> bool {
        let link = self.link();
        let sent = link.is_some_and(|link| link.say(message));
        self.messages += u64::from(sent);
        sent
    }

    /// Handles a node's answer to a request.
    pub(super) fn handle_decision_reply(&mut self, reply: &DecisionReply, now: Tick) {
        self.shared.unanswered_since.clear();
        match self.central_requests.requests.handle(reply, now) {
            Verdict::Counts(request, outcome) => self.tell(request, (outcome, reply.left), now),
            Verdict::Ignored => {}
            Verdict::Undo(release) => self.central_requests.owe(release),
        }
    }

    fn tell(&mut self, request: RequestId, (outcome, left): (Outcome, Option<u64>), now: Tick) {
        let booking = self.central_requests.requests.held_until(request);
        let requests = &self.shared.requests;
        let booking = booking.map(|until| Booking::new(request, until, requests.clone()));
        let Some(waiter) = self.central_requests.waiters.remove(&request) else {
            return;
        };
        let answer = match outcome {
            Outcome::Admitted { period, .. } => Answer::Admitted(Grant {
                asked_at: waiter.asked_at,
                heard_at: now,
                period,
                left,
                booking,
            }),
            Outcome::Refused {
                reason,
                retry_after,
            } => Answer::Refused {
                reason,
                retry_after,
                left,
            },
            Outcome::Moved { .. } => Answer::Void,
        };
        // If the caller is gone, a permit in the answer is released when it is dropped.
        let _ = waiter.reply.send(answer);
    }

    /// Does what is due: expires requests, sends releases, and repeats requests.
    pub(super) fn tend_requests(&mut self, now: Tick) {
        self.central_requests.expire(now);
        while let Some(&release) = self.central_requests.releases.front() {
            if !self.say(&ClientMessage::Release(release)) {
                break;
            }
            self.central_requests.releases.pop_front();
        }
        if now < self.central_requests.repeat_at || self.link().is_none() {
            return;
        }
        let at_once = self.central_requests.repeat_at == Tick::ZERO;
        let after = if at_once {
            Span::ZERO
        } else {
            CentralRequests::REPEAT
        };
        let again = self.central_requests.requests.repeats(after, now);
        self.central_requests.repeat_at = now.after(CentralRequests::REPEAT);
        let edge = self.machine.edge();
        for ask in again.into_iter().filter(|ask| Some(ask.edge) == edge) {
            self.say(&ClientMessage::DecisionRequest(ask));
        }
    }
}
