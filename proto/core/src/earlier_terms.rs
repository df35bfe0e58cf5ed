//! The time since which no leader of an earlier term can have confirmed a report.
//!
//! A leader confirms a report only after a quorum has acknowledged a call that was made after the report had
//! arrived. Each voter therefore remembers, on its own clock, when it was last called by a leader of an earlier
//! term, and sends a new leader the time since then. A voter that has answered a new leader acknowledges no
//! earlier one any more. The voters of a quorum meet the quorum of every barrier that an earlier leader
//! completed, so the latest of their times is after the arrival of every report that it confirmed.
//!
//! ```text
//!  old leader   report ──► barrier ──► (dies)
//!  voter                      ack ·······················► "12 s ago" ─┐
//!  new leader                            elected ──► append ──────────┴─► nothing was confirmed for 12 s
//! ```
//!
//! A voter that was started again has forgotten what it acknowledged. Its start is later than that, and counts
//! instead.

use crate::planted::{self, Bug};
use crate::unit::{NodeId, Span, Term, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Memory of one voter: when leaders called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcknowledgedTerms {
    /// The greatest term of a leader that called.
    term: Term,
    /// The last call in that term.
    latest: Tick,
    /// The last call in any lower term.
    earlier: Tick,
}

impl AcknowledgedTerms {
    /// Returns the memory of a voter that was started at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        let start = match planted::is(Bug::RestartForgetsCalls) {
            true => Tick::ZERO,
            false => now,
        };
        Self {
            term: Term::new(0),
            latest: start,
            earlier: start,
        }
    }

    /// Notes a call of the leader of `term`, before it is answered. A leader notes its own barriers here, when
    /// they begin: it belongs to their quorums.
    pub fn called(&mut self, term: Term, now: Tick) {
        if term > self.term {
            self.earlier = self.earlier.max(self.latest);
            self.term = term;
            self.latest = now;
        } else if term == self.term {
            self.latest = self.latest.max(now);
        } else {
            self.earlier = self.earlier.max(now);
        }
    }

    /// Returns the time of the last call in a lower term than `term`, or of the start if that is later. `None` if
    /// a leader of a higher term has called.
    #[must_use]
    pub fn before(&self, term: Term) -> Option<Tick> {
        match term.cmp(&self.term) {
            core::cmp::Ordering::Less => None,
            core::cmp::Ordering::Equal => Some(self.earlier),
            core::cmp::Ordering::Greater => Some(self.earlier.max(self.latest)),
        }
    }
}

/// The answers of voters to the leader of one term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EarlierTerms {
    term: Term,
    /// The last call of an earlier leader at each voter that answered, on this leader's clock. `None` for a voter
    /// that did not send it.
    last: BTreeMap<NodeId, Option<Tick>>,
}

impl EarlierTerms {
    /// Takes the answer of a voter to a call in `term`, which arrived at `now`. Before the answer was sent, no
    /// leader of an earlier term had called for `quiet`.
    ///
    /// The answer took some time, so that the call was earlier than `now - quiet`: any error makes the leader
    /// wait longer.
    pub fn answered(&mut self, voter: NodeId, term: Term, quiet: Option<Span>, now: Tick) {
        if term < self.term {
            return;
        }
        if term > self.term {
            self.term = term;
            self.last.clear();
        }
        let last = quiet.map(|quiet| now.before(quiet));
        let known = self.last.entry(voter).or_insert(last);
        *known = match (*known, last) {
            (Some(known), Some(last)) => Some(known.min(last)),
            (known, last) => known.or(last),
        };
    }

    /// Returns a time after which no leader of a term before `term` confirmed any report that arrived later, once
    /// a quorum has answered. `own` is what this node's memory has, and `quorums` are the sets of voters, of each
    /// of which a majority makes a quorum.
    ///
    /// `None` if some voter answers without telling: it runs a version that does not know the rule.
    #[must_use]
    pub fn until<'a>(
        &self,
        term: Term,
        (me, own): (NodeId, Tick),
        quorums: impl Iterator<Item = &'a BTreeSet<NodeId>>,
    ) -> Option<Tick> {
        if self.term > term || self.term == term && self.last.values().any(Option::is_none) {
            return None;
        }
        let mut until = own;
        for voters in quorums {
            let reported = voters.iter().filter_map(|voter| match *voter == me {
                true => Some(own),
                false if self.term == term => self.last.get(voter).copied().flatten(),
                false => None,
            });
            let mut reported: Vec<Tick> = reported.collect();
            reported.sort_unstable();
            let half = voters.len().checked_div(2).unwrap_or(0);
            let which = match planted::is(Bug::FirstVoterTrusted) {
                true => 0,
                false => half,
            };
            let latest = reported.get(half).and_then(|_| reported.get(which))?;
            until = match planted::is(Bug::FirstVoterTrusted) {
                true => until.min(*latest),
                false => until.max(*latest),
            };
        }
        Some(until)
    }
}
