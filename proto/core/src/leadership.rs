//! What a leader may confirm, reclaim and grant, and when.
//!
//! ```text
//!            elected            own entry applied
//!  Follower ─────────► Elected ───────────────────► InOffice
//!     ▲                   │                             │
//!     └──────────────── deposed ◄───────────────────────┘
//! ```
//!
//! A leader that is not yet in office does nothing at all. In office it
//! confirms a report only through a barrier: a round trip to a quorum that
//! *began after the report had arrived*, so that no later leader can have been
//! in office when the report was sent. So many barriers may be under way, and
//! then reports wait for one of them to end: one that were given up for a later
//! one would never be answered where reports come faster than quorums. It reclaims a life only when it has
//! heard nothing confirmable of it for a whole lease of its own clock, counted
//! at the earliest from its own office (invariant 5 of `docs/invariants.md`),
//! and from the moment it proposes that, the life is never confirmed again.

use crate::planted::{self, Bug};
use crate::unit::{Incarnation, Seq, Span, Term, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// One report that a barrier has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confirmation {
    /// Whose report.
    pub child: Incarnation,
    /// Which one.
    pub seq: Seq,
    /// When it arrived: the lease, on the parent's side, counts from here.
    pub received: Tick,
}

/// Names a barrier. An acknowledgement of one term's says nothing in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Barrier(Term, u64);

/// How a life stands with this leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// It is confirmed as it reports.
    Live,
    /// It gets no more confirmations: a reclaim was proposed, or it is being removed, or it squats.
    Doomed,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Member {
    standing: Standing,
    /// The latest arrival of a confirmed report, or the beginning of office or life.
    patient_from: Tick,
    confirmed: Seq,
    /// Used by a planted bug alone.
    last_received: Tick,
}

/// The leadership of one node in one term.
#[derive(Debug, Hash)]
pub struct Leadership {
    term: Term,
    patience: Span,
    office: Option<Tick>,
    members: BTreeMap<Incarnation, Member>,
    /// Reports that arrived and that no barrier covers yet: the latest of each life.
    arrived: BTreeMap<Incarnation, Confirmation>,
    barriers: BTreeMap<Barrier, Vec<Confirmation>>,
    next_barrier: u64,
}

impl Leadership {
    /// So many barriers may be under way; then the next waits until one ends.
    const BARRIERS_MAX: usize = 16;

    /// Elected in `term`; not in office. `patience` is the nodes' lease.
    #[must_use]
    pub const fn elected(term: Term, patience: Span) -> Self {
        Self {
            term,
            patience,
            office: None,
            members: BTreeMap::new(),
            arrived: BTreeMap::new(),
            barriers: BTreeMap::new(),
            next_barrier: 0,
        }
    }

    /// The term.
    #[must_use]
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Since when the leader is in office, if it is.
    #[must_use]
    pub const fn office(&self) -> Option<Tick> {
        self.office
    }

    /// The nodes' lease, as parents count it.
    #[must_use]
    pub const fn patience(&self) -> Span {
        self.patience
    }

    /// The nodes' lease changed. Promises made before hold on, so the wait never shrinks.
    pub fn extend_patience(&mut self, lease: Span) {
        self.patience = self.patience.max(lease);
    }

    /// The first entry of the own term was applied at `now`: every life in the
    /// book gets a whole lease from here, whatever the last leader thought.
    pub fn take_office(&mut self, now: Tick, lives: impl Iterator<Item = Incarnation>) {
        self.office = Some(now);
        for child in lives {
            self.begin(child, now);
        }
    }

    /// A life began at `now`.
    pub fn begin(&mut self, child: Incarnation, now: Tick) {
        self.members.entry(child).or_insert(Member {
            standing: Standing::Live,
            patient_from: now,
            confirmed: Seq::new(0),
            last_received: now,
        });
    }

    /// A life is over: its reclaim was applied.
    pub fn end(&mut self, child: Incarnation) {
        self.members.remove(&child);
        self.arrived.remove(&child);
    }

    /// From now on a life is never confirmed again.
    pub fn doom(&mut self, child: Incarnation) {
        if let Some(member) = self.members.get_mut(&child) {
            member.standing = Standing::Doomed;
        }
        self.arrived.remove(&child);
    }

    /// Whether a life may still be confirmed and granted to.
    #[must_use]
    pub fn is_live(&self, child: Incarnation) -> bool {
        self.members
            .get(&child)
            .is_some_and(|member| member.standing == Standing::Live)
    }

    /// A report arrived at `now` from a life that hears: a barrier that starts
    /// from now on may confirm it.
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

    /// Starts a barrier, if the leader is in office and a report waits for one.
    ///
    /// The caller sends the barrier's first message after this call, and ends
    /// every barrier: by [`Leadership::acknowledged`] once a quorum has
    /// answered, or by [`Leadership::failed`].
    pub fn start_barrier(&mut self) -> Option<Barrier> {
        let all_under_way = self.barriers.len() >= Self::BARRIERS_MAX;
        if self.arrived.is_empty()
            || (all_under_way && !planted::is(Bug::OldestBarrierGivenUp))
            || (self.office.is_none() && !planted::is(Bug::ConfirmsBeforeOffice))
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

    /// A quorum answered a barrier: this node led when the barrier started, so
    /// the reports that had arrived by then are confirmed. With it end those
    /// that started before it: what they cover had arrived by then, too.
    pub fn acknowledged(&mut self, barrier: Barrier) -> Vec<Confirmation> {
        if !self.barriers.contains_key(&barrier) {
            return Vec::new();
        }
        let mut ended = self.barriers.split_off(&barrier);
        core::mem::swap(&mut ended, &mut self.barriers);
        ended.extend(self.barriers.remove_entry(&barrier));
        let mut confirmed = Vec::new();
        // Of two reports of one life, the later one says all.
        for report in ended.into_values().rev().flatten() {
            let Some(member) = self.members.get_mut(&report.child) else {
                continue;
            };
            let doomed = member.standing == Standing::Doomed && !planted::is(Bug::DoomedConfirmed);
            if doomed || report.seq <= member.confirmed {
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

    /// A barrier failed: what it covered may be covered by the next, unless
    /// something later arrived.
    pub fn failed(&mut self, barrier: Barrier) {
        for report in self.barriers.remove(&barrier).unwrap_or_default() {
            if self.members.contains_key(&report.child) {
                let waits = self.arrived.entry(report.child).or_insert(report);
                // Barriers may fail in any order: the later report is the one that counts.
                if report.seq > waits.seq {
                    *waits = report;
                }
            }
        }
    }

    /// The lives whose lease is certainly over: nothing confirmable arrived
    /// for a whole lease. They are doomed by this call, so that proposing
    /// their reclaim is safe.
    #[must_use]
    pub fn reclaimable(&mut self, now: Tick) -> BTreeSet<Incarnation> {
        let Some(office) = self.office else {
            return BTreeSet::new();
        };
        let mut over = BTreeSet::new();
        for (&child, member) in &mut self.members {
            let from = if planted::is(Bug::NoPatience) {
                member.patient_from.before(self.patience)
            } else {
                member.patient_from.max(office)
            };
            if now.since(from) > self.patience {
                if !planted::is(Bug::DoomedConfirmed) {
                    member.standing = Standing::Doomed;
                    self.arrived.remove(&child);
                }
                over.insert(child);
            }
        }
        over
    }
}
