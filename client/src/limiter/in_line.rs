//! A caller's place in the line of a limit.

use super::Limiter;
use super::places::{Line, Turn};
use crate::bucket::No;
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use tokio::sync::Notify;

/// A caller's place in line, given up when the waiting future is dropped.
pub(super) struct InLine<'a> {
    limiter: &'a Limiter,
    line: &'a Line,
    number: u64,
    pub(super) wake: Arc<Notify>,
}

impl<'a> InLine<'a> {
    pub(super) const fn new(
        limiter: &'a Limiter,
        line: &'a Line,
        number: u64,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            limiter,
            line,
            number,
            wake,
        }
    }

    /// Returns the state of the place at `now`, or the refusal if it is not due within `rest`.
    pub(super) fn turn(&self, now: Tick, rest: Span) -> Result<Turn, No> {
        let bucket = &self.limiter.key_state.bucket;
        self.line.turn_of(self.number, bucket, now, rest)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let bucket = &self.limiter.key_state.bucket;
        self.line.leave(self.number, bucket, || self.limiter.now());
    }
}
