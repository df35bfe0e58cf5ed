//! How the rest of the process reaches the actor.

use super::actor::Passed;
use super::view::View;
use super::writes::Written;
use crate::raft::ProposeError;
use crate::{gossip, session};
use aliquot_core::central::{Ask, Release, Told};
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

/// The actor is gone: the process is stopping, or its log failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is stopping")]
pub struct Stopped;

/// A question that the actor answers between two inputs.
pub(super) type Question = Box<dyn FnOnce(&View<'_>) + Send>;

/// A way to the actor.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    pub(super) questions: mpsc::Sender<Question>,
    pub(super) sessions: mpsc::Sender<session::Event>,
    pub(super) links: mpsc::Sender<gossip::Event>,
    pub(super) writes: mpsc::Sender<(Command, oneshot::Sender<Written>)>,
    pub(super) central: mpsc::Sender<Passed>,
    pub(super) leave: mpsc::Sender<oneshot::Sender<()>>,
}

impl NodeHandle {
    /// Looks at the node. The closure runs on the actor's own thread: it
    /// copies what it needs and returns.
    pub fn view<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Stopped>> {
        let questions = self.questions.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let question: Question = Box::new(move |view| {
                // Who asked may have gone away meanwhile.
                let _ = reply.send(look(view));
            });
            questions.send(question).await.map_err(|_| Stopped)?;
            answer.await.map_err(|_| Stopped)
        })
    }

    /// Has a command with a request id applied, wherever the leader is; returns
    /// what it did once this node has applied it.
    ///
    /// # Errors
    ///
    /// [`ProposeError`] says whether the command may still be applied.
    pub async fn write(&self, command: Command) -> Result<Vec<Effect>, ProposeError> {
        let (reply, written) = oneshot::channel();
        let sent = self.writes.send((command, reply)).await;
        sent.map_err(|_| ProposeError::Stopped)?;
        // An actor that ends before it replies may have proposed it.
        written.await.unwrap_or(Err(ProposeError::Unknown))
    }

    /// Has a question decided that a peer passed on.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn ask(&self, ask: Ask) -> Result<Told, Stopped> {
        let (reply, told) = oneshot::channel();
        let sent = self.central.send(Passed::Ask(ask, reply)).await;
        sent.map_err(|_| Stopped)?;
        told.await.map_err(|_| Stopped)
    }

    /// Takes back permits that a peer passed on.
    ///
    /// # Errors
    ///
    /// [`Stopped`].
    pub async fn release(&self, release: Release) -> Result<(), Stopped> {
        let sent = self.central.send(Passed::Release(release)).await;
        sent.map_err(|_| Stopped)
    }

    /// Where session streams send what they hear.
    #[must_use]
    pub fn sessions(&self) -> mpsc::Sender<session::Event> {
        self.sessions.clone()
    }

    /// Where the peers' streams send what they say.
    #[must_use]
    pub fn links(&self) -> mpsc::Sender<gossip::Event> {
        self.links.clone()
    }

    /// Hands everything back: clients are asked to move, and what they return
    /// goes up. Resolves when nothing is left here, or at once if the actor is gone.
    pub async fn leave(&self) {
        let (reply, done) = oneshot::channel();
        if self.leave.send(reply).await.is_ok() {
            let _ = done.await;
        }
    }
}
