//! Memory of the calls of leaders, and what other voters remember of them: see
//! [`aliquot_core::earlier_terms`].

use super::runtime::HostInstant;
use aliquot_core::earlier_terms::{AcknowledgedTerms, EarlierTerms};
use aliquot_core::unit::{NodeId, Span, Term, Tick};
use aliquot_wire::log::NEEDED_BY_SILENCES;
use openraft::Instant;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The memory of one node. It begins with the node's start.
///
/// Its clock may stop while the machine is suspended. Then less time seems to have passed, and leaders wait
/// longer.
#[derive(Debug)]
pub(super) struct EarlierCalls {
    start: HostInstant,
    /// False at a node of an earlier version, which neither sends nor uses any of this.
    knows_silences: bool,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    /// Calls of leaders to this node.
    calls: AcknowledgedTerms,
    /// Answers of other voters, while this node leads.
    answers: EarlierTerms,
}

impl EarlierCalls {
    pub(super) fn new(log_version: u32) -> Self {
        Self {
            start: HostInstant::now(),
            knows_silences: log_version >= NEEDED_BY_SILENCES,
            known: Mutex::new(Known {
                calls: AcknowledgedTerms::new(Tick::ZERO),
                answers: EarlierTerms::default(),
            }),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Tick {
        let since = HostInstant::now().saturating_duration_since(self.start);
        Tick::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Notes a call of the leader of a term, before it is carried out, or that this node begins a barrier as the
    /// leader of the term.
    pub(super) fn called(&self, term: u64) {
        let mut known = self.known();
        let now = self.now();
        known.calls.called(Term::new(term), now);
    }

    /// Returns the time for which no leader of a lower term has called. The call in `term` must have been
    /// accepted before, so that no lower term is acknowledged any more.
    pub(super) fn quiet(&self, term: u64) -> Option<Span> {
        let known = self.known();
        let earlier = known.calls.before(Term::new(term));
        let quiet = earlier.map_or(Span::ZERO, |earlier| self.now().since(earlier));
        self.knows_silences.then_some(quiet)
    }

    /// Takes a voter's answer to a call that this node made as the leader of a term.
    pub(super) fn answered(&self, voter: u64, term: u64, quiet: Option<Span>) {
        let mut known = self.known();
        let now = self.now();
        let (voter, term) = (NodeId::new(voter), Term::new(term));
        known.answers.answered(voter, term, quiet, now);
    }

    /// Returns the time since which no earlier leader can have confirmed anything, as far as a quorum has
    /// answered in `term`. `quorums` are the sets of voters.
    pub(super) fn age(&self, me: u64, term: u64, quorums: &[BTreeSet<u64>]) -> Option<Span> {
        if !self.knows_silences {
            return None;
        }
        let known = self.known();
        let (me, term) = (NodeId::new(me), Term::new(term));
        let own = known.calls.before(term)?;
        let voters = |set: &BTreeSet<u64>| set.iter().copied().map(NodeId::new).collect();
        let sets: Vec<BTreeSet<NodeId>> = quorums.iter().map(voters).collect();
        let until = known.answers.until(term, (me, own), sets.iter())?;
        Some(self.now().since(until))
    }
}
