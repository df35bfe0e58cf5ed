//! What a node knows of its cluster's log.

use super::outcome::Leader;
use super::types::{Metrics, MetricsReceiver, index_out};
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// What a node knows of its cluster's log. It may be out of date as soon as it
/// is read: ask for a barrier where it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The node.
    pub node: u64,
    /// The term that it knows of.
    pub term: u64,
    /// Who leads the term, if it is known.
    pub leader: Option<u64>,
    /// Whether this node leads, as it believes. It may not have committed an
    /// entry of its own term yet.
    pub leads: bool,
    /// The index up to which it knows the log to be committed; 0 for nothing.
    pub committed: u64,
    /// The index up to which the log is applied; 0 for nothing.
    pub applied: u64,
    /// The last index of its log; 0 for nothing.
    pub last: u64,
    /// The index up to which its last snapshot reaches; 0 for nothing.
    pub snapshot: u64,
    /// The index up to which its log was purged; 0 for nothing.
    pub purged: u64,
    /// Who votes, with their addresses.
    pub voters: BTreeMap<u64, String>,
    /// Who only learns, with their addresses.
    pub learners: BTreeMap<u64, String>,
    /// How far each other member's log is known to agree with this one's, while
    /// this node leads.
    pub matched: BTreeMap<u64, u64>,
    /// Whether the node has any entry of a log: it is, or was, part of a cluster.
    pub formed: bool,
    /// Why the log does not go on, if it does not.
    pub failed: Option<String>,
}

impl Status {
    /// Who leads, and where, if both are known.
    #[must_use]
    pub fn leader_address(&self) -> Option<Leader> {
        let leader = self.leader?;
        let known = self.voters.get(&leader).or(self.learners.get(&leader));
        known.map(|address| (leader, address.clone()))
    }

    /// The address of a member.
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

/// Keeps a status up to date until the core is gone.
pub(super) async fn follow(
    mut metrics: MetricsReceiver,
    status: watch::Sender<Status>,
    was_formed: bool,
) {
    loop {
        let now = Status::of(&metrics.borrow_and_update(), was_formed);
        status.send_if_modified(|status| {
            let changed = *status != now;
            *status = now;
            changed
        });
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
