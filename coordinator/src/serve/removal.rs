//! Learning that this node was removed from the cluster.
//!
//! A node that runs when it is removed finds that in its log. A node that was down then is sent nothing any
//! more. While it has no lease, it therefore asks the members that it knows of.

use super::members::Members;
use crate::api::backend::REMOVED;
use crate::node::NodeHandle;
use crate::timer;
use aliquot_core::unit::NodeId;
use std::time::Duration;
use tokio::sync::watch;

/// Interval at which this node's own log is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The node that may have been removed, and the others.
pub(super) struct Removal {
    pub(super) handle: NodeHandle,
    pub(super) members: Members,
}

impl Removal {
    /// Starts to look. The receiver is true once this node is known to have been removed.
    pub(super) fn watch(self) -> watch::Receiver<bool> {
        let (removed, receiver) = watch::channel(false);
        tokio::spawn(async move {
            if self.learned().await {
                tracing::warn!(
                    node = self.members.node,
                    "{REMOVED}: it serves no clients and makes no changes; stop it, and move its data_dir away \
                     before you start it again; it then joins under a new id"
                );
                removed.send_replace(true);
            }
        });
        receiver
    }

    /// Returns true once this node was removed, and false when it stops.
    async fn learned(&self) -> bool {
        let own = NodeId::new(self.members.node);
        loop {
            let seen = self.handle.view(move |view| {
                let is_leased = view.node.is_some_and(|node| node.is_leased(view.now));
                (view.state.was_removed(own), is_leased)
            });
            match seen.await {
                Err(_) => return false,
                Ok((true, _)) => return true,
                Ok((false, false)) if self.is_reported_removed().await => return true,
                Ok(_) => timer::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Returns true if another member reports that this node was removed.
    async fn is_reported_removed(&self) -> bool {
        let answers = self.members.ask().await;
        answers.iter().any(|answer| answer.view.caller_removed)
    }
}
