//! What the kernel last wrote down of its clock: next to free, and a little late.

use super::HostClock;
use aliquot_core::unit::Tick;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the boot clock is ahead of the monotonic one: the time that the machine was
/// suspended. It only grows.
static SUSPENDED: AtomicU64 = AtomicU64::new(0);

impl HostClock {
    /// The kernel writes its clock down at each of its ticks, which are 1 to 10 ms apart: by no more than this
    /// is a reading of that late, with a tick missed.
    pub(crate) const LATE: u64 = 20_000_000;

    /// What the kernel last wrote down, by its own count.
    #[inline(always)]
    pub(crate) fn coarse() -> u64 {
        nanos(clock_gettime(ClockId::MonotonicCoarse))
    }

    /// Before [`HostClock::coarse`] says so much it is before a tick, but for what the machine is suspended from here to the next
    /// [`HostClock::align`].
    pub(crate) fn coarse_at(tick: Tick) -> u64 {
        let early = Self::LATE.saturating_add(SUSPENDED.load(Ordering::Relaxed));
        tick.nanos().saturating_sub(early)
    }

    /// Between which two ticks it is now.
    #[inline]
    pub(crate) fn bounds() -> (Tick, Tick) {
        let least = Self::coarse();
        let least = least.saturating_add(SUSPENDED.load(Ordering::Relaxed));
        let most = least.saturating_add(Self::LATE);
        (Tick::from_nanos(least), Tick::from_nanos(most))
    }

    /// Learns how long the machine was suspended. The session does so at each look.
    pub(crate) fn align() {
        // In this order: what passes between the two counts as suspended, against a lease.
        let monotonic = nanos(clock_gettime(ClockId::Monotonic));
        let boot = nanos(clock_gettime(ClockId::Boottime));
        SUSPENDED.fetch_max(boot.saturating_sub(monotonic), Ordering::Relaxed);
    }
}

#[inline(always)]
fn nanos(time: Timespec) -> u64 {
    // Neither clock was ever before its start.
    let (secs, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    secs.wrapping_mul(1_000_000_000).wrapping_add(nanos)
}

#[cfg(test)]
impl HostClock {
    /// The machine was suspended, for so little that no lease of other tests is over for it.
    pub(crate) fn suspend(nanos: u64) {
        SUSPENDED.fetch_add(nanos, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_was_suspended_is_against_a_lease() {
        const MORE: u64 = 1_000;
        let until = HostClock::coarse().saturating_add(HostClock::LATE * 1_000);
        let coarse = || HostClock::coarse_at(Tick::from_nanos(until));
        let before = coarse();
        assert!(before + HostClock::LATE <= until);
        HostClock::suspend(MORE);
        assert!(coarse() + MORE <= before);
    }
}
