//! The parts of a limit of this process that are behind a lock.

use super::places::Line;
use crate::bucket::BucketDecider;
use crate::bucket::limit::Limit;
use aliquot_core::client::Decider;
use aliquot_core::unit::{Scale, Tick};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes a limit of this process. Decisions come here only when the word is full, once in some hours, or
/// while the limit is being changed.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) state: Mutex<State>,
    /// Locked after `state`, where both are.
    pub(super) line: Line,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) decider: BucketDecider,
    pub(super) limit: Limit,
    pub(super) burst: u64,
    pub(super) scale: Scale,
}

impl Own {
    /// Applies a changed mode.
    pub(super) fn switched(&self, now: Tick) {
        self.lock().decider.switched(now);
    }

    /// Returns the tokens for which callers wait in line.
    pub(super) fn waiting(&self) -> u64 {
        let state = self.lock();
        self.line.waiting() / state.scale.grains_per_token()
    }

    /// Moves the base of the word, if it is far behind.
    pub(super) fn renew(&self, now: Tick) {
        self.lock().decider.cancel_overheld(now);
    }

    /// A panic leaves nothing under this lock half-done, so a poisoned lock is usable.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
