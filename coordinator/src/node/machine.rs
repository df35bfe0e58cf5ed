//! The log's reader: hands every committed entry to the actor and waits.

use super::actor::Control;
use crate::raft::{Committed, Machine, MachineError, Outcome};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

/// What raft calls; the actor answers.
#[derive(Debug)]
pub(super) struct ActorMachine {
    pub(super) control: mpsc::UnboundedSender<Control>,
}

impl ActorMachine {
    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, MachineError>>) -> Control,
    ) -> Result<T, MachineError> {
        let (reply, answer) = oneshot::channel();
        let stopped = || MachineError::Failed {
            reason: "the node is stopping; nothing more is applied".to_owned(),
        };
        self.control.send(ask(reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Machine for ActorMachine {
    fn apply(
        &mut self,
        entries: Vec<Committed>,
    ) -> BoxFuture<'_, Result<Vec<Outcome>, MachineError>> {
        Box::pin(self.ask(|reply| Control::Apply { entries, reply }))
    }

    fn snapshot(&mut self) -> BoxFuture<'_, Result<Bytes, MachineError>> {
        Box::pin(self.ask(|reply| Control::Snapshot { reply }))
    }

    fn restore(&mut self, index: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), MachineError>> {
        Box::pin(self.ask(move |reply| Control::Restore {
            index,
            bytes,
            reply,
        }))
    }
}
