//! Writes of operators: a command is theirs until this replica has applied it.

use super::actor::{Actor, Control};
use super::office::entry;
use crate::raft::ProposeError;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::RequestId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;

/// What became of a write.
pub(super) type Written = Result<Vec<Effect>, ProposeError>;

/// Who waits for which request. Several may wait for one: a retry joins.
pub(super) type Writers = BTreeMap<RequestId, Vec<oneshot::Sender<Written>>>;

/// How long a leader is looked for.
const TRY_FOR: Duration = Duration::from_secs(5);

/// The request of a command, where it has one.
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
    /// Proposes a command wherever the leader is; the reply comes when it is
    /// applied here. A command without a request has nobody to reply to.
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

    /// Tells who waits for a command that it was applied, and what it did.
    pub(super) fn tell_writers(&mut self, command: Option<&Command>, effects: &[Effect]) {
        let request = command.and_then(request);
        let writers = request.and_then(|request| self.writers.remove(&request));
        for writer in writers.into_iter().flatten() {
            let _ = writer.send(Ok(effects.to_vec()));
        }
    }
}
