//! The client's side of central mode: requests sent to a node, and the time until which a reply counts.
//!
//! ```text
//!  ask ──► pending ──admitted──► (permits) held ──release──► over
//!             │  ├──refused, moved──► over
//!             │  └──given up──► over, and released where it may have been booked
//!             └──the lease that it was asked under ends, or its session──► void
//! ```
//!
//! A reply counts once, and strictly before the end of the lease that the client had when it sent the
//! request. A permit whose reply comes too late, or after its caller has left, is released at once.

use crate::central::{DecisionReply, DecisionRequest, Outcome, Release, RetryPolicy, Route};
use crate::lease::child_span;
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::unit::{BudgetId, Drift, Edge, Incarnation, RequestId, Span, Tick};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU64;

/// Reason why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestError {
    /// There is no lease, so no node may decide for this client.
    NoLease,
    /// [`DecisionRequests::PENDING_MAX`] requests are pending.
    TooMany,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLease => "without a lease nothing can be asked",
            Self::TooMany => "too many questions are under way",
        })
    }
}

impl core::error::Error for RequestError {}

/// A request before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NewRequest {
    /// The budget.
    pub budget: BudgetId,
    /// Kind of the budget.
    pub kind: Kind,
    /// Whole tokens, or permits.
    pub cost: NonZeroU64,
    /// Set to [`RetryPolicy::Waits`] if the request is repeated until it is admitted.
    pub retry_policy: RetryPolicy,
}

/// Effect of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It answers this request: tell the caller.
    Counts(RequestId, Outcome),
    /// It answers no pending request, and booked nothing that lasts.
    Ignored,
    /// It booked permits that are not used: send this release.
    Undo(Release),
}

#[derive(Clone, Copy, Debug, Hash)]
struct Pending {
    ask: DecisionRequest,
    sent: Tick,
    void: Tick,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Held {
    release: Release,
    until: Tick,
}

/// A client's central requests, through all its sessions.
#[derive(Clone, Debug, Hash)]
pub struct DecisionRequests {
    drift: Drift,
    next: RequestId,
    pending: BTreeMap<RequestId, Pending>,
    held: BTreeMap<RequestId, Held>,
}

impl DecisionRequests {
    /// Maximum number of pending requests. Above it, callers wait for one of them.
    pub const PENDING_MAX: usize = 256;

    /// Returns the state without requests.
    #[must_use]
    pub const fn new(drift: Drift) -> Self {
        Self {
            drift,
            next: RequestId::new(1),
            pending: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Raises the bound on clock drift to the cluster's new setting. Leases given before stay valid, so the
    /// bound never shrinks.
    pub fn set_drift(&mut self, drift: Drift) {
        self.drift = self.drift.max(drift);
    }

    /// Makes a request at `now` on the session `edge`, whose lease ends at `lease`.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; nothing is to be sent.
    pub fn ask(
        &mut self,
        new_request: NewRequest,
        edge: Edge,
        lease: Tick,
        now: Tick,
    ) -> Result<DecisionRequest, RequestError> {
        if now >= lease {
            return Err(RequestError::NoLease);
        }
        // A request on another edge ends the former session.
        if self.pending.values().any(|of| of.ask.edge != edge) {
            self.end_session();
        }
        if self.pending.len() >= Self::PENDING_MAX {
            return Err(RequestError::TooMany);
        }
        let request = self.next;
        self.next = request.next().ok_or(RequestError::TooMany)?;
        let ask = DecisionRequest {
            edge,
            request,
            budget: new_request.budget,
            kind: new_request.kind,
            cost: new_request.cost,
            retry_policy: new_request.retry_policy,
            route: Route::Direct,
        };
        let pending = Pending {
            ask,
            sent: now,
            void: lease,
        };
        self.pending.insert(request, pending);
        Ok(ask)
    }

    /// Takes a reply that arrived at `now`.
    pub fn handle(&mut self, reply: &DecisionReply, now: Tick) -> Verdict {
        let pending = self.pending.get(&reply.request).copied();
        let late = planted::is(Bug::LateVerdictHeeded);
        let counts = |pending: &Pending| {
            pending.ask.edge == reply.edge && (now < self.until(pending, reply.outcome) || late)
        };
        let Some(pending) = pending.filter(counts) else {
            return self.undo(reply);
        };
        self.pending.remove(&reply.request);
        if let Outcome::Admitted { by, hold, .. } = reply.outcome
            && pending.ask.kind == Kind::Concurrency
        {
            let held = Held {
                release: release(reply, by),
                until: pending.sent.after(child_span(hold, self.drift)),
            };
            self.held.insert(reply.request, held);
        }
        Verdict::Counts(reply.request, reply.outcome)
    }

    /// Returns the time until which a reply counts: the end of the lease, and for permits also the end of
    /// their hold.
    fn until(&self, pending: &Pending, outcome: Outcome) -> Tick {
        match outcome {
            Outcome::Admitted { hold, .. } if pending.ask.kind == Kind::Concurrency => {
                let over = pending.sent.after(child_span(hold, self.drift));
                pending.void.min(over)
            }
            _ => pending.void,
        }
    }

    fn undo(&self, reply: &DecisionReply) -> Verdict {
        match reply.outcome {
            Outcome::Admitted { by, hold, .. }
                if !hold.is_zero() && !self.held.contains_key(&reply.request) =>
            {
                Verdict::Undo(release(reply, by))
            }
            _ => Verdict::Ignored,
        }
    }

    /// Returns the requests that were sent `after` ago and are not answered, to be sent again unchanged. A
    /// node that decided one repeats its reply.
    #[must_use]
    pub fn repeats(&self, after: Span, now: Tick) -> Vec<DecisionRequest> {
        let due = |pending: &&Pending| now.since(pending.sent) >= after && now < pending.void;
        let due = self.pending.values().filter(due);
        due.map(|pending| pending.ask).collect()
    }

    /// Removes requests whose lease has ended, and returns them. Later replies to them are ignored.
    #[must_use]
    pub fn expire(&mut self, now: Tick) -> Vec<RequestId> {
        let over = |pending: &Pending| now >= pending.void;
        let void = self.pending.iter().filter(|(_, pending)| over(pending));
        let void = void.map(|(&request, _)| request).collect();
        self.pending.retain(|_, pending| !over(pending));
        self.held.retain(|_, held| now < held.until);
        void
    }

    /// Cancels permits that were held for too long. Returns the releases to send.
    #[must_use]
    pub fn take_overheld(&mut self, now: Tick) -> Vec<Release> {
        let over = self.held.values().filter(|held| now >= held.until);
        let over = over.map(|held| held.release).collect();
        self.held.retain(|_, held| now < held.until);
        over
    }

    /// Drops all pending requests: the session is over, or its lease ended before its time (another node, a
    /// closed edge, clocks that jumped). Permits in flight stay valid.
    pub fn end_session(&mut self) {
        self.pending.clear();
    }

    /// Drops a request whose caller has left. A reply on its way will be undone.
    pub fn give_up(&mut self, request: RequestId) {
        self.pending.remove(&request);
    }

    /// Returns true if the permits of a request may be used at `now`.
    #[must_use]
    pub fn is_valid(&self, request: RequestId, now: Tick) -> bool {
        self.held.get(&request).is_some_and(|held| now < held.until)
    }

    /// Returns the time before which the permits of a request may be used, or `None` if it has none.
    #[must_use]
    pub fn held_until(&self, request: RequestId) -> Option<Tick> {
        self.held.get(&request).map(|held| held.until)
    }

    /// Ends the use of a request's permits. Returns the release to send, once.
    pub fn release(&mut self, request: RequestId) -> Option<Release> {
        self.held.remove(&request).map(|held| held.release)
    }

    /// Returns the number of pending requests.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

fn release(reply: &DecisionReply, by: Incarnation) -> Release {
    Release {
        edge: reply.edge,
        request: reply.request,
        by,
        route: Route::Direct,
    }
}
