//! Writes of operators: the caller waits until this replica has applied the command.

use super::context::{Context, entry};
use super::inbox::{Control, Written};
use crate::raft::ProposeError;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::RequestId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;

/// Callers that wait, by request id. A retry with the same id waits together with the first attempt.
#[derive(Debug, Default)]
pub(super) struct Writers {
    waiting: BTreeMap<RequestId, Vec<oneshot::Sender<Written>>>,
}

/// Maximum time for which a leader is looked for.
const TRY_FOR: Duration = Duration::from_secs(5);

impl Writers {
    /// Proposes a command to the leader, whichever node that is. The reply is sent once the command is
    /// applied here. A command without a request id is refused.
    pub(super) fn write(
        &mut self,
        command: Command,
        reply: oneshot::Sender<Written>,
        context: &Context,
    ) {
        let (Some(raft), Some(request)) = (context.raft.clone(), request(&command)) else {
            let _ = reply.send(Err(ProposeError::Stopped));
            return;
        };
        let command = match entry(command) {
            Ok(command) => command,
            Err(error) => {
                let reason = error.to_string();
                let _ = reply.send(Err(ProposeError::Unreadable { reason }));
                return;
            }
        };
        self.waiting.entry(request).or_default().push(reply);
        let control = context.control.clone();
        tokio::spawn(async move {
            let proposed = raft.propose_anywhere(command, TRY_FOR).await;
            if let Err(error) = proposed {
                let _ = control.send(Control::WriteFailed { request, error });
            }
        });
    }

    /// Tells the callers that wait for a command that it was not taken, or that its fate is unknown.
    pub(super) fn failed(&mut self, request: RequestId, error: &ProposeError) {
        for writer in self.waiting.remove(&request).into_iter().flatten() {
            let _ = writer.send(Err(error.clone()));
        }
    }

    /// Tells the callers that wait for a command that it was applied, and its effects.
    pub(super) fn applied(&mut self, command: Option<&Command>, effects: &[Effect]) {
        let request = command.and_then(request);
        let writers = request.and_then(|request| self.waiting.remove(&request));
        for writer in writers.into_iter().flatten() {
            let _ = writer.send(Ok(effects.to_vec()));
        }
    }
}

/// Returns the request id of a command, if it has one.
const fn request(command: &Command) -> Option<RequestId> {
    match command {
        Command::Join { request, .. }
        | Command::PutRule { request, .. }
        | Command::DeleteRule { request, .. }
        | Command::Apply { request, .. } => Some(*request),
        Command::Remove { .. }
        | Command::Configure { .. }
        | Command::Instantiate { .. }
        | Command::Round(_) => None,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/writes.rs"]
mod tests;
