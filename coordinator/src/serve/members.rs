//! Questions to the other members of the cluster.

use crate::clock::{Clock, HostClock};
use crate::raft::{Connector, Status};
use crate::timer;
use aliquot_wire::pb;
use aliquot_wire::pb::admin_client::AdminClient;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Maximum time for the answer of a member.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The other members, as this node knows them.
#[derive(Clone)]
pub(super) struct Members {
    pub(super) cluster: String,
    pub(super) node: u64,
    pub(super) status: watch::Receiver<Status>,
    pub(super) connector: Arc<dyn Connector>,
}

/// The answer of a member.
pub(super) struct Answer {
    /// The cluster, as the member knows it.
    pub(super) view: pb::ClusterView,
    /// Time by which its wall clock is ahead of this node's, in milliseconds.
    pub(super) ahead_ms: i64,
}

impl Members {
    /// Asks all other members for the cluster as they know it. Those that do not answer are left out.
    pub(super) async fn ask(&self) -> Vec<Answer> {
        let status = self.status.borrow().clone();
        let members = status.voters.iter().chain(&status.learners);
        let others = members.filter(|(node, _)| **node != self.node);
        let asked = others.map(|(node, address)| self.ask_one(*node, address));
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn ask_one(&self, node: u64, address: &str) -> Option<Answer> {
        let channel = self.connector.channel(address).ok()?;
        let caller = Some(self.node);
        let mut admin = AdminClient::new(channel);
        let sent_ms = HostClock.wall_ms();
        let asked = admin.get_cluster(pb::GetClusterRequest { caller });
        let answer = timer::timeout(ANSWER_WITHIN, asked).await.ok()?.ok()?;
        let view = answer.into_inner();
        // The answer was written somewhere between both readings.
        let middle_ms = sent_ms.midpoint(HostClock.wall_ms());
        let is_member = view.cluster == self.cluster && view.answering == node;
        is_member.then(|| Answer {
            ahead_ms: view.wall_ms.saturating_sub(middle_ms),
            view,
        })
    }
}
