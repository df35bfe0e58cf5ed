//! The replica of the state: applies committed entries, a slice of the actor's time at once.

use crate::config::SkipEntry;
use crate::raft::{Committed, Halt, MachineError, Outcome, checksum};
use aliquot_core::command::Command;
use aliquot_core::planted::{self, Bug};
use aliquot_core::state::State;
use aliquot_core::unit::Term;
use aliquot_wire::log::LogEntry;
use aliquot_wire::{Wire, WireError};
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
    /// The entry of which only a slice is applied so far.
    half_applied: Option<Arc<Entry>>,
    outcomes: Vec<Outcome>,
    reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
}

/// A committed entry, as it was read.
pub(super) struct Entry {
    index: u64,
    pub(super) term: Term,
    pub(super) command: Option<Command>,
}

/// An entry that was applied just now, or a slice of it.
pub(super) struct Applied {
    pub(super) entry: Arc<Entry>,
    pub(super) effects: Outcome,
    /// False if another slice of the entry follows.
    pub(super) is_whole: bool,
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
            half_applied: None,
            reply,
        });
    }

    /// Applies the next entry, or the next slice of one. Returns `None` if none is left.
    ///
    /// An entry that this version cannot read stops the node, and the rest of the entries is dropped. To
    /// skip it would make this replica differ from the others.
    pub(super) fn apply_next(&mut self) -> Option<Applied> {
        let batch = self.batch.as_mut()?;
        let entry = match batch.half_applied.take() {
            Some(entry) => entry,
            None => match batch.entries.next().map(read)? {
                Ok(entry) => Arc::new(entry),
                Err(error) => {
                    let batch = self.batch.take()?;
                    let _ = batch.reply.send(Err(error));
                    return None;
                }
            },
        };
        let command = entry.command.as_ref();
        let effects = self
            .state
            .apply_slice(entry.index, command, State::CLOSINGS_MAX);
        let effects = Arc::new(effects);
        let is_whole = !self.state.is_half_applied();
        match is_whole {
            // The slices before move holdings, which no caller waits for.
            true => batch.outcomes.push(Arc::clone(&effects)),
            false => batch.half_applied = Some(Arc::clone(&entry)),
        }
        Some(Applied {
            entry,
            effects,
            is_whole,
        })
    }

    /// Replies to Raft if all entries are applied.
    pub(super) fn reply_if_done(&mut self) {
        let done = |batch: &mut Batch| batch.entries.len() == 0 && batch.half_applied.is_none();
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

fn read(entry: Committed) -> Result<Entry, MachineError> {
    let Committed {
        index,
        term,
        command: bytes,
    } = entry;
    let unreadable = |bytes: &Bytes, error: WireError| {
        MachineError::Halted(Halt::Entry {
            entry: SkipEntry {
                index,
                checksum: checksum(bytes),
            },
            reason: error.to_string(),
        })
    };
    let read = |bytes: Bytes| {
        let entry = LogEntry::from_bytes(bytes.clone());
        entry.map_err(|error| unreadable(&bytes, error))
    };
    Ok(Entry {
        index,
        term: Term::new(term),
        command: bytes.map(read).transpose()?.and_then(|entry| entry.command),
    })
}

#[cfg(test)]
#[path = "../../tests/unit/node/replica.rs"]
mod tests;
