//! Leases: durations, never deadlines.
//!
//! No two machines' clocks are ever compared. A lease is a length of time that
//! each side counts for itself: the child from the instant it *sent* the
//! report that the grant answers, the parent from the instant it *received*
//! that report. The child's sending comes first, so with equal clocks its
//! lease ends first; for clocks that run within ±ρ of true time the child's
//! length is shorter by [`child_span`].

use crate::planted::{self, Bug};
use crate::unit::{Drift, Seq, Span, Tick};
use alloc::collections::BTreeMap;

const MILLION: u64 = 1_000_000;

/// How long a child may count where its parent counts `parent`:
/// `T_child ≤ T_parent · (1 − ρ) / (1 + ρ)`, rounded down.
///
/// Proof. The child's `T_child` takes at most `T_child / (1 − ρ)` of true
/// time, the parent's `T_parent` at least `T_parent / (1 + ρ)`, and the
/// child's begins no later. The one formula for drift in the whole system;
/// the inverse is [`parent_span`].
#[must_use]
pub fn child_span(parent: Span, drift: Drift) -> Span {
    if planted::is(Bug::NoDriftMargin) {
        return parent;
    }
    let ppm = u64::from(drift.ppm());
    let (slow, fast) = (MILLION.saturating_sub(ppm), MILLION.saturating_add(ppm));
    crate::unit::mul_div_floor(parent.nanos(), slow, fast).map_or(Span::ZERO, Span::from_nanos)
}

/// How long a parent must wait for a child that counts `child`: the least
/// `T_parent` with `child ≤ child_span(T_parent)`; the longest span if that is
/// out of range.
#[must_use]
pub fn parent_span(child: Span, drift: Drift) -> Span {
    let ppm = u64::from(drift.ppm());
    let (slow, fast) = (MILLION.saturating_sub(ppm), MILLION.saturating_add(ppm));
    crate::unit::mul_div_ceil(child.nanos(), fast, slow).map_or(Span::MAX, Span::from_nanos)
}

/// Where a lease stands.
///
/// ```text
///          renew              renew
///        ┌───────┐          ┌───────┐
///  None ─┴──► Held ─────────┴► Held
///   ▲          │ expiry, jump     │ close
///   │          ▼                  ▼
///   └─ renew Lapsed ──── close ─► Closed ── open ──► None (another edge)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseState {
    /// Nothing was ever granted on this edge.
    None,
    /// The lease runs.
    Held,
    /// It ran out; what was held must not be used. It may be renewed.
    Lapsed,
    /// The parent closed the edge; only another edge can hold again.
    Closed,
}

/// What can happen to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseEvent {
    /// A confirmation whose span has not run out.
    Renew,
    /// The clock passed the end, or the machine's clocks showed a jump.
    Expire,
    /// The parent said that the edge is closed.
    Close,
    /// Another edge was opened in its place.
    Open,
}

impl LeaseState {
    /// The state after `event`: the whole table, and nothing else decides.
    #[must_use]
    pub const fn after(self, event: LeaseEvent) -> Self {
        match (self, event) {
            (Self::Closed, LeaseEvent::Renew | LeaseEvent::Expire) => Self::Closed,
            (_, LeaseEvent::Close) => Self::Closed,
            (_, LeaseEvent::Open) => Self::None,
            (_, LeaseEvent::Renew) => Self::Held,
            (Self::Held, LeaseEvent::Expire) => Self::Lapsed,
            (Self::None | Self::Lapsed, LeaseEvent::Expire) => self,
        }
    }
}

/// The child's side of a lease: remembers when it sent each report, and counts
/// from there.
///
/// State invariant: `until` is the greatest `sent(seq) + span` of all
/// confirmations received since the clocks last jumped; nothing else moves it back.
#[derive(Clone, Debug, Hash)]
pub struct ChildLease {
    state: LeaseState,
    until: Tick,
    last: Seq,
    sent: BTreeMap<Seq, Tick>,
}

impl ChildLease {
    /// So many sendings are remembered. At the shortest report interval
    /// (20 ms) that is longer than two default leases, so the confirmation of
    /// a forgotten report would be of no use anyway.
    pub const REMEMBERED: usize = 512;

    /// No lease, and nothing sent.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: LeaseState::None,
            until: Tick::from_nanos(0),
            last: Seq::new(0),
            sent: BTreeMap::new(),
        }
    }

    /// Where the lease stands. It may have run out since it was last looked at: see [`ChildLease::expire`].
    #[must_use]
    pub const fn state(&self) -> LeaseState {
        self.state
    }

    /// The end of the lease on the child's own clock: it holds strictly before it.
    #[must_use]
    pub const fn until(&self) -> Tick {
        self.until
    }

    /// Whether the lease holds at `now`.
    #[must_use]
    pub fn holds(&self, now: Tick) -> bool {
        self.state == LeaseState::Held && now < self.until
    }

    /// The seq of the latest report sent.
    #[must_use]
    pub const fn last_sent(&self) -> Seq {
        self.last
    }

    /// Numbers the report that is being sent at `now`. `None` once all
    /// numbers are used: the edge must end.
    #[must_use]
    pub fn send(&mut self, now: Tick) -> Option<Seq> {
        self.last = self.last.next()?;
        self.sent.insert(self.last, now);
        while self.sent.len() > Self::REMEMBERED {
            self.sent.pop_first();
        }
        Some(self.last)
    }

    /// A confirmation of report `seq` for `span` arrived at `now`. Whether the
    /// lease is held now.
    ///
    /// A seq that was never sent is refused; of overlapping leases the one
    /// that ends later counts; one that has already run out changes nothing.
    pub fn confirm(&mut self, seq: Seq, span: Span, now: Tick) -> bool {
        self.expire(now);
        let Some(&sent) = self.sent.get(&seq) else {
            return self.holds(now);
        };
        let from = if planted::is(Bug::LeaseFromReceipt) {
            now
        } else {
            sent
        };
        let until = from.after(span);
        if until > now && self.state != LeaseState::Closed {
            self.state = self.state.after(LeaseEvent::Renew);
            self.until = if planted::is(Bug::ShortGrantWins) {
                until
            } else {
                self.until.max(until)
            };
        }
        self.holds(now)
    }

    /// Lets the lease run out if `now` has passed its end. Whether it did just now.
    pub fn expire(&mut self, now: Tick) -> bool {
        if self.state == LeaseState::Held && now >= self.until {
            self.state = self.state.after(LeaseEvent::Expire);
            return true;
        }
        false
    }

    /// Ends a lease that is held, because the machine's clocks disagree about
    /// the time that passed. Whether one was held.
    pub fn jump(&mut self) -> bool {
        // What was sent before the jump was timed by a clock that missed some
        // of it: a confirmation still under way would hold for too long.
        self.sent.clear();
        self.until = Tick::from_nanos(0);
        let held = self.state == LeaseState::Held;
        self.state = self.state.after(LeaseEvent::Expire);
        held
    }

    /// The parent closed the edge. Whether a lease was held.
    pub fn close(&mut self) -> bool {
        let held = self.state == LeaseState::Held;
        self.state = self.state.after(LeaseEvent::Close);
        held
    }
}

impl Default for ChildLease {
    fn default() -> Self {
        Self::new()
    }
}
