//! A model of the replicated log: elections, a quorum for every entry, and leaders that do not know yet that
//! they have been replaced.
//!
//! It is the smallest protocol of the Raft family with these properties. The simulation is about the software
//! above the log, not about the log itself.
//!
//! | included | left out |
//! |---|---|
//! | terms, votes, pre-votes (`trial`), logs that conflict and are truncated | changes of its own membership |
//! | commits by a quorum in the leader's own term; a leader refuses entries while it transfers its leadership | snapshots and compaction |
//! | barriers: a round trip to a quorum | disks that lose acknowledged writes |

use crate::clock::MS;
use aliquot_core::command::Command;
use aliquot_core::earlier_terms::{AcknowledgedTerms, EarlierTerms};
use aliquot_core::unit::{NodeId, Span, Term, Tick};
use std::collections::BTreeSet;
use std::rc::Rc;

#[derive(Clone, Debug, Hash)]
pub(crate) struct Entry {
    pub(crate) term: u64,
    pub(crate) command: Option<Rc<Command>>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) enum LogMessage {
    /// A candidate's request for votes. A `trial` is a pre-vote, which changes no node's term.
    RequestVote {
        term: u64,
        last: (u64, u64),
        trial: bool,
    },
    Vote {
        term: u64,
        trial: bool,
    },
    Append {
        term: u64,
        prev: (u64, u64),
        entries: Vec<Entry>,
        commit: u64,
        probe: u64,
    },
    Appended {
        term: u64,
        matched: Result<u64, u64>,
        probe: u64,
        /// Time since the last call of a leader of an earlier term.
        quiet: Span,
    },
    Newer {
        term: u64,
    },
    /// The leader's request that the receiver starts an election at once.
    Stand {
        term: u64,
    },
}

/// A leader's knowledge of the other nodes, by node.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    pub(super) next: Vec<u64>,
    pub(super) matched: Vec<u64>,
    pub(super) probed: Vec<u64>,
    pub(super) heard: Vec<u64>,
    /// Time since which a transfer of leadership is under way. Meanwhile the leader appends nothing.
    pub(super) handing: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) enum Role {
    Follower,
    Candidate { trial: bool, votes: Vec<bool> },
    Leader(Peers),
}

/// Events of a log, for marks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    /// Entries were truncated because of a conflict.
    pub(crate) conflict: bool,
    /// An append was refused because the entry before it was missing.
    pub(crate) gap: bool,
    /// An election had no winner.
    pub(crate) lost: bool,
}

/// One node's part of the log. Its entries, term and vote survive a crash.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) me: usize,
    pub(super) size: usize,
    pub(crate) term: u64,
    pub(super) voted: Option<usize>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) commit: u64,
    pub(super) role: Role,
    pub(crate) hint: Option<usize>,
    pub(super) probe: u64,
    /// Calls of leaders, as this node remembers them.
    pub(super) calls: AcknowledgedTerms,
    /// Answers of the other nodes about earlier leaders, while this node leads.
    pub(super) earlier: EarlierTerms,
    pub(super) heard: u64,
    /// Silence of a leader after which a follower begins its random wait before an election, in nanoseconds of its
    /// own clock. For as long, as in openraft, it supports no other candidate.
    pub(super) silence_max: u64,
    pub(super) patience: u64,
    /// Set while the disk fails all writes.
    pub(crate) broken: bool,
    /// Time by which a slow disk makes entries durable later than usual, in nanoseconds.
    pub(crate) slower: u64,
    /// Events since the last time that they were read.
    pub(crate) noted: Noted,
    pub(crate) out: Vec<(usize, LogMessage)>,
}

impl Log {
    const BATCH: usize = 64;

    pub(crate) fn new(me: usize, size: usize, silence_max: u64) -> Self {
        Self {
            me,
            size,
            term: 0,
            voted: None,
            entries: Vec::new(),
            commit: 0,
            role: Role::Follower,
            hint: None,
            probe: 0,
            calls: AcknowledgedTerms::new(Tick::ZERO),
            earlier: EarlierTerms::default(),
            heard: 0,
            silence_max,
            patience: silence_max,
            broken: false,
            slower: 0,
            noted: Noted {
                conflict: false,
                gap: false,
                lost: false,
            },
            out: Vec::new(),
        }
    }

    pub(super) const fn majority(&self) -> usize {
        self.size / 2 + 1
    }

    pub(crate) const fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Restarts on the same disk, with this election timeout.
    pub(crate) fn restart(&mut self, now: u64, patience: u64) {
        self.role = Role::Follower;
        self.hint = None;
        (self.heard, self.patience) = (now, patience);
        self.calls = AcknowledgedTerms::new(Tick::from_nanos(now));
        self.out.clear();
    }

    pub(super) fn last(&self) -> (u64, u64) {
        let index = self.entries.len() as u64;
        (self.term_at(index), index)
    }

    fn term_at(&self, index: u64) -> u64 {
        match index {
            0 => 0,
            _ => {
                let entry = self.entries.get(index as usize - 1);
                entry.map_or(u64::MAX, |entry| entry.term)
            }
        }
    }

    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.size).filter(move |&node| node != me)
    }

    /// Appends a command, if this node believes that it leads and is not transferring its leadership.
    pub(crate) fn propose(&mut self, command: Command) -> bool {
        let leads = matches!(&self.role, Role::Leader(peers) if peers.handing.is_none());
        if !leads || self.broken {
            return false;
        }
        self.entries.push(Entry {
            term: self.term,
            command: Some(Rc::new(command)),
        });
        self.count_up();
        self.replicate();
        true
    }

    /// Starts a round trip to a quorum, and returns its number.
    pub(crate) fn probe(&mut self, now: Tick) -> u64 {
        self.calls.called(Term::new(self.term), now);
        self.probe += 1;
        self.replicate();
        self.probe
    }

    /// Returns the latest round trip of this term that a quorum has answered.
    pub(crate) fn probed(&self) -> u64 {
        match &self.role {
            Role::Leader(peers) => self.by_quorum(&peers.probed, self.probe),
            _ => 0,
        }
    }

    /// Returns the time after which no earlier leader confirmed a report that arrived later, if this node leads
    /// and a quorum has answered.
    pub(crate) fn earlier_until(&self) -> Option<Tick> {
        let term = Term::new(self.term);
        let own = self.calls.before(term).filter(|_| self.is_leader())?;
        let voters: BTreeSet<NodeId> = (0..self.size).map(id).collect();
        self.earlier
            .until(term, (id(self.me), own), [&voters].into_iter())
    }

    /// Returns the greatest number that a quorum has reached. The other nodes are at `theirs`, this node is
    /// at `mine`.
    fn by_quorum(&self, theirs: &[u64], mine: u64) -> u64 {
        let others = || self.others().map(|node| theirs[node]);
        let has = |least: u64| {
            let reached = others().filter(|&reached| reached >= least).count();
            reached + usize::from(mine >= least)
        };
        let mut most = 0;
        for least in others().chain([mine]) {
            if least > most && has(least) >= self.majority() {
                most = least;
            }
        }
        most
    }

    /// Sends heartbeats, starts elections, and lets a leader step down that hears no quorum. `draw` is the
    /// next election timeout, used if the present one has passed.
    pub(crate) fn tick(&mut self, now: u64, draw: u64) {
        if let Role::Leader(peers) = &mut self.role {
            // If the other node has not taken over by then, the request was lost, and the leader goes on.
            let waits = |since: &u64| now.saturating_sub(*since) < self.silence_max;
            peers.handing = peers.handing.filter(waits);
            let (me, doubt) = (self.me, 2 * self.silence_max);
            let fresh = |heard: &u64| now.saturating_sub(*heard) < doubt;
            let heard = peers.heard.iter().enumerate();
            let heard_from = heard
                .filter(|(of, heard)| *of != me && fresh(heard))
                .count();
            if heard_from + 1 < self.majority() {
                self.step_down(now);
                return;
            }
            self.replicate();
        } else if now.saturating_sub(self.heard) > self.silence() + self.patience {
            self.patience = draw;
            self.heard = now;
            self.hint = None;
            self.noted.lost |= matches!(self.role, Role::Candidate { .. });
            self.stand(true);
        }
    }

    /// Returns the silence of a leader after which the random wait begins.
    pub(super) fn silence(&self) -> u64 {
        self.hint.map_or(0, |_| self.silence_max)
    }

    pub(super) fn replicate(&mut self) {
        let Role::Leader(peers) = &self.role else {
            return;
        };
        let next = peers.next.clone();
        for to in self.others() {
            let from = next[to].min(self.entries.len() as u64 + 1);
            let rest = &self.entries[from as usize - 1..];
            let message = LogMessage::Append {
                term: self.term,
                prev: (from - 1, self.term_at(from - 1)),
                entries: rest[..rest.len().min(Self::BATCH)].to_vec(),
                commit: self.commit,
                probe: self.probe,
            };
            self.out.push((to, message));
        }
    }

    pub(super) fn sees(&mut self, term: u64) {
        if term > self.term {
            self.term = term;
            self.voted = None;
            self.role = Role::Follower;
        }
    }

    pub(crate) fn handle(&mut self, from: usize, message: &LogMessage, now: u64) {
        match message {
            LogMessage::RequestVote { term, last, trial } => {
                self.asked(from, *term, *last, *trial, now)
            }
            LogMessage::Vote { term, trial } => self.elect(from, *term, *trial, now),
            LogMessage::Append { term, .. } if *term < self.term => {
                let term = self.term;
                self.out.push((from, LogMessage::Newer { term }));
            }
            LogMessage::Append {
                term,
                prev,
                entries,
                commit,
                probe,
            } => {
                self.sees(*term);
                self.role = Role::Follower;
                (self.heard, self.hint) = (now, Some(from));
                let (sender_term, tick) = (Term::new(*term), Tick::from_nanos(now));
                self.calls.called(sender_term, tick);
                if self.broken {
                    return;
                }
                let matched = self.append(*prev, entries, *commit);
                let (term, probe) = (*term, *probe);
                let earlier = self.calls.before(sender_term).unwrap_or(tick);
                self.out.push((
                    from,
                    LogMessage::Appended {
                        term,
                        matched,
                        probe,
                        quiet: tick.since(earlier),
                    },
                ));
            }
            LogMessage::Appended {
                term,
                matched,
                probe,
                quiet,
            } => {
                self.sees(*term);
                if *term == self.term {
                    let (sender_term, tick) = (Term::new(*term), Tick::from_nanos(now));
                    self.earlier
                        .answered(id(from), sender_term, Some(*quiet), tick);
                    self.appended(from, *matched, *probe, now);
                }
            }
            LogMessage::Newer { term } => self.sees(*term),
            LogMessage::Stand { term } if *term == self.term && !self.is_leader() => {
                self.stand(false)
            }
            LogMessage::Stand { .. } => {}
        }
    }

    fn append(&mut self, prev: (u64, u64), entries: &[Entry], commit: u64) -> Result<u64, u64> {
        if self.term_at(prev.0) != prev.1 {
            self.noted.gap = true;
            return Err(self.commit.min(prev.0));
        }
        let mut index = prev.0;
        for entry in entries {
            index += 1;
            if self.term_at(index) != entry.term {
                self.noted.conflict |= self.entries.len() as u64 >= index;
                self.entries.truncate(index as usize - 1);
                self.entries.push(entry.clone());
            }
        }
        self.commit = self.commit.max(commit.min(index));
        Ok(index)
    }

    fn appended(&mut self, from: usize, matched: Result<u64, u64>, probe: u64, now: u64) {
        let Role::Leader(peers) = &mut self.role else {
            return;
        };
        peers.heard[from] = now;
        peers.probed[from] = peers.probed[from].max(probe);
        match matched {
            Ok(index) => {
                peers.matched[from] = peers.matched[from].max(index);
                peers.next[from] = peers.matched[from] + 1;
            }
            Err(index) => peers.next[from] = index + 1,
        }
        // A node that has no more than the committed entries cannot advance the commit index.
        if peers.matched[from] > self.commit {
            self.count_up();
        }
    }

    /// Advances the commit index. Only an entry of the leader's own term commits by counting replicas.
    pub(super) fn count_up(&mut self) {
        let Role::Leader(peers) = &self.role else {
            return;
        };
        let held = self.by_quorum(&peers.matched, self.entries.len() as u64);
        if held > self.commit && self.term_at(held) == self.term {
            self.commit = held;
        }
    }
}

/// Returns the id of a node, by its index.
fn id(node: usize) -> NodeId {
    NodeId::new(node as u64 + 1)
}

/// Time after which a command that is not applied yet is submitted again.
pub(crate) const AGAIN: u64 = 500 * MS;

#[cfg(test)]
#[path = "../../tests/unit/world/log.rs"]
mod tests;
