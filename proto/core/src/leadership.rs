//! Confirming, granting and reclaiming: what a leader may do, and when.
//!
//! ```text
//!            elected            own entry applied
//!  Follower ─────────► Elected ───────────────────►  Ready
//!     ▲                   │                             │
//!     └──────────────── deposed ◄───────────────────────┘
//! ```
//!
//! A leader that is not yet ready does nothing at all.
//!
//! Once ready, it confirms a report only through a barrier: a round trip to a quorum that *began after the
//! report had arrived*. No later leader can then have been ready when the report was sent. The number of
//! barriers under way is bounded. At the bound, reports wait until one of them ends. If an old barrier were
//! given up for a new one instead, none would ever be answered where reports come faster than quorums answer.
//!
//! It reclaims an incarnation only when nothing confirmable has arrived from it for a whole lease of the
//! leader's own clock, counted at the earliest from the time at which it became ready (invariant 5 of
//! `docs/invariants.md`). From the moment at which it proposes that, the incarnation is never confirmed
//! again.

use crate::planted::{self, Bug};
use crate::unit::{Incarnation, Seq, Span, Term, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// One report that a barrier has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confirmation {
    /// Incarnation that sent the report.
    pub child: Incarnation,
    /// Sequence number of the report.
    pub seq: Seq,
    /// Arrival of the report: on the parent's side, the lease counts from here.
    pub received: Tick,
}

/// Identifies a barrier. An acknowledgement from another term is of no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Barrier(Term, u64);

/// Standing of an incarnation with this leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// Reports are confirmed.
    Live,
    /// No report is confirmed any more: a reclaim was proposed, or the incarnation leaves or is being
    /// removed.
    Fenced,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Member {
    standing: Standing,
    /// The latest arrival of a confirmed report, or the begin of readiness or of the incarnation.
    patient_from: Tick,
    confirmed: Seq,
    /// Used only by a planted bug.
    last_received: Tick,
}

/// The leadership of one node in one term.
///
/// The leader is *ready* from the time at which the first entry of its own term was applied. Only then
/// may it confirm, grant and reclaim.
#[derive(Debug, Hash)]
pub struct Leadership {
    term: Term,
    patience: Span,
    ready_since: Option<Tick>,
    members: BTreeMap<Incarnation, Member>,
    /// Reports that arrived and that no barrier covers yet: the latest of each incarnation.
    arrived: BTreeMap<Incarnation, Confirmation>,
    barriers: BTreeMap<Barrier, Vec<Confirmation>>,
    next_barrier: u64,
}

impl Leadership {
    /// Maximum number of barriers under way. At the maximum, the next waits until one ends.
    const BARRIERS_MAX: usize = 16;

    /// Returns the leadership of a node elected in `term`, not ready yet. `patience` is the nodes' lease.
    #[must_use]
    pub const fn elected(term: Term, patience: Span) -> Self {
        Self {
            term,
            patience,
            ready_since: None,
            members: BTreeMap::new(),
            arrived: BTreeMap::new(),
            barriers: BTreeMap::new(),
            next_barrier: 0,
        }
    }

    /// Returns the term.
    #[must_use]
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Returns the time at which the leader became ready, if it did.
    #[must_use]
    pub const fn ready_since(&self) -> Option<Tick> {
        self.ready_since
    }

    /// Returns the nodes' lease, as parents count it.
    #[must_use]
    pub const fn patience(&self) -> Span {
        self.patience
    }

    /// Raises the nodes' lease. Leases given before stay valid, so the wait never shrinks.
    pub fn extend_patience(&mut self, lease: Span) {
        self.patience = self.patience.max(lease);
    }

    /// Begins to lead: the first entry of the leader's own term was applied at `now`. Every incarnation in
    /// the book gets a whole lease from here, whatever the last leader decided.
    pub fn become_ready(&mut self, now: Tick, incarnations: impl Iterator<Item = Incarnation>) {
        self.ready_since = Some(now);
        for child in incarnations {
            self.begin(child, now);
        }
    }

    /// Adds an incarnation that began at `now`.
    pub fn begin(&mut self, child: Incarnation, now: Tick) {
        self.members.entry(child).or_insert(Member {
            standing: Standing::Live,
            patient_from: now,
            confirmed: Seq::new(0),
            last_received: now,
        });
    }

    /// Removes an incarnation whose reclaim was applied.
    pub fn end(&mut self, child: Incarnation) {
        self.members.remove(&child);
        self.arrived.remove(&child);
    }

    /// Fences an incarnation: it is never confirmed again.
    pub fn fence(&mut self, child: Incarnation) {
        if let Some(member) = self.members.get_mut(&child) {
            member.standing = Standing::Fenced;
        }
        self.arrived.remove(&child);
    }

    /// Returns true if an incarnation may still be confirmed and granted to.
    #[must_use]
    pub fn is_live(&self, child: Incarnation) -> bool {
        self.members
            .get(&child)
            .is_some_and(|member| member.standing == Standing::Live)
    }

    /// Takes a report that arrived at `now` from an incarnation that has received recent answers. A barrier
    /// that starts from now on may confirm it.
    pub fn arrived(&mut self, child: Incarnation, seq: Seq, now: Tick) {
        let fresh = self
            .members
            .get(&child)
            .is_some_and(|member| member.standing == Standing::Live && seq > member.confirmed);
        if !fresh {
            return;
        }
        let report = Confirmation {
            child,
            seq,
            received: now,
        };
        self.arrived.insert(child, report);
        if planted::is(Bug::BarrierCoversLate) {
            for covered in self.barriers.values_mut() {
                covered.push(report);
            }
        }
    }

    /// Starts a barrier, if the leader is ready and a report waits for one.
    ///
    /// The caller sends the barrier's first message after this call. It ends every barrier: by
    /// [`Leadership::acknowledged`] once a quorum has answered, or by [`Leadership::failed`].
    pub fn start_barrier(&mut self) -> Option<Barrier> {
        let all_under_way = self.barriers.len() >= Self::BARRIERS_MAX;
        if self.arrived.is_empty()
            || (all_under_way && !planted::is(Bug::OldestBarrierGivenUp))
            || (self.ready_since.is_none() && !planted::is(Bug::ConfirmsBeforeReady))
        {
            return None;
        }
        let barrier = Barrier(self.term, self.next_barrier);
        self.next_barrier = self.next_barrier.checked_add(1)?;
        let covered = core::mem::take(&mut self.arrived).into_values().collect();
        self.barriers.insert(barrier, covered);
        if self.barriers.len() > Self::BARRIERS_MAX
            && let Some(&oldest) = self.barriers.keys().next()
        {
            self.failed(oldest);
        }
        Some(barrier)
    }

    /// Ends a barrier that a quorum answered. This node led when the barrier started, so the reports that had
    /// arrived by then are confirmed. Barriers that started before it end too: what they cover had arrived by
    /// then as well.
    pub fn acknowledged(&mut self, barrier: Barrier) -> Vec<Confirmation> {
        if !self.barriers.contains_key(&barrier) {
            return Vec::new();
        }
        let mut ended = self.barriers.split_off(&barrier);
        core::mem::swap(&mut ended, &mut self.barriers);
        ended.extend(self.barriers.remove_entry(&barrier));
        let mut confirmed = Vec::new();
        // Of two reports of one incarnation, the later one supersedes the other.
        for report in ended.into_values().rev().flatten() {
            let Some(member) = self.members.get_mut(&report.child) else {
                continue;
            };
            let fenced = member.standing == Standing::Fenced && !planted::is(Bug::FencedConfirmed);
            if fenced || report.seq <= member.confirmed {
                continue;
            }
            member.confirmed = report.seq;
            let from = if planted::is(Bug::PatienceLags) {
                core::mem::replace(&mut member.last_received, report.received)
            } else {
                report.received
            };
            member.patient_from = member.patient_from.max(from);
            confirmed.push(report);
        }
        confirmed
    }

    /// Ends a barrier that failed. The next one may cover its reports, unless later ones arrived.
    pub fn failed(&mut self, barrier: Barrier) {
        for report in self.barriers.remove(&barrier).unwrap_or_default() {
            if self.members.contains_key(&report.child) {
                let waits = self.arrived.entry(report.child).or_insert(report);
                // Barriers may fail in any order: the later report is kept.
                if report.seq > waits.seq {
                    *waits = report;
                }
            }
        }
    }

    /// Returns the incarnations whose lease is certainly over: nothing confirmable arrived for a whole lease.
    /// This call fences them, so that proposing their reclaim is safe.
    #[must_use]
    pub fn reclaimable(&mut self, now: Tick) -> BTreeSet<Incarnation> {
        let Some(ready_since) = self.ready_since else {
            return BTreeSet::new();
        };
        let mut over = BTreeSet::new();
        for (&child, member) in &mut self.members {
            let from = if planted::is(Bug::NoPatience) {
                member.patient_from.before(self.patience)
            } else {
                member.patient_from.max(ready_since)
            };
            if now.since(from) > self.patience {
                if !planted::is(Bug::FencedConfirmed) {
                    member.standing = Standing::Fenced;
                    self.arrived.remove(&child);
                }
                over.insert(child);
            }
        }
        over
    }
}
