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
//! It reclaims an incarnation only when no leader can have confirmed a report of it that arrived within the last
//! lease (invariant 5 of `docs/invariants.md`). From the moment at which it proposes that, the incarnation is
//! never confirmed again. The time counts from the latest of these that applies:
//!
//! - the arrival of the last report that this leader confirmed,
//! - the beginning of a silence in the log,
//! - without a silence: the last confirmation by a leader of an earlier term, as far as a quorum knows
//!   ([`earlier_terms`](crate::earlier_terms)), or the time at which this leader became ready if none has answered.
//!
//! A **silence** is a log entry: its leader confirms no report of the incarnation any more, and records for how
//! long it has confirmed none. No leader confirms one before another entry has ended the silence. So a later
//! leader knows without asking how long the incarnation has been silent, and leaders that follow each other
//! quickly add up their waits.
//!
//! ```text
//!            silence proposed              reclaim proposed
//!  Live ───────────────────────► Silent ───────────────────► Fenced
//!    ▲                             │
//!    └──── end of it applied ──────┘  (proposed when a report arrives)
//! ```

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

/// Contact of this leader with an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Contact {
    /// Reports are confirmed.
    Live,
    /// A silence was proposed or is in the log. Reports wait until it has ended.
    Silent,
    /// No report is confirmed any more: a reclaim was proposed, or the incarnation leaves or is being
    /// removed.
    Fenced,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Member {
    contact: Contact,
    /// The latest arrival of a report that this leader confirmed, or the begin of the incarnation if this leader
    /// saw it, or of its silence. `None` if only an earlier leader can have confirmed one.
    patient_from: Option<Tick>,
    /// The latest arrival of a report, confirmed or not, or the time from which this leader listens.
    heard: Tick,
    /// True if a silence was proposed or is in the log.
    silenced: bool,
    /// A report that arrived during a silence.
    waits: Option<Confirmation>,
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
    /// No earlier leader confirmed a report that arrived later.
    earlier_until: Option<Tick>,
    /// True while every voter that has answered knows silences.
    voters_know_silences: bool,
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
            earlier_until: None,
            voters_know_silences: false,
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

    /// Begins to lead: the first entry of the leader's own term was applied at `now`. An incarnation in the book
    /// gets a whole lease from here, unless it is known that earlier leaders confirmed nothing of it for a while.
    pub fn become_ready(&mut self, now: Tick, incarnations: impl Iterator<Item = Incarnation>) {
        self.ready_since = Some(now);
        for child in incarnations {
            self.known(child, now);
        }
        for member in self.members.values_mut() {
            member.heard = now;
        }
    }

    /// Learns that no leader of an earlier term confirmed a report that arrived after `until`. `None` while no quorum
    /// has answered, or if a voter has answered that does not know silences.
    ///
    /// Call it before every round: a voter of an earlier version may answer after a quorum, and no silence may begin
    /// from then on.
    pub fn learn_earlier(&mut self, until: Option<Tick>) {
        let known_before = self.voters_know_silences && planted::is(Bug::LateVoterIgnored);
        self.voters_know_silences = until.is_some() || known_before;
        if let (Some(until), true) = (until, self.awaits_earlier()) {
            let known = self.earlier_until.get_or_insert(until);
            *known = until.min(*known);
        }
    }

    /// Returns true if some incarnation's wait depends on how long ago earlier leaders confirmed anything.
    ///
    /// The first quorum to answer may contain a voter that was just started, which knows of no call before its start.
    /// Later answers then shorten the wait.
    fn awaits_earlier(&self) -> bool {
        let mut members = self.members.values();
        let waits = members.any(|member| member.patient_from.is_none());
        self.earlier_until.is_none() || (waits && !planted::is(Bug::FirstQuorumKept))
    }

    /// Returns the time up to which an earlier leader may have confirmed reports.
    fn earlier(&self) -> Option<Tick> {
        self.earlier_until.or(self.ready_since)
    }

    /// Adds an incarnation that began at `now`.
    pub fn begin(&mut self, child: Incarnation, now: Tick) {
        self.known(child, now).patient_from.get_or_insert(now);
    }

    /// Adds an incarnation that began under an earlier leader, and to which this one listens from `now`.
    pub fn know(&mut self, child: Incarnation, now: Tick) {
        self.known(child, now);
    }

    fn known(&mut self, child: Incarnation, now: Tick) -> &mut Member {
        self.members.entry(child).or_insert(Member {
            contact: Contact::Live,
            patient_from: None,
            heard: now,
            silenced: false,
            waits: None,
            confirmed: Seq::new(0),
            last_received: now,
        })
    }

    /// Follows an applied entry by which an incarnation is silent `since` that time.
    pub fn begin_silence(&mut self, child: Incarnation, since: Tick) {
        let Some(member) = self.members.get_mut(&child) else {
            return;
        };
        member.silenced = true;
        member.patient_from = member.patient_from.max(Some(since));
        if member.contact == Contact::Live && !planted::is(Bug::SilentConfirmed) {
            member.contact = Contact::Silent;
        }
    }

    /// Follows an applied entry that ends a silence, or takes back a silence that was not proposed after all. A
    /// report that arrived meanwhile may be confirmed by the next barrier.
    pub fn end_silence(&mut self, child: Incarnation) {
        let Some(member) = self.members.get_mut(&child) else {
            return;
        };
        member.silenced = false;
        let waits = member.waits.take();
        if member.contact == Contact::Silent {
            member.contact = Contact::Live;
            self.arrived.extend(waits.map(|report| (child, report)));
        }
    }

    /// Returns the incarnations of which nothing arrived for `after`, at most `most`, with the time for which no
    /// report of them was confirmed. This call stops confirming them, so that proposing their silences is safe.
    ///
    /// Nothing is returned before it is known what earlier leaders confirmed, and while a voter that has answered does
    /// not know silences: it would stop at their entry.
    pub fn fall_silent(&mut self, after: Span, most: usize, now: Tick) -> Vec<(Incarnation, Span)> {
        let (Some(earlier), Some(_), true) = (
            self.earlier_until,
            self.ready_since,
            self.voters_know_silences,
        ) else {
            return Vec::new();
        };
        let quiet = |member: &Member| !member.silenced && now.since(member.heard) > after;
        let silent = self.members.iter_mut().filter(|(_, member)| quiet(member));
        let mut silences = Vec::new();
        for (&child, member) in silent.take(most) {
            member.silenced = true;
            if member.contact == Contact::Live {
                member.contact = Contact::Silent;
                self.arrived.remove(&child);
            }
            let from = member.patient_from.unwrap_or(earlier);
            silences.push((child, now.since(from)));
        }
        silences
    }

    /// Returns the silent incarnations of which a report has arrived, at most `most`: their silences are to be
    /// ended.
    #[must_use]
    pub fn heard_again(&self, most: usize) -> Vec<Incarnation> {
        let heard = self
            .members
            .iter()
            .filter(|(_, member)| member.contact == Contact::Silent && member.waits.is_some());
        heard.map(|(&child, _)| child).take(most).collect()
    }

    /// Removes an incarnation whose reclaim was applied.
    pub fn end(&mut self, child: Incarnation) {
        self.members.remove(&child);
        self.arrived.remove(&child);
    }

    /// Fences an incarnation: it is never confirmed again.
    pub fn fence(&mut self, child: Incarnation) {
        if let Some(member) = self.members.get_mut(&child) {
            member.contact = Contact::Fenced;
            member.waits = None;
        }
        self.arrived.remove(&child);
    }

    /// Returns true if an incarnation may still be confirmed and granted to.
    #[must_use]
    pub fn is_live(&self, child: Incarnation) -> bool {
        self.members
            .get(&child)
            .is_some_and(|member| member.contact != Contact::Fenced)
    }

    /// Takes a report that arrived at `now` from an incarnation that has received recent answers. A barrier
    /// that starts from now on may confirm it.
    pub fn arrived(&mut self, child: Incarnation, seq: Seq, now: Tick) {
        let Some(member) = self.members.get_mut(&child) else {
            return;
        };
        if member.contact == Contact::Fenced || seq <= member.confirmed {
            return;
        }
        member.heard = now;
        let report = Confirmation {
            child,
            seq,
            received: now,
        };
        if member.contact == Contact::Silent {
            member.waits = Some(report);
            return;
        }
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
            let confirmable = match member.contact {
                Contact::Live => true,
                Contact::Silent => planted::is(Bug::SilentConfirmed),
                Contact::Fenced => planted::is(Bug::FencedConfirmed),
            };
            if !confirmable || report.seq <= member.confirmed {
                continue;
            }
            member.confirmed = report.seq;
            let from = if planted::is(Bug::PatienceLags) {
                core::mem::replace(&mut member.last_received, report.received)
            } else {
                report.received
            };
            // A report may have arrived before this leader was ready.
            member.patient_from = member.patient_from.max(Some(from)).max(self.ready_since);
            confirmed.push(report);
        }
        confirmed
    }

    /// Ends a barrier that failed. The next one may cover its reports, unless later ones arrived.
    pub fn failed(&mut self, barrier: Barrier) {
        for report in self.barriers.remove(&barrier).unwrap_or_default() {
            let member = self.members.get(&report.child);
            if member.is_some_and(|member| member.contact == Contact::Live) {
                let waits = self.arrived.entry(report.child).or_insert(report);
                // Barriers may fail in any order: the later report is kept.
                if report.seq > waits.seq {
                    *waits = report;
                }
            }
        }
    }

    const fn a_sixth_less(span: Span) -> Span {
        Span::from_nanos(span.nanos() / 6).times_or_max(5)
    }

    /// Returns the incarnations whose lease is certainly over: nothing confirmable arrived for a whole lease.
    /// This call fences them, so that proposing their reclaim is safe.
    #[must_use]
    pub fn reclaimable(&mut self, now: Tick) -> BTreeSet<Incarnation> {
        let (Some(earlier), true) = (self.earlier(), self.ready_since.is_some()) else {
            return BTreeSet::new();
        };
        let mut over = BTreeSet::new();
        for (&child, member) in &mut self.members {
            let from = member.patient_from.unwrap_or(earlier);
            let patience = match planted::is(Bug::EarlierPatienceShort) {
                true if member.patient_from.is_none() => Self::a_sixth_less(self.patience),
                _ => self.patience,
            };
            if now.since(from) > patience || planted::is(Bug::NoPatience) {
                if !planted::is(Bug::FencedConfirmed) {
                    member.contact = Contact::Fenced;
                    member.waits = None;
                    self.arrived.remove(&child);
                }
                over.insert(child);
            }
        }
        over
    }
}
