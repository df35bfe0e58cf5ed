//! The context in which the parts of the actor handle an input.

use super::counts::Counts;
use super::inbox::Control;
use super::longest_turn::SLICE;
use super::options::Options;
use crate::raft::{Raft, Status};
use aliquot_core::command::Command;
use aliquot_core::unit::{Span, Tick};
use aliquot_wire::log::LogEntry;
use aliquot_wire::{Sealed, WireError};
use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum time for which a proposal looks for a leader.
const TRY_FOR: Duration = Duration::from_secs(2);

/// The time, the options and the status of this node, and the ways out that every part may use.
///
/// The actor owns it, and lends it to a part together with the input. Only the actor writes the time, the
/// status and the log. Any part may count, draw random numbers, and start tasks that report to `control`.
pub(super) struct Context {
    pub(super) options: Options,
    /// Time of the input, on the clock of leases. It is read once for all inputs that are handled together.
    pub(super) now: Tick,
    /// Processor time of the actor's thread at that time.
    pub(super) thread_time: Span,
    pub(super) status: Status,
    /// The log, once it is open.
    pub(super) raft: Option<Raft>,
    /// The way back to the actor for tasks that a part started.
    pub(super) control: mpsc::UnboundedSender<Control>,
    pub(super) counts: Counts,
    pub(super) rng: StdRng,
}

impl Context {
    pub(super) fn new(options: Options, control: mpsc::UnboundedSender<Control>) -> Self {
        Self {
            now: options.clock.now(),
            thread_time: options.clock.thread_time(),
            rng: StdRng::seed_from_u64(options.seed),
            status: Status::default(),
            raft: None,
            control,
            counts: Counts::default(),
            options,
        }
    }

    /// Reads the clock once for all inputs that are handled together. Ticks never go back.
    pub(super) fn read_clock(&mut self) {
        self.now = self.now.max(self.options.clock.now());
        self.thread_time = self.options.clock.thread_time();
    }

    /// Returns true if the current work has used up its slice of the turn.
    pub(super) fn slice_is_over(&self) -> bool {
        self.options.clock.now().since(self.now) >= SLICE
    }

    /// Hands a command to the leader, whichever node that is. A caller that needs the command applied
    /// checks the state, and asks again if it was not.
    pub(super) fn propose_anywhere(&self, command: Command) {
        let Some(raft) = self.raft.clone() else {
            return;
        };
        let command = match entry(command) {
            Ok(command) => command,
            Err(error) => {
                tracing::error!(%error, "a command was not proposed: it cannot be decoded");
                return;
            }
        };
        tokio::spawn(async move {
            let proposed = raft.propose_anywhere(command, TRY_FOR).await;
            if let Err(error) = proposed {
                tracing::debug!(%error, "a command was not taken yet");
            }
        });
    }
}

/// Encodes a command as the log carries it, and reads it back once. An entry that cannot be read would
/// be committed all the same, and would stop every replica.
///
/// # Errors
///
/// The reader's error. The command must not be proposed.
pub(super) fn entry(command: Command) -> Result<Bytes, WireError> {
    let entry = LogEntry {
        command: Some(command),
    };
    Sealed::seal(&entry).map(Sealed::into_bytes)
}

#[cfg(test)]
#[path = "../../tests/unit/node/context.rs"]
pub(super) mod tests;
