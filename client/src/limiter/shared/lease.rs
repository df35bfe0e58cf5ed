//! The end of the session's lease, as decisions read it.
//!
//! Two atomics, stored with `Release` by the session and loaded with `Acquire` by decisions. A decision loads
//! the lease after the word of its bucket. So it never uses the capacity of a new edge under the lease of the
//! former one. If it uses former capacity under a new lease, its swap fails, since the word changed before
//! that lease was stored.

use crate::clock::HostClock;
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::Tick;

/// The end of the session's lease, on a cache line of its own, because every decision reads it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct LeaseWord(
    pub(crate) AtomicU64,
    /// The same end by the kernel's coarse clock, as far as the difference of the clocks is known.
    AtomicU64,
);

impl LeaseWord {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0), AtomicU64::new(0))
    }

    /// Sets the end of the lease. Called by the session alone.
    pub(super) fn set(&self, until: Tick) {
        self.0.store(until.nanos(), Ordering::Release);
        self.align();
    }

    /// Converts the end to the coarse clock again, after the clocks were compared anew. Called by the session
    /// alone.
    pub(super) fn align(&self) {
        let until = Tick::from_nanos(self.0.load(Ordering::Acquire));
        self.1.store(HostClock::coarse_at(until), Ordering::Release);
    }

    /// Returns true if the lease may have ended, by the kernel's coarse clock. Inlined, since a call took a
    /// fifth of a leased decision; the end by that clock is computed beforehand.
    #[inline(always)]
    pub(crate) fn may_be_over(&self) -> bool {
        let until = self.1.load(Ordering::Acquire);
        HostClock::coarse() >= until
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/limiter/shared/lease.rs"]
mod tests;
