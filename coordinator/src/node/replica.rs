//! The replica of the state: applies committed entries, a slice of the actor's time at once.

use crate::config::SkipEntry;
use crate::raft::{Committed, Halt, MachineError, Outcome, checksum};
use aliquot_core::command::Command;
use aliquot_core::planted::{self, Bug};
use aliquot_core::state::State;
use aliquot_core::unit::Term;
use aliquot_wire::Wire;
use aliquot_wire::log::LogEntry;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The replicated state, and the entries that are being applied to it.
pub(super) struct Replica {
    state: State,
    /// Entries of which only a part is applied so far.
    batch: Option<Batch>,
}

/// Entries that Raft handed over together. It waits for the reply.
struct Batch {
    entries: std::vec::IntoIter<Committed>,
    outcomes: Vec<Outcome>,
    reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
}

/// An entry that was applied just now.
pub(super) struct Applied {
    pub(super) term: Term,
    pub(super) command: Option<Command>,
    pub(super) effects: Outcome,
}

impl Replica {
    pub(super) fn new() -> Self {
        Self {
            state: State::new(),
            batch: None,
        }
    }

    /// Returns the state up to the last applied entry.
    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Returns true while entries are half applied.
    pub(super) const fn is_applying(&self) -> bool {
        self.batch.is_some()
    }

    /// Takes committed entries. They are applied by [`Replica::apply_next`].
    pub(super) fn begin(
        &mut self,
        entries: Vec<Committed>,
        reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
    ) {
        self.batch = Some(Batch {
            outcomes: Vec::with_capacity(entries.len()),
            entries: entries.into_iter(),
            reply,
        });
    }

    /// Applies the next entry. Returns `None` if none is left.
    ///
    /// An entry that this version cannot read stops the node, and the rest of the entries is dropped. To
    /// skip it would make this replica differ from the others.
    pub(super) fn apply_next(&mut self) -> Option<Applied> {
        let batch = self.batch.as_mut()?;
        let entry = batch.entries.next()?;
        let command = match entry.command.map(|bytes| read(entry.index, bytes)) {
            Some(Ok(command)) => command,
            None => None,
            Some(Err(error)) => {
                let batch = self.batch.take()?;
                let _ = batch.reply.send(Err(error));
                return None;
            }
        };
        let effects = Arc::new(self.state.apply(entry.index, command.as_ref()));
        batch.outcomes.push(Arc::clone(&effects));
        Some(Applied {
            term: Term::new(entry.term),
            command,
            effects,
        })
    }

    /// Replies to Raft if all entries are applied.
    pub(super) fn reply_if_done(&mut self) {
        let done = |batch: &mut Batch| batch.entries.len() == 0;
        if let Some(batch) = self.batch.take_if(done) {
            let _ = batch.reply.send(Ok(batch.outcomes));
        }
    }

    /// Replaces the state by that of a snapshot, and returns the former state.
    pub(super) fn restore(&mut self, state: Box<State>) -> Box<State> {
        let mut former = state;
        if self.state.applied() == 0 || !planted::is(Bug::SnapshotUnread) {
            std::mem::swap(&mut self.state, &mut former);
        }
        former
    }
}

fn read(index: u64, bytes: Bytes) -> Result<Option<Command>, MachineError> {
    match LogEntry::from_bytes(bytes.clone()) {
        Ok(entry) => Ok(entry.command),
        Err(error) => Err(MachineError::Halted(Halt::Entry {
            entry: SkipEntry {
                index,
                checksum: checksum(&bytes),
            },
            reason: error.to_string(),
        })),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/replica.rs"]
mod tests;
