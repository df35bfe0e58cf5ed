//! Status of Raft on a node.

use super::outcome::Leader;
use super::types::{Metrics, MetricsReceiver, index_out};
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Status of Raft as this node knows it. It may be outdated as soon as it is read. Use a barrier if
/// that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Id of this node.
    pub node: u64,
    /// Latest term that this node knows of.
    pub term: u64,
    /// Leader of the term, if it is known.
    pub leader: Option<u64>,
    /// True if this node believes that it leads. It may not have committed an entry of its own term
    /// yet.
    pub leads: bool,
    /// Index up to which the log is known to be committed, or 0.
    pub committed: u64,
    /// Index up to which the log is applied, or 0.
    pub applied: u64,
    /// Last index of the log, or 0.
    pub last: u64,
    /// Index up to which the last snapshot reaches, or 0.
    pub snapshot: u64,
    /// Index up to which the log was purged, or 0.
    pub purged: u64,
    /// Addresses of the voters, by id.
    pub voters: BTreeMap<u64, String>,
    /// Addresses of the learners, by id.
    pub learners: BTreeMap<u64, String>,
    /// Index up to which each other member's log is known to match this one, while this node leads.
    pub matched: BTreeMap<u64, u64>,
    /// True if this node has, or had, any entry of a log: it is, or was, part of a cluster.
    pub formed: bool,
    /// Reason why the log has stopped, if it has.
    pub failed: Option<String>,
}

impl Status {
    /// Returns the id and address of the leader, if both are known.
    #[must_use]
    pub fn leader_address(&self) -> Option<Leader> {
        let leader = self.leader?;
        let known = self.voters.get(&leader).or(self.learners.get(&leader));
        known.map(|address| (leader, address.clone()))
    }

    /// Returns true if nothing differs but the progress of the log.
    fn equals_but_progress(&self, other: &Self) -> bool {
        let coarse = |status: &Self| {
            let (node, term, formed) = (status.node, status.term, status.formed);
            (node, term, status.leader, status.leads, formed)
        };
        coarse(self) == coarse(other)
            && (&self.voters, &self.learners, &self.failed)
                == (&other.voters, &other.learners, &other.failed)
    }

    /// Takes over the progress of the log.
    pub(crate) fn advance(&mut self, latest: &Self) {
        self.committed = latest.committed;
        self.applied = latest.applied;
        self.last = latest.last;
        self.snapshot = latest.snapshot;
        self.purged = latest.purged;
        self.matched.clone_from(&latest.matched);
    }

    /// Returns the address of a member.
    #[must_use]
    pub fn address(&self, node: u64) -> Option<&String> {
        self.voters.get(&node).or(self.learners.get(&node))
    }

    pub(super) fn of(metrics: &Metrics, was_formed: bool) -> Self {
        let membership = metrics.membership_config.membership();
        let mut learners: BTreeMap<u64, String> = membership
            .nodes()
            .map(|(node, at)| (*node, at.addr.clone()))
            .collect();
        let votes: Vec<u64> = membership.voter_ids().collect();
        let voters = votes.into_iter().filter_map(|node| {
            let address = learners.remove(&node)?;
            Some((node, address))
        });
        let voters: BTreeMap<u64, String> = voters.collect();
        let index = |id: Option<&super::types::LogId>| id.map_or(0, |id| index_out(id.index));
        let failed = metrics.running_state.as_ref().err();
        Self {
            node: metrics.id,
            term: metrics.current_term,
            leader: metrics.current_leader,
            leads: metrics.state.is_leader(),
            committed: index(metrics.local_committed.as_ref()),
            applied: index(metrics.last_applied.as_ref()),
            last: metrics.last_log_index.map_or(0, index_out),
            snapshot: index(metrics.snapshot.as_ref()),
            purged: index(metrics.purged.as_ref()),
            formed: was_formed || !voters.is_empty() || metrics.last_log_index.is_some(),
            matched: matched(metrics),
            voters,
            learners,
            failed: failed.map(ToString::to_string),
        }
    }
}

fn matched(metrics: &Metrics) -> BTreeMap<u64, u64> {
    let known = metrics.replication.iter().flatten();
    let matched = known.map(|(node, id)| (*node, id.as_ref().map_or(0, |id| index_out(id.index))));
    matched.filter(|(node, _)| *node != metrics.id).collect()
}

/// Receivers of a status: one for every change, and one that ignores the progress of the log.
#[derive(Debug)]
pub(super) struct StatusReceivers {
    pub(super) status: watch::Receiver<Status>,
    pub(super) coarse_status: watch::Receiver<Status>,
}

/// Keeps a status up to date until the core is gone. The value of `coarse_status` is up to date as well, even
/// where it does not notify.
pub(super) fn follow(metrics: MetricsReceiver, first: Status) -> StatusReceivers {
    let (status_sender, status) = watch::channel(first.clone());
    let (coarse_sender, coarse_status) = watch::channel(first);
    tokio::spawn(tell(metrics, status_sender, coarse_sender));
    StatusReceivers {
        status,
        coarse_status,
    }
}

async fn tell(
    mut metrics: MetricsReceiver,
    status: watch::Sender<Status>,
    coarse_status: watch::Sender<Status>,
) {
    let was_formed = status.borrow().formed;
    loop {
        let now = Status::of(&metrics.borrow_and_update(), was_formed);
        if *status.borrow() != now {
            status.send_replace(now.clone());
        }
        coarse_status.send_if_modified(|known| {
            let changed = !known.equals_but_progress(&now);
            *known = now;
            changed
        });
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/raft/status.rs"]
mod tests;
