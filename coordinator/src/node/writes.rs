//! Writes of operators: the caller waits until this replica has applied the command.

use super::actor::{Actor, Control};
use super::leadership::entry;
use crate::raft::ProposeError;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::RequestId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;

/// Result of a write: the effects of the command, or the reason that there are none.
pub(super) type Written = Result<Vec<Effect>, ProposeError>;

/// Callers that wait, by request id. A retry with the same id waits together with the first attempt.
pub(super) type Writers = BTreeMap<RequestId, Vec<oneshot::Sender<Written>>>;

/// Maximum time for which a leader is looked for.
const TRY_FOR: Duration = Duration::from_secs(5);

/// Returns the request id of a command, if it has one.
const fn request(command: &Command) -> Option<RequestId> {
    match command {
        Command::Join { request, .. }
        | Command::PutRule { request, .. }
        | Command::DeleteRule { request, .. }
        | Command::Apply { request, .. }
        | Command::ResetPeriod { request, .. } => Some(*request),
        Command::Remove { .. }
        | Command::Configure { .. }
        | Command::Instantiate { .. }
        | Command::Round(_) => None,
    }
}

impl Actor {
    /// Proposes a command to the leader, whichever node that is. The reply is sent once the command is
    /// applied here. A command without a request id is refused.
    pub(super) fn write(&mut self, command: Command, reply: oneshot::Sender<Written>) {
        let (Some(raft), Some(request)) = (self.raft.clone(), request(&command)) else {
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
        self.writers.entry(request).or_default().push(reply);
        let control = self.control.clone();
        tokio::spawn(async move {
            let proposed = raft.propose_anywhere(command, TRY_FOR).await;
            if let Err(error) = proposed {
                let _ = control.send(Control::WriteFailed { request, error });
            }
        });
    }

    pub(super) fn write_failed(&mut self, request: RequestId, error: &ProposeError) {
        for writer in self.writers.remove(&request).into_iter().flatten() {
            let _ = writer.send(Err(error.clone()));
        }
    }

    /// Tells the callers that wait for a command that it was applied, and its effects.
    pub(super) fn tell_writers(&mut self, command: Option<&Command>, effects: &[Effect]) {
        let request = command.and_then(request);
        let writers = request.and_then(|request| self.writers.remove(&request));
        for writer in writers.into_iter().flatten() {
            let _ = writer.send(Ok(effects.to_vec()));
        }
    }
}
