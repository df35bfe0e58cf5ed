//! A limit that failures lower.

use super::{Bounds, Sample};
use aliquot_core::unit::Tick;

/// A limit within its bounds, which failures lower.
#[derive(Clone, Debug)]
pub(super) struct FailureBackoff {
    pub(super) bounds: Bounds,
    pub(super) limit: f64,
    /// When a failure last lowered the limit.
    lowered: Tick,
}

impl FailureBackoff {
    pub(super) const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.start as f64,
            lowered: Tick::ZERO,
        }
    }

    pub(super) fn add(&mut self, step: f64) {
        self.limit = self.bounds.clip(self.limit + step);
    }

    /// Lowers the limit to a part of it after a failure, and returns true. Does nothing if the call began
    /// before a failure last lowered the limit: all calls of that time fail for the same reason.
    pub(super) fn fail(&mut self, failed: &Sample, keep: f64) -> bool {
        let is_new = failed.began() >= self.lowered;
        if is_new {
            self.limit = self.bounds.clip((self.limit * keep).floor());
            self.lowered = failed.now;
        }
        is_new
    }
}
