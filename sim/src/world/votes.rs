//! Elections of the modelled log: pre-votes (trials), votes, and transfers of leadership.

use super::log::{Entry, Log, LogMessage, Peers, Role};

impl Log {
    pub(super) fn stand(&mut self, trial: bool) {
        if self.broken {
            return;
        }
        let mut votes = vec![false; self.size];
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
                .push((to, LogMessage::RequestVote { term, last, trial }));
        }
        self.count_votes();
    }

    pub(super) fn asked(
        &mut self,
        from: usize,
        term: u64,
        last: (u64, u64),
        trial: bool,
        now: u64,
    ) {
        // A node that hears a leader rejects pre-votes.
        let has_leader = self.hint.is_some() && now.saturating_sub(self.heard) < self.silence();
        let content = trial && (self.is_leader() || has_leader);
        // A rejected pre-vote must tell its candidate of a newer term as well. Otherwise a candidate with the
        // best log that never hears of that term would try forever, and no other node could win.
        let old = term < self.term || trial && term == self.term;
        if content || old || self.broken {
            let term = self.term;
            self.out.push((from, LogMessage::Newer { term }));
            return;
        }
        let fresh = last >= self.last();
        if trial {
            if fresh {
                self.out.push((from, LogMessage::Vote { term, trial }));
            }
            return;
        }
        self.sees(term);
        if fresh && !self.is_leader() && self.voted.is_none_or(|voted| voted == from) {
            self.voted = Some(from);
            (self.heard, self.hint) = (now, None);
            self.out.push((from, LogMessage::Vote { term, trial }));
        }
    }

    pub(super) fn elect(&mut self, from: usize, term: u64, trial: bool, now: u64) {
        let Role::Candidate { trial: mine, votes } = &mut self.role else {
            return;
        };
        if *mine != trial || term != self.term + u64::from(trial) {
            return;
        }
        votes[from] = true;
        self.heard = now;
        self.count_votes();
    }

    pub(super) fn count_votes(&mut self) {
        let Role::Candidate { trial, votes } = &self.role else {
            return;
        };
        if votes.iter().filter(|&&vote| vote).count() < self.majority() {
            return;
        }
        if *trial {
            self.stand(false);
            return;
        }
        let next = self.entries.len() as u64 + 1;
        self.role = Role::Leader(Peers {
            next: vec![next; self.size],
            matched: vec![0; self.size],
            probed: vec![0; self.size],
            heard: vec![self.heard; self.size],
            handing: None,
        });
        self.probe = 0;
        self.hint = Some(self.me);
        self.entries.push(Entry {
            term: self.term,
            command: None,
        });
        self.count_up();
        self.replicate();
    }

    /// Transfers leadership to another node. Returns false if this node does not lead.
    pub(crate) fn transfer(&mut self, to: usize, now: u64) -> bool {
        let term = self.term;
        let Role::Leader(peers) = &mut self.role else {
            return false;
        };
        if to == self.me {
            return false;
        }
        peers.handing = Some(now);
        self.replicate();
        self.out.push((to, LogMessage::Stand { term }));
        true
    }

    /// Steps down as leader.
    pub(crate) fn step_down(&mut self, now: u64) {
        self.role = Role::Follower;
        (self.heard, self.hint) = (now, None);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/world/votes.rs"]
mod tests;
