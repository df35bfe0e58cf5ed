//! The kernel's coarse clock: cheap to read, and a little late.

use super::{HostClock, host};
use aliquot_core::unit::Tick;
use std::sync::atomic::{AtomicU64, Ordering};

/// Difference between the boot clock and the monotonic clock: the time for which the host was suspended. It
/// only grows.
static SUSPENDED: AtomicU64 = AtomicU64::new(0);

impl HostClock {
    /// Maximum delay of the coarse clock. The kernel updates it at each tick, 1 to 10 ms apart; this allows
    /// for one missed tick.
    pub(crate) const LATE: u64 = 20_000_000;

    /// Returns the coarse monotonic clock, in nanoseconds.
    #[inline(always)]
    pub(crate) fn coarse() -> u64 {
        host::coarse()
    }

    /// Returns a value of [`HostClock::coarse`] before which `tick` has not come yet. Suspensions between now
    /// and the next [`HostClock::align`] are not accounted for.
    pub(crate) fn coarse_at(tick: Tick) -> u64 {
        let early = Self::LATE.saturating_add(SUSPENDED.load(Ordering::Relaxed));
        tick.nanos().saturating_sub(early)
    }

    /// Returns a tick that has come: at most [`HostClock::LATE`] before the present one.
    #[inline]
    pub(crate) fn late() -> Tick {
        let coarse = Self::coarse();
        Tick::from_nanos(coarse.saturating_add(SUSPENDED.load(Ordering::Relaxed)))
    }

    /// Measures how long the host was suspended. The session calls this each time it runs.
    pub(crate) fn align() {
        // In this order: time that passes between the two readings counts as suspended, which ends a lease
        // earlier.
        let monotonic = host::monotonic();
        let boot = host::boot();
        SUSPENDED.fetch_max(boot.saturating_sub(monotonic), Ordering::Relaxed);
    }
}

#[cfg(test)]
impl HostClock {
    /// Simulates a suspension, so short that it ends no lease of other tests.
    pub(crate) fn suspend(nanos: u64) {
        SUSPENDED.fetch_add(nanos, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/clock/coarse.rs"]
mod tests;
