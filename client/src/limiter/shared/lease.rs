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
mod tests {
    use super::*;
    use crate::clock::{Clock, Source};
    use crate::limiter::shared::{ClockPolicy, Handle};
    use aliquot_core::unit::Span;

    #[test]
    fn it_may_be_over_a_little_before_it_is() {
        let lease = LeaseWord::new();
        assert!(lease.may_be_over());
        let now = HostClock.now();
        lease.set(now.after(Span::from_secs(3_600)));
        assert!(!lease.may_be_over());
        for until in [
            now,
            now.after(Span::from_nanos(HostClock::LATE / 2)),
            Tick::from_nanos(1),
            Tick::ZERO,
        ] {
            lease.set(until);
            assert!(lease.may_be_over(), "{until:?}");
        }
        lease.set(Tick::NEVER);
        lease.align();
        assert!(!lease.may_be_over());
    }

    #[test]
    fn it_is_over_sooner_once_it_is_known_that_the_machine_was_suspended() {
        const MORE: u64 = 1_000;
        let shared = Handle::with(Source::Host, ClockPolicy::Strict).shared;
        shared.set_lease(HostClock.now().after(Span::from_secs(3_600)));
        let by_coarse = || shared.lease.1.load(Ordering::Acquire);
        let before = by_coarse();
        HostClock::suspend(MORE);
        shared.align();
        assert!(by_coarse() + MORE <= before);
    }
}
