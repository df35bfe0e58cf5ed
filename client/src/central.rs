//! Questions to the home of a budget that is too small to divide: what callers
//! hand to the session, and what it hands back.
//!
//! ```text
//!  caller ── Errand::Ask ──► session ── Ask ──► node (and on to the home)
//!         ◄──── Answer ─────         ◄── Told ──
//!  dropped: Errand::GiveUp           ── Release ──►
//! ```
//!
//! Nothing of it is on the path of `try_acquire`.

use crate::key::Gate;
use crate::shared::Shared;
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::central::{Manner, Reason};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, RequestId, Span, Tick};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// What callers hand to the session. There are as many at most as callers: each
/// has one question, gives it up once, and releases a permit once.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Ask this.
    Ask(Question),
    /// Whoever asked has gone.
    GiveUp(u64),
    /// The permit of a question is over.
    Release(RequestId),
}

/// The way to the session.
pub(crate) type Errands = mpsc::UnboundedSender<Errand>;

/// A question on its way to the session.
#[derive(Debug)]
pub(crate) struct Question {
    /// Names it within the process.
    pub(crate) ticket: u64,
    pub(crate) gate: Arc<Gate>,
    pub(crate) kind: Kind,
    pub(crate) cost: NonZeroU64,
    pub(crate) manner: Manner,
    pub(crate) reply: oneshot::Sender<Answer>,
    /// Its place among those that may be under way at once.
    pub(crate) room: OwnedSemaphorePermit,
}

/// What became of a question.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It was taken.
    Admitted(Grant),
    /// It was not.
    Refused {
        reason: Reason,
        retry_after: Option<Span>,
    },
    /// Nothing is known of it: another one may be asked at once.
    Void,
    /// There is no lease to ask under.
    NoLease,
}

/// What was taken at the home, between `asked_at` and `heard_at`.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) asked_at: Tick,
    pub(crate) heard_at: Tick,
    pub(crate) period: PeriodId,
    /// The permit, if it is one.
    pub(crate) booking: Option<Booking>,
}

/// A permit that the home has booked. It is released when this is dropped,
/// wherever the answer got to.
#[derive(Debug)]
pub(crate) struct Booking {
    request: RequestId,
    pub(crate) until: Tick,
    errands: Errands,
}

impl Booking {
    pub(crate) const fn new(request: RequestId, until: Tick, errands: Errands) -> Self {
        Self {
            request,
            until,
            errands,
        }
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        // A session that is over has nobody to tell.
        let _ = self.errands.send(Errand::Release(self.request));
    }
}

/// Since when no question has had an answer: since the first that was put after the last that was heard. An answer ends it
/// though whoever asked has gone.
#[derive(Debug)]
pub(crate) struct Silence(AtomicU64);

impl Default for Silence {
    fn default() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }
}

impl Silence {
    const NONE: u64 = u64::MAX;

    /// A question is put. The session's alone, as is what ends it.
    pub(crate) fn asked(&self, now: Tick) {
        if self.0.load(Ordering::Acquire) == Self::NONE {
            self.0.store(now.nanos(), Ordering::Release);
        }
    }

    /// An answer was heard, or what was asked is void.
    pub(crate) fn over(&self) {
        self.0.store(Self::NONE, Ordering::Release);
    }

    /// How long it has lasted.
    pub(crate) fn lasted(&self, now: Tick) -> Duration {
        let since = Tick::from_nanos(self.0.load(Ordering::Acquire));
        Duration::from_nanos(now.since(since).nanos())
    }
}

/// Asks, and waits for what becomes of it. Dropped meanwhile, the question is given up.
pub(crate) async fn ask(
    shared: &Shared,
    gate: &Arc<Gate>,
    kind: Kind,
    cost: NonZeroU64,
    manner: Manner,
) -> Answer {
    // The semaphore is never closed.
    let Ok(room) = Arc::clone(&shared.room).acquire_owned().await else {
        return Answer::Void;
    };
    let ticket = shared.tickets.fetch_add(1, Ordering::Relaxed);
    let (reply, answer) = oneshot::channel();
    let question = Question {
        ticket,
        gate: Arc::clone(gate),
        kind,
        cost,
        manner,
        reply,
        room,
    };
    if shared.errands.send(Errand::Ask(question)).is_err() {
        return Answer::NoLease;
    }
    let mut under_way = UnderWay {
        ticket: Some(ticket),
        errands: &shared.errands,
    };
    let answer = answer.await;
    under_way.ticket = None;
    // A session that ends answers nobody.
    answer.unwrap_or(Answer::NoLease)
}

/// A question that nobody has answered, until this is dropped.
struct UnderWay<'a> {
    ticket: Option<u64>,
    errands: &'a Errands,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let _ = self.errands.send(Errand::GiveUp(ticket));
        }
    }
}
