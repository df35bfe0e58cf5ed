//! Access to the actor for the rest of the process.

use super::inbox::{Forwarded, Query, Written};
use super::view::View;
use crate::raft::ProposeError;
use crate::{gossip, session};
use aliquot_core::central::{DecisionReply, DecisionRequest, Release};
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

/// The actor is gone: the process is stopping, or its log has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is stopping")]
pub struct Stopped;

/// Handle of an actor.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    pub(super) queries: mpsc::Sender<Query>,
    pub(super) sessions: mpsc::Sender<session::Event>,
    pub(super) links: mpsc::Sender<gossip::Event>,
    pub(super) writes: mpsc::Sender<(Command, oneshot::Sender<Written>)>,
    pub(super) central: mpsc::Sender<Forwarded>,
    pub(super) leave: mpsc::Sender<oneshot::Sender<()>>,
}

impl NodeHandle {
    /// Runs a closure over the state of the node. It runs on the actor's own thread, so it should only
    /// copy what it needs.
    pub fn view<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Stopped>> {
        let queries = self.queries.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let query: Query = Box::new(move |view| {
                // The caller may be gone by now.
                let _ = reply.send(look(view));
            });
            queries.send(query).await.map_err(|_| Stopped)?;
            answer.await.map_err(|_| Stopped)
        })
    }

    /// Proposes a command with a request id to the leader, whichever node that is. Returns its effects
    /// once this node has applied it.
    ///
    /// # Errors
    ///
    /// [`ProposeError`] states whether the command may still be applied.
    pub async fn write(&self, command: Command) -> Result<Vec<Effect>, ProposeError> {
        let (reply, written) = oneshot::channel();
        let sent = self.writes.send((command, reply)).await;
        sent.map_err(|_| ProposeError::Stopped)?;
        // An actor that ended before it replied may have proposed the command.
        written.await.unwrap_or(Err(ProposeError::Unknown))
    }

    /// Decides a central request that a peer forwarded.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the actor is gone.
    pub async fn ask(&self, ask: DecisionRequest) -> Result<DecisionReply, Stopped> {
        let (reply, response) = oneshot::channel();
        let sent = self
            .central
            .send(Forwarded::DecisionRequest(ask, reply))
            .await;
        sent.map_err(|_| Stopped)?;
        response.await.map_err(|_| Stopped)
    }

    /// Takes back permits whose release a peer forwarded.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the actor is gone.
    pub async fn release(&self, release: Release) -> Result<(), Stopped> {
        let sent = self.central.send(Forwarded::Release(release)).await;
        sent.map_err(|_| Stopped)
    }

    /// Returns the sender for events of session streams.
    #[must_use]
    pub fn sessions(&self) -> mpsc::Sender<session::Event> {
        self.sessions.clone()
    }

    /// Returns the sender for events of peers' streams.
    #[must_use]
    pub fn links(&self) -> mpsc::Sender<gossip::Event> {
        self.links.clone()
    }

    /// Leaves the cluster: clients are asked to move, and the tokens that they return are handed back
    /// to the leader. Resolves when nothing is left here, or at once if the actor is gone.
    pub async fn leave(&self) {
        let (reply, done) = oneshot::channel();
        if self.leave.send(reply).await.is_ok() {
            let _ = done.await;
        }
    }
}
