//! Readings of the host's clocks, for each platform.
//!
//! | platform | [`boot`] | counts suspended time | [`coarse`] |
//! |---|---|---|---|
//! | Linux, Android | `CLOCK_BOOTTIME` | yes | `CLOCK_MONOTONIC_COARSE`, up to a kernel tick late |
//! | macOS, iOS | `CLOCK_MONOTONIC` | yes, as Apple documents it | the same as [`boot`] |
//! | Windows and others | [`std::time::Instant`] | depends on the operating system | the same as [`boot`] |
//!
//! Where suspended time does not count, a process keeps its lease for as long as its host was suspended.

use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::{boot, coarse, monotonic};

#[cfg(target_vendor = "apple")]
pub(super) use apple::{boot, boot as coarse, boot as monotonic};

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) use portable::{boot, boot as coarse, boot as monotonic};

/// Returns milliseconds since the Unix epoch. They are negative before it.
#[expect(
    clippy::disallowed_methods,
    reason = "the one reading of the wall clock"
)]
pub(super) fn wall_ms() -> i64 {
    let (passed, sign) = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => (since, 1),
        Err(error) => (error.duration(), -1),
    };
    i64::try_from(passed.as_millis()).unwrap_or(i64::MAX) * sign
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use rustix::time::{ClockId, Timespec, clock_gettime};

    /// Returns the time since the host started, with suspended time.
    pub(crate) fn boot() -> u64 {
        nanos(clock_gettime(ClockId::Boottime))
    }

    /// Returns the time since the host started, without suspended time.
    pub(crate) fn monotonic() -> u64 {
        nanos(clock_gettime(ClockId::Monotonic))
    }

    /// Returns [`monotonic`] as the kernel stored it at its last tick.
    #[inline(always)]
    pub(crate) fn coarse() -> u64 {
        nanos(clock_gettime(ClockId::MonotonicCoarse))
    }

    #[inline(always)]
    fn nanos(time: Timespec) -> u64 {
        // None of these clocks is ever negative.
        let (secs, nanos) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
        secs.wrapping_mul(1_000_000_000).wrapping_add(nanos)
    }
}

#[cfg(target_vendor = "apple")]
mod apple {
    use rustix::time::{ClockId, clock_gettime};

    /// Returns the time since the host started, with suspended time.
    pub(crate) fn boot() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        let (secs, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
        secs.saturating_mul(1_000_000_000).saturating_add(nanos)
    }
}

#[cfg(any(
    test,
    not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
))]
mod portable {
    use std::sync::LazyLock;
    use std::time::Instant;

    #[expect(
        clippy::disallowed_methods,
        reason = "the host's clock where there is no better one"
    )]
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// Returns the time since the first reading of this process, and a second: a tick of 0 means *never*.
    pub(crate) fn boot() -> u64 {
        let passed = FIRST.elapsed().as_nanos();
        u64::try_from(passed)
            .unwrap_or(u64::MAX)
            .saturating_add(1_000_000_000)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/clock/host.rs"]
mod tests;
