//! Requests to the home node of a budget in central mode: the messages between callers and the session.
//!
//! ```text
//!  caller ── SessionRequest::Decide ──► session ── DecisionRequest ──► node (and on to the home)
//!         ◄───────── Answer ──────────         ◄── DecisionReply ──
//!  dropped: SessionRequest::GiveUp              ── Release ──►
//! ```
//!
//! None of this is on the path of `try_acquire`.

use crate::limiter::key_state::KeyState;
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::central::{Reason, RetryPolicy};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, RequestId, Span, Tick};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// A message from a caller to the session. Their number is bounded by the number of callers: each has one
/// request, gives it up at most once, and releases a permit at most once.
#[derive(Debug)]
pub(crate) enum SessionRequest {
    /// Asks for a decision.
    Decide(DecisionCall),
    /// The caller of this request has gone.
    GiveUp(u64),
    /// Releases the permit of a request.
    Release(RequestId),
}

/// Sender of messages to the session.
pub(crate) type SessionRequests = mpsc::UnboundedSender<SessionRequest>;

/// A request on its way to the session.
#[derive(Debug)]
pub(crate) struct DecisionCall {
    /// Number of the request within the process.
    pub(crate) ticket: u64,
    pub(crate) key_state: Arc<KeyState>,
    pub(crate) kind: Kind,
    pub(crate) cost: NonZeroU64,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) reply: oneshot::Sender<Answer>,
    /// Semaphore permit: the number of requests in flight is limited.
    pub(crate) room: OwnedSemaphorePermit,
}

/// Outcome of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The home node took the tokens.
    Admitted(Grant),
    /// The home node did not take them.
    Refused {
        reason: Reason,
        retry_after: Option<Span>,
        /// Tokens that the home node has left, if it told them.
        left: Option<u64>,
    },
    /// The outcome is not known. The caller may ask again at once.
    Void,
    /// There is no lease to ask under.
    NoLease,
}

/// Tokens or a permit that the home node took between `asked_at` and `heard_at`.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) asked_at: Tick,
    pub(crate) heard_at: Tick,
    pub(crate) period: PeriodId,
    /// Tokens that the home node has left after this, if it told them.
    pub(crate) left: Option<u64>,
    /// The permit, if a permit was asked for.
    pub(crate) booking: Option<Booking>,
}

/// A permit that the home node has booked. Dropping this releases it, wherever the answer is by then.
#[derive(Debug)]
pub(crate) struct Booking {
    request: RequestId,
    pub(crate) until: Tick,
    requests: SessionRequests,
}

impl Booking {
    pub(crate) const fn new(request: RequestId, until: Tick, requests: SessionRequests) -> Self {
        Self {
            request,
            until,
            requests,
        }
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        // The session may be over; then there is nothing to release.
        let _ = self.requests.send(SessionRequest::Release(self.request));
    }
}

/// Start of the time in which no request was answered: the first request after the last answer. An answer
/// ends it even if its caller has gone.
#[derive(Debug)]
pub(crate) struct UnansweredSince(AtomicU64);

impl Default for UnansweredSince {
    fn default() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }
}

impl UnansweredSince {
    const NONE: u64 = u64::MAX;

    /// Records a request. Only the session calls this and [`UnansweredSince::clear`].
    pub(crate) fn asked(&self, now: Tick) {
        if self.0.load(Ordering::Acquire) == Self::NONE {
            self.0.store(now.nanos(), Ordering::Release);
        }
    }

    /// Records an answer, or that the requests are void.
    pub(crate) fn clear(&self) {
        self.0.store(Self::NONE, Ordering::Release);
    }

    /// Returns how long no request has been answered.
    pub(crate) fn elapsed(&self, now: Tick) -> Duration {
        let since = Tick::from_nanos(self.0.load(Ordering::Acquire));
        Duration::from_nanos(now.since(since).nanos())
    }
}
