//! The state machine that Raft calls. It hands committed entries to the actor and waits for the
//! outcome.

use crate::raft::{Committed, Encode, Halt, Machine, MachineError, Outcome};
use crate::timer;
use aliquot_core::state::{Frozen, State};
use aliquot_wire::Wire;
use aliquot_wire::log::SnapshotFile;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

/// Requests of Raft to the actor. There is one at a time, since the caller waits for the reply.
pub(super) enum Log {
    /// Apply committed entries in order.
    Apply {
        entries: Vec<Committed>,
        reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
    },
    /// Return a frozen copy of the state, which is encoded on another thread.
    Freeze {
        reply: oneshot::Sender<Result<Frozen, MachineError>>,
    },
    /// Replace the state. The former one is returned, to be dropped on another thread.
    Restore {
        state: Box<State>,
        reply: oneshot::Sender<Result<Box<State>, MachineError>>,
    },
}

/// The [`Machine`] that Raft calls. Each call is forwarded to the actor.
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

    fn snapshot(&mut self) -> BoxFuture<'_, Result<Encode, MachineError>> {
        Box::pin(async move {
            let frozen = self.ask(|reply| Log::Freeze { reply }).await?;
            let encode: Encode = Box::new(move || {
                let snapshot = frozen.snapshot();
                SnapshotFile { snapshot }.to_bytes()
            });
            Ok(encode)
        })
    }

    fn restore(&mut self, index: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), MachineError>> {
        Box::pin(async move {
            let read = timer::beside(move || read(index, bytes)).await;
            let state = Box::new(read?);
            let former = self.ask(move |reply| Log::Restore { state, reply }).await?;
            timer::beside(move || drop(former)).await;
            Ok(())
        })
    }
}

/// Decodes the state from a snapshot.
fn read(index: u64, bytes: Bytes) -> Result<State, Halt> {
    let unreadable = |reason: String| Halt::Snapshot { index, reason };
    let file = SnapshotFile::from_bytes(bytes).map_err(|e| unreadable(e.to_string()))?;
    State::restore(file.snapshot).map_err(|e| unreadable(e.to_string()))
}
