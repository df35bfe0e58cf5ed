//! The client's side of central answers: what was asked, and until when a
//! verdict counts.
//!
//! ```text
//!  ask ──► pending ──admitted──► (permits) held ──release──► over
//!             │  ├──refused, moved──► over
//!             │  └──given up──► over, and released where it may have been booked
//!             └──the lease that it was asked under ends, or its session──► void
//! ```
//!
//! A verdict counts strictly before the end of the lease that the client had
//! when it asked, and once. A permit whose verdict comes too late, or to
//! nobody, is released again at once.

use crate::central::{Ask, Hops, Manner, Outcome, Release, Told};
use crate::lease::child_span;
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::unit::{BudgetId, Drift, Edge, Incarnation, RequestId, Span, Tick};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU64;

/// Why nothing was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskError {
    /// There is no lease: no node may decide for this client.
    NoLease,
    /// [`Asking::PENDING_MAX`] questions are under way.
    TooMany,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLease => "without a lease nothing can be asked",
            Self::TooMany => "too many questions are under way",
        })
    }
}

impl core::error::Error for AskError {}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The budget.
    pub budget: BudgetId,
    /// What it limits.
    pub kind: Kind,
    /// Whole tokens, or permits.
    pub cost: NonZeroU64,
    /// Whether it is asked again until it is admitted.
    pub manner: Manner,
}

/// What a client does about a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It answers this question: tell the caller.
    Counts(RequestId, Outcome),
    /// It answers nothing that is still asked, and took nothing that lasts.
    Ignored,
    /// It booked permits that nobody uses: send this.
    Undo(Release),
}

#[derive(Clone, Copy, Debug, Hash)]
struct Pending {
    ask: Ask,
    sent: Tick,
    void: Tick,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Held {
    release: Release,
    until: Tick,
}

/// A client's questions, through all its sessions.
#[derive(Clone, Debug, Hash)]
pub struct Asking {
    drift: Drift,
    next: RequestId,
    pending: BTreeMap<RequestId, Pending>,
    held: BTreeMap<RequestId, Held>,
}

impl Asking {
    /// So many questions are under way at once; callers beyond wait for one of them.
    pub const PENDING_MAX: usize = 256;

    /// Nothing was asked.
    #[must_use]
    pub const fn new(drift: Drift) -> Self {
        Self {
            drift,
            next: RequestId::new(1),
            pending: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// The cluster's bound on drift changed. Promises made before hold on, so it never shrinks.
    pub fn set_drift(&mut self, drift: Drift) {
        self.drift = self.drift.max(drift);
    }

    /// Asks, at `now`, on the session `edge` whose lease ends at `lease`.
    ///
    /// # Errors
    ///
    /// [`AskError`]; nothing is to be sent.
    pub fn ask(
        &mut self,
        question: Question,
        edge: Edge,
        lease: Tick,
        now: Tick,
    ) -> Result<Ask, AskError> {
        if now >= lease {
            return Err(AskError::NoLease);
        }
        // Who asks on another edge has left the one before.
        if self.pending.values().any(|of| of.ask.edge != edge) {
            self.end_session();
        }
        if self.pending.len() >= Self::PENDING_MAX {
            return Err(AskError::TooMany);
        }
        let request = self.next;
        self.next = request.next().ok_or(AskError::TooMany)?;
        let ask = Ask {
            edge,
            request,
            budget: question.budget,
            kind: question.kind,
            cost: question.cost,
            manner: question.manner,
            hops: Hops::Direct,
        };
        let pending = Pending {
            ask,
            sent: now,
            void: lease,
        };
        self.pending.insert(request, pending);
        Ok(ask)
    }

    /// Takes a verdict that arrived at `now`.
    pub fn handle(&mut self, told: &Told, now: Tick) -> Verdict {
        let pending = self.pending.get(&told.request).copied();
        let late = planted::is(Bug::LateVerdictHeeded);
        let counts = |pending: &Pending| {
            pending.ask.edge == told.edge && (now < self.until(pending, told.outcome) || late)
        };
        let Some(pending) = pending.filter(counts) else {
            return self.undo(told);
        };
        self.pending.remove(&told.request);
        if let Outcome::Admitted { by, hold, .. } = told.outcome
            && pending.ask.kind == Kind::Concurrency
        {
            let held = Held {
                release: release(told, by),
                until: pending.sent.after(child_span(hold, self.drift)),
            };
            self.held.insert(told.request, held);
        }
        Verdict::Counts(told.request, told.outcome)
    }

    /// A verdict counts within the lease, and permits only while they may be held.
    fn until(&self, pending: &Pending, outcome: Outcome) -> Tick {
        match outcome {
            Outcome::Admitted { hold, .. } if pending.ask.kind == Kind::Concurrency => {
                let over = pending.sent.after(child_span(hold, self.drift));
                pending.void.min(over)
            }
            _ => pending.void,
        }
    }

    fn undo(&self, told: &Told) -> Verdict {
        match told.outcome {
            Outcome::Admitted { by, hold, .. }
                if !hold.is_zero() && !self.held.contains_key(&told.request) =>
            {
                Verdict::Undo(release(told, by))
            }
            _ => Verdict::Ignored,
        }
    }

    /// The questions that were sent `after` ago and are not answered, to be
    /// sent again as they are: whoever decided one tells the same again.
    #[must_use]
    pub fn repeats(&self, after: Span, now: Tick) -> Vec<Ask> {
        let due = |pending: &&Pending| now.since(pending.sent) >= after && now < pending.void;
        let due = self.pending.values().filter(due);
        due.map(|pending| pending.ask).collect()
    }

    /// Questions whose lease has ended: void, whatever is told of them later.
    #[must_use]
    pub fn expire(&mut self, now: Tick) -> Vec<RequestId> {
        let over = |pending: &Pending| now >= pending.void;
        let void = self.pending.iter().filter(|(_, pending)| over(pending));
        let void = void.map(|(&request, _)| request).collect();
        self.pending.retain(|_, pending| !over(pending));
        self.held.retain(|_, held| now < held.until);
        void
    }

    /// Permits that were held for too long: they are cancelled, and these
    /// releases are to be sent.
    #[must_use]
    pub fn take_overheld(&mut self, now: Tick) -> Vec<Release> {
        let over = self.held.values().filter(|held| now >= held.until);
        let over = over.map(|held| held.release).collect();
        self.held.retain(|_, held| now < held.until);
        over
    }

    /// The session is over, or its lease ended before its time (another node,
    /// a closed edge, clocks that jumped): what is pending is void. Permits in
    /// flight go on.
    pub fn end_session(&mut self) {
        self.pending.clear();
    }

    /// The caller has gone. A verdict on its way will be undone.
    pub fn give_up(&mut self, request: RequestId) {
        self.pending.remove(&request);
    }

    /// Whether the permits of a question may be used at `now`.
    #[must_use]
    pub fn is_valid(&self, request: RequestId, now: Tick) -> bool {
        self.held.get(&request).is_some_and(|held| now < held.until)
    }

    /// Until when the permits of a question may be used, strictly; `None` if it has none.
    #[must_use]
    pub fn held_until(&self, request: RequestId) -> Option<Tick> {
        self.held.get(&request).map(|held| held.until)
    }

    /// The permits of a question are done with: what to send, once.
    pub fn release(&mut self, request: RequestId) -> Option<Release> {
        self.held.remove(&request).map(|held| held.release)
    }

    /// How many questions are under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

fn release(told: &Told, by: Incarnation) -> Release {
    Release {
        edge: told.edge,
        request: told.request,
        by,
        hops: Hops::Direct,
    }
}
