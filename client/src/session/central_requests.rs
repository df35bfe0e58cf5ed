//! Requests in central mode that wait for an answer of a node.

use crate::limiter::session_requests::Answer;
use aliquot_core::central::{Release, Route};
use aliquot_core::decision_requests::DecisionRequests;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Drift, Edge, RequestId, Span, Tick};
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A caller that waits for an answer.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) edge: Edge,
    pub(super) kind: Kind,
    pub(super) asked_at: Tick,
    pub(super) reply: oneshot::Sender<Answer>,
    pub(super) _room: OwnedSemaphorePermit,
}

/// The requests of a session.
#[derive(Debug)]
pub(super) struct CentralRequests {
    pub(super) requests: DecisionRequests,
    pub(super) waiters: BTreeMap<RequestId, Waiter>,
    /// Releases that could not be sent yet, the oldest first.
    pub(super) releases: VecDeque<Release>,
    /// When unanswered requests are repeated.
    pub(super) repeat_at: Tick,
}

impl CentralRequests {
    /// Interval at which an unanswered request is repeated. By then, a node that asked the home has given up
    /// on it.
    pub(super) const REPEAT: Span = Span::from_millis(600);

    /// Maximum number of releases that wait for a connection. The permits of older ones are freed when their
    /// longest hold ends.
    const RELEASES_MAX: usize = 4_096;

    pub(super) fn new(now: Tick) -> Self {
        Self {
            requests: DecisionRequests::new(Drift::default()),
            waiters: BTreeMap::new(),
            releases: VecDeque::new(),
            repeat_at: now,
        }
    }

    pub(super) fn set_drift(&mut self, drift: Drift) {
        self.requests.set_drift(drift);
    }

    /// Returns when time alone requires an action, besides the end of the lease.
    pub(super) fn next_look(&self) -> Option<Tick> {
        let unsent = !self.releases.is_empty();
        (unsent || !self.waiters.is_empty()).then_some(self.repeat_at)
    }

    /// Voids all requests; late answers to them are ignored.
    pub(super) fn end_session(&mut self) {
        self.requests.end_session();
        for (request, waiter) in std::mem::take(&mut self.waiters) {
            self.undo(request, &waiter);
            // The caller may be gone; then it needs no answer.
            let _ = waiter.reply.send(Answer::Void);
        }
    }

    /// Releases a permit that the node asked may have taken without a caller to use it. A booking by another
    /// node is undone when that node's answer arrives.
    fn undo(&mut self, request: RequestId, waiter: &Waiter) {
        if waiter.kind == Kind::Concurrency {
            self.owe(Release {
                edge: waiter.edge,
                request,
                by: waiter.edge.parent,
                route: Route::Direct,
            });
        }
    }

    /// Repeats all requests on the next link at once.
    pub(super) const fn repeat(&mut self) {
        self.repeat_at = Tick::ZERO;
    }

    pub(super) fn owe(&mut self, release: Release) {
        if self.releases.len() >= Self::RELEASES_MAX {
            self.releases.pop_front();
        }
        self.releases.push_back(release);
    }

    pub(super) fn expire(&mut self, now: Tick) {
        for release in self.requests.take_overheld(now) {
            self.owe(release);
        }
        for request in self.requests.expire(now) {
            if let Some(waiter) = self.waiters.remove(&request) {
                self.undo(request, &waiter);
                let _ = waiter.reply.send(Answer::Void);
            }
        }
    }

    /// Removes the request of a caller that no longer waits.
    pub(super) fn give_up(&mut self, ticket: u64) {
        let found = self.waiters.iter().find(|(_, of)| of.ticket == ticket);
        let Some((&request, _)) = found else { return };
        self.requests.give_up(request);
        if let Some(waiter) = self.waiters.remove(&request) {
            self.undo(request, &waiter);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/session/central_requests.rs"]
mod tests;
