//! Leases: durations, never deadlines.
//!
//! The clocks of two machines are never compared. A lease is a length of time that each side counts for
//! itself: the child from the instant at which it *sent* the report that the grant answers, the parent from
//! the instant at which it *received* that report. The child's sending comes first, so with equal clocks its
//! lease ends first. For clocks that run within ±ρ of true time, the child's length is made shorter by
//! [`child_span`].

use crate::planted::{self, Bug};
use crate::unit::{Drift, Seq, Span, Tick, mul_div_floor};
use alloc::collections::VecDeque;

const MILLION: u64 = 1_000_000;

/// Returns the lease that a child may count if its parent counts `parent`: `T_child ≤ T_parent · (1 − ρ) / (1
/// + ρ)`, rounded down.
///
/// Proof. The child's `T_child` takes at most `T_child / (1 − ρ)` of true time, the parent's `T_parent` at
/// least `T_parent / (1 + ρ)`, and the child's begins no later. The inverse is [`parent_span`].
#[must_use]
pub fn child_span(parent: Span, drift: Drift) -> Span {
    if planted::is(Bug::NoDriftMargin) {
        return parent;
    }
    let ppm = u64::from(drift.ppm());
    let (slow, fast) = (MILLION.saturating_sub(ppm), MILLION.saturating_add(ppm));
    mul_div_floor(parent.nanos(), slow, fast).map_or(Span::ZERO, Span::from_nanos)
}

/// Returns the time that a parent must wait for a child that counts `child`: the least `T_parent` with `child
/// ≤ child_span(T_parent)`, or the longest span if that is out of range.
#[must_use]
pub fn parent_span(child: Span, drift: Drift) -> Span {
    let ppm = u64::from(drift.ppm());
    let (slow, fast) = (MILLION.saturating_sub(ppm), MILLION.saturating_add(ppm));
    crate::unit::mul_div_ceil(child.nanos(), fast, slow).map_or(Span::MAX, Span::from_nanos)
}

/// The lease of a client whose process is young.
///
/// What a process holds when it is killed is idle until its lease ends. So its lease grows with the square of its age,
/// from a sixth of the cluster's lease to all of it at an age of four leases. Processes that are killed after a few
/// seconds then leave little behind, and older ones survive an outage of their node for as long as ever.
///
/// It is a lease like any other: the parent waits for the time that it sent to the child.
#[derive(Clone, Copy, Debug)]
pub struct YoungLease;

impl YoungLease {
    /// The shortest lease is one in this many of the cluster's lease.
    pub const ONE_IN: u64 = 6;

    /// Number of leases from which on a process is not young.
    pub const GROWS_FOR: u64 = 4;

    /// Returns the maximum lease of a process of this age, in a cluster with this lease. `None` if it is not young.
    #[must_use]
    pub fn most(age: Span, lease: Span) -> Option<Span> {
        let grown = lease.times_or_max(Self::GROWS_FOR);
        let per_age = |span: Span| mul_div_floor(span.nanos(), age.nanos(), grown.nanos());
        let squared = per_age(lease).and_then(|once| per_age(Span::from_nanos(once)))?;
        let least = lease.nanos() / Self::ONE_IN;
        (age < grown).then_some(Span::from_nanos(squared.max(least)))
    }

    /// Returns false if a lease of `span` cannot have been short because the process, of this age, is young: the
    /// cluster's lease is at most six times as long then, but for the drift of both clocks, and the process younger
    /// than four of those. The factor is more than twice that, for the time that messages take.
    fn may_be(span: Span, age: Span) -> bool {
        age < span.times_or_max(60)
    }
}

/// Returns the most that a clock within ±ρ of true time counts while `time` passes: `time · (1 + ρ)`, rounded up, or the
/// longest span if that is out of range. A clock that has counted it is past the end of `time`.
#[must_use]
pub fn longest_reading(time: Span, drift: Drift) -> Span {
    let fast = MILLION.saturating_add(u64::from(drift.ppm()));
    crate::unit::mul_div_ceil(time.nanos(), fast, MILLION).map_or(Span::MAX, Span::from_nanos)
}

/// State of a lease.
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
    /// The lease ran out: what was held must not be used. It may be renewed.
    Lapsed,
    /// The parent closed the edge. Only another edge can hold again.
    Closed,
}

/// Event of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseEvent {
    /// A confirmation arrived whose span has not run out.
    Renew,
    /// The clock passed the end, or the machine's clocks showed a jump.
    Expire,
    /// The parent closed the edge.
    Close,
    /// Another edge was opened in its place.
    Open,
}

impl LeaseState {
    /// Returns the state after `event`. This is the whole transition table.
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

/// The child's side of a lease: remembers the time at which it sent each report, and counts from there.
///
/// State invariant: `until` is the greatest `sent(seq) + span` of all confirmations received since the clocks
/// last jumped. Nothing else moves it back.
#[derive(Clone, Debug, Hash)]
pub struct ChildLease {
    state: LeaseState,
    until: Tick,
    /// Bound on the end of the lease that the parent had when it first renewed this one.
    inherited: Option<Tick>,
    last: Seq,
    /// Sending times of the latest reports, in the order of their numbers.
    sent: VecDeque<(Seq, Tick)>,
    /// Begin of the child's process, if its age was sent to the parent.
    began: Option<Tick>,
}

impl ChildLease {
    /// Number of reports whose sending time is remembered. At the shortest report interval (20 ms) they cover
    /// more than two default leases, so a confirmation of an older report would be useless anyway.
    pub const REMEMBERED: usize = 512;

    /// Returns the state without a lease and without reports.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: LeaseState::None,
            until: Tick::ZERO,
            inherited: None,
            last: Seq::new(0),
            sent: VecDeque::new(),
            began: None,
        }
    }

    /// Returns the state of the lease. It may have run out since it was last updated: see
    /// [`ChildLease::expire`].
    #[must_use]
    pub const fn state(&self) -> LeaseState {
        self.state
    }

    /// Returns the end of the lease on the child's own clock. The lease holds strictly before it.
    #[must_use]
    pub const fn until(&self) -> Tick {
        self.until
    }

    /// Returns true if the lease holds at `now`.
    #[must_use]
    pub fn holds(&self, now: Tick) -> bool {
        self.state == LeaseState::Held && now < self.until
    }

    /// Returns true if the parent's own lease was confirmed after it first renewed this one.
    ///
    /// A node that lost its quorum passes on what is left of its lease, and gives some of it to sessions that
    /// open meanwhile. Let that lease end at `E`, and let the first confirmation taken here be for `s`. It left
    /// with `s` to go, and arrived less than `s` after the report was sent, so `E < sent + 2·s` but for the drift
    /// of both clocks. A lease that ends after `sent + 3·s` comes from a later confirmation. If `s` may have been
    /// short because the process is young ([`YoungLease`]), up to six times as much was left of the node's lease:
    /// `10·s` instead.
    #[must_use]
    pub fn is_confirmed_anew(&self) -> bool {
        self.inherited.is_some_and(|end| self.until > end)
    }

    /// Records the time at which the process began, and that its age was sent to the parent.
    pub const fn tell_age(&mut self, began: Tick) {
        self.began = Some(began);
    }

    /// Returns the factor of a first lease within which the parent's own lease ends.
    fn inherits_most(&self, span: Span, now: Tick) -> u64 {
        match self.began {
            Some(began) if YoungLease::may_be(span, now.since(began)) => {
                YoungLease::ONE_IN.saturating_add(4)
            }
            _ => 3,
        }
    }

    /// Returns the number of the latest report sent.
    #[must_use]
    pub const fn last_sent(&self) -> Seq {
        self.last
    }

    /// Returns the number and the sending time of the latest report.
    pub(crate) fn sent_last(&self) -> Option<(Seq, Tick)> {
        self.sent.back().copied()
    }

    /// Numbers the report that is sent at `now`. Returns `None` once all numbers are used: the edge must end.
    #[must_use]
    pub fn send(&mut self, now: Tick) -> Option<Seq> {
        self.last = self.last.next()?;
        self.sent.push_back((self.last, now));
        while self.sent.len() > Self::REMEMBERED {
            self.sent.pop_front();
        }
        Some(self.last)
    }

    /// Returns the sending time of a report, if it is remembered. Numbers are consecutive, and answers name one of the
    /// last reports.
    fn sent_at(&self, seq: Seq) -> Option<Tick> {
        let later = self.last.get().checked_sub(seq.get())?;
        let later = usize::try_from(later).ok()?;
        let place = self.sent.len().checked_sub(1)?.checked_sub(later)?;
        self.sent.get(place).map(|&(_, sent)| sent)
    }

    /// Takes a confirmation of report `seq` for `span` that arrived at `now`. Returns true if the lease holds
    /// now.
    ///
    /// A number that was never sent is ignored. Of overlapping leases, the one that ends later counts. One
    /// that has already run out changes nothing.
    pub fn confirm(&mut self, seq: Seq, span: Span, now: Tick) -> bool {
        self.expire(now);
        let Some(sent) = self.sent_at(seq) else {
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
            let inherited = sent.after(span.times_or_max(self.inherits_most(span, now)));
            self.inherited.get_or_insert(inherited);
            self.until = if planted::is(Bug::ShortGrantWins) {
                until
            } else {
                self.until.max(until)
            };
        }
        self.holds(now)
    }

    /// Ends the lease if `now` has reached its end. Returns true if it ended with this call.
    pub fn expire(&mut self, now: Tick) -> bool {
        if self.state == LeaseState::Held && now >= self.until {
            self.state = self.state.after(LeaseEvent::Expire);
            return true;
        }
        false
    }

    /// Ends the lease at `now` at the latest, because the machine's clocks disagree about the time that
    /// passed. Returns true if a lease was held.
    pub fn jump(&mut self, now: Tick) -> bool {
        // Reports before the jump were timed by a clock that missed a part of it. A confirmation still under
        // way would hold for too long.
        self.sent.clear();
        // Not earlier: what was used is compared with what the bucket made until the end of the lease.
        let end = if planted::is(Bug::JumpEndsAtZero) {
            Tick::ZERO
        } else {
            now
        };
        self.until = self.until.min(end);
        let held = self.state == LeaseState::Held;
        self.state = self.state.after(LeaseEvent::Expire);
        held
    }

    /// Closes the edge, as the parent decided. Returns true if a lease was held.
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
