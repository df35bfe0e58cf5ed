//! The log's reader: hands every committed entry to the actor and waits.

use crate::raft::{Committed, Machine, MachineError, Outcome};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

/// What the log wants done, one at a time: who asks waits for the reply.
pub(super) enum Log {
    /// Committed entries are to be applied, in order.
    Apply {
        entries: Vec<Committed>,
        reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
    },
    /// A snapshot of the state is wanted.
    Snapshot {
        reply: oneshot::Sender<Result<Bytes, MachineError>>,
    },
    /// The state becomes that of a snapshot.
    Restore {
        index: u64,
        bytes: Bytes,
        reply: oneshot::Sender<Result<(), MachineError>>,
    },
}

/// What raft calls; the actor answers.
#[derive(Debug)]
pub(super) struct ActorMachine {
    pub(super) log: mpsc::Sender<Log>,
}

impl ActorMachine {
    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, MachineError>>) -> Log,
    ) -> Result<T, MachineError> {
        let (reply, answer) = oneshot::channel();
        let stopped = || MachineError::Failed {
            reason: "the node is stopping; nothing more is applied".to_owned(),
        };
        let sent = self.log.send(ask(reply)).await;
        sent.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Machine for ActorMachine {
    fn apply(
        &mut self,
        entries: Vec<Committed>,
    ) -> BoxFuture<'_, Result<Vec<Outcome>, MachineError>> {
        Box::pin(self.ask(|reply| Log::Apply { entries, reply }))
    }

    fn snapshot(&mut self) -> BoxFuture<'_, Result<Bytes, MachineError>> {
        Box::pin(self.ask(|reply| Log::Snapshot { reply }))
    }

    fn restore(&mut self, index: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), MachineError>> {
        Box::pin(self.ask(move |reply| Log::Restore {
            index,
            bytes,
            reply,
        }))
    }
}
