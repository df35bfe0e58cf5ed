//! A replicated log, small and real: elections, a quorum for every entry, and leaders that do not know yet
//! that they are deposed.

use super::clock::MS;
use super::net::NODES;
use super::rng::Rng;
use aliquot_core::command::Command;
use std::rc::Rc;

pub(crate) const MAJORITY: usize = NODES / 2 + 1;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) term: u64,
    pub(crate) command: Option<Rc<Command>>,
}

#[derive(Clone, Debug)]
pub(crate) enum RaftMessage {
    /// A candidate asks. A `trial` changes the term of no node.
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
    },
    Newer {
        term: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Role {
    Follower,
    Candidate { trial: bool, votes: [bool; NODES] },
    Leader(Peers),
}

/// A leader's knowledge of the others.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    next: [u64; NODES],
    matched: [u64; NODES],
    probed: [u64; NODES],
    heard: [u64; NODES],
}

/// One node's part. The log, the term and the vote survive a crash.
#[derive(Debug)]
pub(crate) struct Raft {
    me: usize,
    pub(crate) term: u64,
    voted: Option<usize>,
    pub(crate) log: Vec<Entry>,
    pub(crate) commit: u64,
    pub(crate) role: Role,
    pub(crate) hint: Option<usize>,
    probe: u64,
    heard: u64,
    patience: u64,
    /// Time for which a leader without a quorum continues.
    pub(crate) doubt: u64,
    pub(crate) out: Vec<(usize, RaftMessage)>,
}

impl Raft {
    const ELECTION: u64 = 250 * MS;
    const BATCH: usize = 64;

    pub(crate) fn new(me: usize) -> Self {
        Self {
            me,
            term: 0,
            voted: None,
            log: Vec::new(),
            commit: 0,
            role: Role::Follower,
            hint: None,
            probe: 0,
            heard: 0,
            patience: Self::ELECTION,
            doubt: 1_200 * MS,
            out: Vec::new(),
        }
    }

    pub(crate) fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Starts a new process on the same disk.
    pub(crate) fn restart(&mut self, now: u64) {
        self.role = Role::Follower;
        self.hint = None;
        self.heard = now;
        self.out.clear();
    }

    fn last(&self) -> (u64, u64) {
        let index = self.log.len() as u64;
        (self.term_at(index), index)
    }

    fn term_at(&self, index: u64) -> u64 {
        match index {
            0 => 0,
            _ => self
                .log
                .get(index as usize - 1)
                .map_or(u64::MAX, |entry| entry.term),
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..NODES).filter(move |&node| node != me)
    }

    /// Appends to the log, if this node believes that it leads.
    pub(crate) fn propose(&mut self, command: Command) -> bool {
        if !self.is_leader() {
            return false;
        }
        self.log.push(Entry {
            term: self.term,
            command: Some(Rc::new(command)),
        });
        self.replicate();
        true
    }

    /// Starts a round trip to a quorum. Returns its number.
    pub(crate) fn probe(&mut self) -> u64 {
        self.probe += 1;
        self.replicate();
        self.probe
    }

    /// Returns the latest round trip that a quorum has answered, in this term.
    pub(crate) fn probed(&self) -> u64 {
        let Role::Leader(peers) = &self.role else {
            return 0;
        };
        let mut probed = peers.probed;
        probed[self.me] = self.probe;
        probed.sort_unstable();
        probed[NODES - MAJORITY]
    }

    /// Sends heartbeats, starts elections, and deposes a leader without a quorum.
    pub(crate) fn tick(&mut self, now: u64, rng: &mut Rng) {
        if let Role::Leader(peers) = &self.role {
            let deaf = self
                .others()
                .filter(|&node| now - peers.heard[node] < self.doubt)
                .count();
            if deaf + 1 < MAJORITY {
                self.role = Role::Follower;
                self.heard = now;
                self.hint = None;
                return;
            }
            self.replicate();
        } else if now - self.heard > self.patience {
            self.patience = Self::ELECTION + rng.range(0, Self::ELECTION);
            self.heard = now;
            self.hint = None;
            self.stand(true);
        }
    }

    fn stand(&mut self, trial: bool) {
        let mut votes = [false; NODES];
        votes[self.me] = true;
        if !trial {
            self.term += 1;
            self.voted = Some(self.me);
        }
        let term = self.term + u64::from(trial);
        self.role = Role::Candidate { trial, votes };
        let last = self.last();
        for to in self.others() {
            self.out
                .push((to, RaftMessage::RequestVote { term, last, trial }));
        }
    }

    fn replicate(&mut self) {
        let Role::Leader(peers) = &self.role else {
            return;
        };
        let next = peers.next;
        for to in self.others() {
            let from = next[to].min(self.log.len() as u64 + 1);
            let prev = (from - 1, self.term_at(from - 1));
            let rest = &self.log[from as usize - 1..];
            let message = RaftMessage::Append {
                term: self.term,
                prev,
                entries: rest[..rest.len().min(Self::BATCH)].to_vec(),
                commit: self.commit,
                probe: self.probe,
            };
            self.out.push((to, message));
        }
    }

    fn sees(&mut self, term: u64) {
        if term > self.term {
            self.term = term;
            self.voted = None;
            self.role = Role::Follower;
        }
    }

    pub(crate) fn handle(&mut self, from: usize, message: RaftMessage, now: u64) {
        match message {
            RaftMessage::RequestVote { term, last, trial } => {
                self.asked(from, term, last, trial, now)
            }
            RaftMessage::Vote { term, trial } => self.elect(from, term, trial, now),
            RaftMessage::Append {
                term,
                prev,
                entries,
                commit,
                probe,
            } => {
                if term < self.term {
                    let term = self.term;
                    self.out.push((from, RaftMessage::Newer { term }));
                    return;
                }
                self.sees(term);
                self.role = Role::Follower;
                (self.heard, self.hint) = (now, Some(from));
                let matched = self.append(prev, entries, commit);
                let reply = RaftMessage::Appended {
                    term,
                    matched,
                    probe,
                };
                self.out.push((from, reply));
            }
            RaftMessage::Appended {
                term,
                matched,
                probe,
            } => {
                self.sees(term);
                if term == self.term {
                    self.appended(from, matched, probe, now);
                }
            }
            RaftMessage::Newer { term } => self.sees(term),
        }
    }

    fn asked(&mut self, from: usize, term: u64, last: (u64, u64), trial: bool, now: u64) {
        // A node that hears a leader votes for no candidate.
        let content =
            self.is_leader() || (self.hint.is_some() && now - self.heard < Self::ELECTION);
        if content || term < self.term {
            let term = self.term;
            self.out.push((from, RaftMessage::Newer { term }));
            return;
        }
        let fresh = last >= self.last();
        if trial {
            if fresh && term > self.term {
                self.out.push((from, RaftMessage::Vote { term, trial }));
            }
            return;
        }
        self.sees(term);
        if fresh && self.voted.is_none_or(|voted| voted == from) {
            self.voted = Some(from);
            self.heard = now;
            self.out.push((from, RaftMessage::Vote { term, trial }));
        }
    }

    fn elect(&mut self, from: usize, term: u64, trial: bool, now: u64) {
        let Role::Candidate { trial: mine, votes } = &mut self.role else {
            return;
        };
        if *mine != trial || term != self.term + u64::from(trial) {
            return;
        }
        votes[from] = true;
        if votes.iter().filter(|&&vote| vote).count() < MAJORITY {
            return;
        }
        if trial {
            self.stand(false);
            return;
        }
        self.role = Role::Leader(Peers {
            next: [self.log.len() as u64 + 1; NODES],
            matched: [0; NODES],
            probed: [0; NODES],
            heard: [now; NODES],
        });
        self.probe = 0;
        self.hint = Some(self.me);
        self.log.push(Entry {
            term: self.term,
            command: None,
        });
        self.replicate();
    }

    fn append(&mut self, prev: (u64, u64), entries: Vec<Entry>, commit: u64) -> Result<u64, u64> {
        if self.term_at(prev.0) != prev.1 {
            return Err(self.commit.min(prev.0));
        }
        let mut index = prev.0;
        for entry in entries {
            index += 1;
            if self.term_at(index) != entry.term {
                self.log.truncate(index as usize - 1);
                self.log.push(entry);
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
        let mut all = peers.matched;
        all[self.me] = self.log.len() as u64;
        all.sort_unstable();
        let held = all[NODES - MAJORITY];
        // Only an entry of its own term commits by counting.
        if held > self.commit && self.term_at(held) == self.term {
            self.commit = held;
        }
    }
}
