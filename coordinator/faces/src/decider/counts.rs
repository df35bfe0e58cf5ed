//! Numbers of decisions, for metrics.

use super::answer::{Answer, Outcome};
use crate::rules::Face;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of decisions of a process, by face and outcome.
#[derive(Debug, Default)]
pub struct Counts([[AtomicU64; Outcome::ALL.len()]; Face::ALL.len()]);

impl Counts {
    /// Counts the answers of a face. Those of no face are not counted.
    pub(super) fn add(&self, face: Option<Face>, answers: &[Answer]) {
        let Some(face) = face else { return };
        for answer in answers {
            self.0[face as usize][answer.outcome as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of decisions of a face with this outcome.
    #[must_use]
    pub fn of(&self, face: Face, outcome: Outcome) -> u64 {
        self.0[face as usize][outcome as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/decider/counts.rs"]
mod tests;
